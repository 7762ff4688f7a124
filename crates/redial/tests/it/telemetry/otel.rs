use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::{FutureExt as _, SpanKind, TraceContextExt as _, Tracer as _};
use opentelemetry::trace::{Status, TracerProvider as _};
use redial::admit::RateRule;
use redial::decide::Class;
use redial::schedule::HedgeRule;
use redial::telemetry::Meter;
use redial::{Rate, Retry, RetryableBlocking as _, Stop};

use super::spans::{Recorder, is_error, text, texts};
use crate::support::{Fault, RESET, Script, ms, stalled, unbounded};

const BUSY: Fault = Fault(Class::Overloaded, "busy");

#[tokio::test(start_paused = true)]
async fn a_call_is_a_span_and_its_attempts_are_spans_below_it() {
    let recorder = Recorder::new();
    let tracer = recorder.provider.tracer("test");
    let retry =
        Retry::new(unbounded(|p| p)).idempotent().traced(recorder.otel().named("fetch score"));
    let script = Script::new(&[Err(RESET), Err(BUSY), Ok(7)]);
    let handler = Context::current_with_span(tracer.start("handler"));
    let op = |_| {
        // The closure, and every poll of its future, runs in the span of the attempt.
        drop(tracer.start("started"));
        async {
            tokio::time::sleep(ms(1)).await;
            drop(tracer.start("polled"));
            script.next()
        }
    };
    assert_eq!(retry.run(op).with_context(handler).await.unwrap(), 7);
    let handler = recorder.root();
    assert_eq!(handler.name, "handler");
    let calls = recorder.below(&handler);
    assert_eq!(calls.len(), 1);
    assert_eq!((&*calls[0].name, text(&calls[0], "redial.attempts")), ("fetch score", "3".into()));
    assert_eq!((&calls[0].status, text(&calls[0], "redial.stop")), (&Status::Unset, "-".into()));
    assert_eq!(calls[0].span_kind, SpanKind::Internal);
    let attempts = recorder.below(&calls[0]);
    assert!(attempts.iter().all(|attempt| attempt.name == "fetch score attempt"));
    assert_eq!(texts(&attempts, "redial.attempt"), ["1", "2", "3"]);
    assert_eq!(texts(&attempts, "redial.wait_seconds"), ["-", "0.1", "0.2"]);
    assert_eq!(texts(&attempts, "redial.outcome"), ["failure", "failure", "success"]);
    assert_eq!(texts(&attempts, "error.type"), ["reset", "overloaded", "-"]);
    assert_eq!(attempts.iter().map(is_error).collect::<Vec<_>>(), [true, true, false]);
    for attempt in &attempts {
        let inner: Vec<_> = recorder.below(attempt).iter().map(|s| s.name.to_string()).collect();
        assert_eq!(inner, ["started", "polled"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_gives_up_reports_the_reason() {
    let recorder = Recorder::new();
    let retry = Retry::new(unbounded(|p| p.attempts(2))).idempotent().traced(recorder.otel());
    let error = retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
    assert_eq!(error.reason(), Stop::Attempts);
    let call = recorder.root();
    assert_eq!(call.name, "redial");
    assert_eq!(text(&call, "redial.stop"), Stop::Attempts.name());
    assert_eq!(call.status, Status::error(Stop::Attempts.to_string()));
    assert_eq!(texts(&recorder.below(&call), "redial.outcome"), ["failure", "failure"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_refused_has_no_attempts() {
    let one = RateRule::new(Rate::new(1, Duration::from_secs(3600)), 1);
    let untraced = Retry::new(unbounded(|p| p.rate(one)));
    untraced.run(|_| async { Ok::<_, Fault>(()) }).await.unwrap();
    for (untraced, reason) in [(untraced, "rate-limit"), (stalled().await, "stalled")] {
        let recorder = Recorder::new();
        let retry = untraced.traced(recorder.otel());
        retry.run(|_| async { Ok::<_, Fault>(()) }).await.unwrap_err();
        let call = recorder.root();
        assert_eq!(
            (text(&call, "redial.attempts"), text(&call, "redial.stop")),
            ("0".into(), reason.into())
        );
        assert!(is_error(&call) && recorder.below(&call).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_cut_off_timed_out() {
    let recorder = Recorder::new();
    let retry =
        Retry::new(unbounded(|p| p.attempt_timeout(ms(50)).attempts(1))).traced(recorder.otel());
    retry.run(|_| std::future::pending::<Result<(), Fault>>()).await.unwrap_err();
    let attempts = recorder.below(&recorder.root());
    assert_eq!(texts(&attempts, "error.type"), ["timeout"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_is_cancelled() {
    let recorder = Recorder::new();
    let retry = Retry::new(unbounded(|p| p)).idempotent().traced(recorder.otel());
    let never = retry.run(|_| std::future::pending::<Result<(), Fault>>());
    assert!(tokio::time::timeout(ms(10), never).await.is_err());
    let call = recorder.root();
    assert_eq!(text(&call, "redial.stop"), "cancelled");
    assert_eq!(call.status, Status::Unset);
    assert_eq!(texts(&recorder.below(&call), "redial.outcome"), ["cancelled"]);
    // Again during a wait: the attempt before it has failed.
    let recorder = Recorder::new();
    let retry = Retry::new(unbounded(|p| p)).idempotent().traced(recorder.otel());
    let waits = retry.run(|_| async { Err::<(), _>(RESET) });
    assert!(tokio::time::timeout(ms(10), waits).await.is_err());
    let call = recorder.root();
    assert_eq!(text(&call, "redial.stop"), "cancelled");
    assert_eq!(texts(&recorder.below(&call), "redial.outcome"), ["failure"]);
}

#[tokio::test(start_paused = true)]
async fn a_poll_is_not_a_failure() {
    let recorder = Recorder::new();
    let retry = Retry::new(unbounded(|p| p)).until(|n: &u32| *n == 2).traced(recorder.otel());
    let asked = Script::new(&[1, 2]);
    retry.run(|_| async { Ok::<_, Fault>(asked.next()) }).await.unwrap();
    let attempts = recorder.below(&recorder.root());
    assert_eq!(texts(&attempts, "redial.outcome"), ["not-yet", "success"]);
    assert!(!attempts.iter().any(is_error));
}

#[tokio::test(start_paused = true)]
async fn hedges_are_siblings_and_the_loser_is_cancelled() {
    let recorder = Recorder::new();
    let tracer = recorder.provider.tracer("test");
    let policy = unbounded(|p| p.hedge(HedgeRule::after(ms(50))));
    let retry = Retry::new(policy).idempotent().traced(recorder.otel());
    let op = |attempt: redial::Attempt| {
        let tracer = &tracer;
        async move {
            let pause = if attempt.number() == 1 { 5_000 } else { 10 };
            tokio::time::sleep(ms(pause)).await;
            drop(tracer.start("inside"));
            Ok::<_, Fault>(attempt.number())
        }
    };
    assert_eq!(retry.run(op).await.unwrap(), 2);
    let call = recorder.root();
    let attempts = recorder.below(&call);
    assert_eq!(texts(&attempts, "redial.attempt"), ["1", "2"]);
    assert_eq!(texts(&attempts, "redial.hedge"), ["-", "true"]);
    assert_eq!(texts(&attempts, "redial.outcome"), ["cancelled", "success"]);
    assert_eq!(texts(&attempts, "redial.wait_seconds"), ["-", "-"]);
    assert!(attempts.iter().all(|attempt| attempt.end_time <= call.end_time));
    assert!(!attempts.iter().any(is_error), "a loser has not failed");
    // The spans of the winner are its children, although the loser was polled in between.
    assert_eq!(recorder.below(&attempts[0]).len(), 0);
    assert_eq!(recorder.below(&attempts[1]).len(), 1);
}

#[test]
fn a_blocking_call_has_spans_too() {
    let recorder = Recorder::new();
    let tracer = recorder.provider.tracer("test");
    let quick = redial::schedule::Backoff::exponential(Duration::from_micros(1), ms(1));
    let retry = Retry::new(unbounded(|p| p.backoff(quick))).idempotent().traced(recorder.otel());
    let script = Script::new(&[Err(RESET), Ok(7)]);
    let _handler = Context::current_with_span(tracer.start("handler")).attach();
    let answer = retry.run_blocking(|_| {
        drop(tracer.start("inside"));
        script.next()
    });
    assert_eq!(answer.unwrap(), 7);
    let calls = recorder.named("redial");
    assert_eq!(calls.len(), 1);
    let handler = Context::current().span().span_context().span_id();
    assert_eq!(calls[0].parent_span_id, handler);
    let attempts = recorder.below(&calls[0]);
    assert_eq!(texts(&attempts, "redial.outcome"), ["failure", "success"]);
    assert_eq!(texts(&attempts, "error.type"), ["reset", "-"]);
    assert!(attempts.iter().all(|attempt| recorder.below(attempt).len() == 1));
    let _ = (|| Ok::<_, Fault>(())).retry_blocking(&retry);
    assert_eq!(recorder.named("redial").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_observer_beside_the_spans_sees_every_event() {
    let recorder = Recorder::new();
    let traced_first = crate::support::Log::default();
    let observed_first = crate::support::Log::default();
    let retry = || Retry::new(unbounded(|p| p)).idempotent();
    for retry in [
        retry().traced(recorder.otel()).observe(traced_first.clone()),
        retry().observe(observed_first.clone()).traced(recorder.otel()),
    ] {
        let script = Script::new(&[Err(RESET), Ok(7)]);
        retry.run(|_| async { script.next() }).await.unwrap();
    }
    assert_eq!(recorder.named("redial").len(), 2);
    let seen = traced_first.take();
    assert!(seen.len() >= 4, "{seen:?}");
    assert_eq!(seen.len(), observed_first.take().len());
}

#[tokio::test(start_paused = true)]
async fn a_meter_beside_the_spans_counts_every_call() {
    let recorder = Recorder::new();
    let (traced_first, metered_first) = (Meter::new("otel-first"), Meter::new("otel-second"));
    let retry = || Retry::new(unbounded(|p| p)).idempotent();
    for retry in [
        retry().traced(recorder.otel()).meter(traced_first.clone()),
        retry().meter(metered_first.clone()).traced(recorder.otel()),
    ] {
        let script = Script::new(&[Err(RESET), Ok(7)]);
        retry.run(|_| async { script.next() }).await.unwrap();
        retry.run(|_| async { Ok::<_, Fault>(7) }).await.unwrap();
    }
    let calls = recorder.named("redial");
    assert_eq!(texts(&calls, "redial.attempts"), ["2", "1", "2", "1"]);
    for meter in [traced_first, metered_first] {
        let flow = meter.reading().flow;
        assert_eq!((flow.calls, flow.attempts), (2, 3));
    }
}
