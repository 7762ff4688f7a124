//! Many threads at once, with concurrent readers.

use std::collections::BTreeMap;
use std::future::{Future as _, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use redial::Retry;
use redial::schedule::Backoff;
use redial::telemetry::Registry;

use super::scrape::{Exporter, Scrape};
use crate::support::{Fault, RESET, ms, unbounded};

const THREADS: u32 = 6;
const ROUNDS: u32 = 300;

/// A success, a failure, a panic, a dropped future and a finished one.
fn round(retry: &Retry) {
    retry.run_blocking(|_| Ok::<_, Fault>(())).unwrap();
    retry.run_blocking(|_| Err::<(), _>(RESET)).unwrap_err();
    let panics = || retry.run_blocking(|_| -> Result<(), Fault> { resume_unwind(Box::new(())) });
    catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
    let mut cx = Context::from_waker(Waker::noop());
    let mut in_two_steps = pin!(retry.run(|_| {
        let mut polled = 0;
        poll_fn(move |_| {
            polled += 1;
            if polled == 1 { Poll::Pending } else { Poll::Ready(Ok::<_, Fault>(())) }
        })
    }));
    {
        let mut dropped = pin!(retry.run(|_| std::future::pending::<Result<(), Fault>>()));
        assert!(dropped.as_mut().poll(&mut cx).is_pending());
        assert!(in_two_steps.as_mut().poll(&mut cx).is_pending());
    }
    assert!(in_two_steps.as_mut().poll(&mut cx).is_ready());
}

fn check(scrape: &Scrape, before: &mut BTreeMap<String, f64>) {
    for (name, value) in &scrape.0 {
        let grows =
            ["_total{", "_count{", "_bucket{", "_sum{"].iter().any(|end| name.contains(end));
        let before = before.insert(name.clone(), *value).unwrap_or(0.0);
        assert!(!grows || *value >= before, "{name} was {before} and is {value}");
    }
    let ended = ["success", "failure"].map(|outcome| {
        scrape.of(&format!("redial_attempt_duration_seconds_count outcome={outcome}"))
    });
    let (sent, out) = (scrape.of("redial_attempts_total"), scrape.of("redial_inflight_requests"));
    assert_eq!(sent, ended[0] + ended[1] + out);
    let begun = scrape.of("redial_calls_total origin=fresh");
    assert!(begun >= scrape.of("redial_attempts_per_call_count"), "{scrape:#?}");
}

#[tokio::test]
async fn numbers_agree_and_never_shrink_under_random_calls() {
    let registry = Registry::new();
    let quick = Backoff::exponential(ms(1), ms(1));
    // Two retries with one meter.
    let policy =
        || unbounded(|p| p.attempts(2).without_attempt_timeout().without_deadline().backoff(quick));
    let retries = [(); 2].map(|()| Retry::new(policy()).idempotent().meter(registry.meter("api")));
    let (exporter, over, mut before) = (Exporter::new(), AtomicBool::new(false), BTreeMap::new());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS as usize)
            .map(|i| {
                scope.spawn({
                    let retry = &retries[i % 2];
                    move || (0..ROUNDS).for_each(|_| round(retry))
                })
            })
            .collect();
        let looks = scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                check(&exporter.scrape(&registry), &mut before);
            }
        });
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        over.store(true, Ordering::Release);
        looks.join().unwrap();
        assert!(ended.iter().all(Result::is_ok));
    });
    let scrape = exporter.scrape(&registry);
    check(&scrape, &mut before);
    let rounds = f64::from(THREADS * ROUNDS);
    scrape.check(&[
        ("redial_calls_total origin=fresh", 5.0 * rounds),
        ("redial_attempts_total", 6.0 * rounds),
        ("redial_inflight_requests", 0.0),
        ("redial_retries_total reason=reset", rounds),
        ("redial_stops_total reason=attempts", rounds),
        ("redial_stops_total reason=cancelled", 2.0 * rounds),
        ("redial_attempt_duration_seconds_count outcome=success", 2.0 * rounds),
        ("redial_attempts_per_call_bucket le=1", 4.0 * rounds),
        ("redial_attempts_per_call_count", 5.0 * rounds),
        ("redial_attempts_per_call_sum", 6.0 * rounds),
    ]);
}
