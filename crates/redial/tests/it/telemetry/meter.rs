//! Scripted calls and their exact counts.

use std::future::pending;
use std::time::Duration;

use redial::admit::BreakerRule;
use redial::decide::{Class, Classify, Failure};
use redial::schedule::HedgeRule;
use redial::schedule::{Backoff, Hint};
use redial::telemetry::Registry;
use redial::{CancelToken, Draft, Event, Inbound, Policy, Retry};

use super::scrape::scrape;
use crate::support::{Fault, Log, RESET, Script, ms, plain, stalled, unbounded};

const TIMEOUT: Fault = Fault(Class::Timeout, "timeout");

fn metered(registry: &Registry, policy: Policy) -> Retry {
    Retry::new(policy).idempotent().meter(registry.meter("api"))
}

fn breaker_of_three() -> BreakerRule {
    BreakerRule::default().last_calls(4).minimum_calls(3).failure_ratio(0.5)
}

/// A call whose attempts take 20 ms each.
async fn call(retry: &Retry, answers: &[Result<(), Fault>]) {
    let script = Script::new(answers);
    let attempt = |_| async {
        tokio::time::sleep(ms(20)).await;
        script.next()
    };
    let _ = retry.run(attempt).await;
}

#[tokio::test(start_paused = true)]
async fn everything_about_scripted_calls_is_counted_exactly() {
    let registry = Registry::new();
    let retry = metered(&registry, unbounded(|p| p.attempts(4)));
    for _ in 0..10 {
        call(&retry, &[Ok(())]).await;
    }
    call(&retry, &[Err(RESET), Err(TIMEOUT), Ok(())]).await;
    call(&retry, &[Err(TIMEOUT)]).await;
    let scrape = scrape(&registry);
    scrape.check(&[
        ("redial_calls_total origin=fresh", 12.0),
        ("redial_calls_total origin=retried", 0.0),
        ("redial_attempts_total", 17.0),
        ("redial_inflight_requests", 0.0),
        ("redial_attempts_per_call_bucket le=1", 10.0),
        ("redial_attempts_per_call_bucket le=2", 10.0),
        ("redial_attempts_per_call_bucket le=3", 11.0),
        ("redial_attempts_per_call_bucket le=4", 12.0),
        ("redial_attempts_per_call_count", 12.0),
        ("redial_attempts_per_call_sum", 17.0),
        ("redial_attempt_duration_seconds_bucket outcome=success le=0.01", 0.0),
        ("redial_attempt_duration_seconds_bucket outcome=success le=0.025", 11.0),
        ("redial_attempt_duration_seconds_count outcome=success", 11.0),
        ("redial_attempt_duration_seconds_sum outcome=success", 0.22),
        ("redial_attempt_duration_seconds_count outcome=failure", 6.0),
        ("redial_attempt_duration_seconds_sum outcome=failure", 0.12),
        // 100 + 200, and 100 + 200 + 400 ms.
        ("redial_retry_delay_seconds_count", 5.0),
        ("redial_retry_delay_seconds_sum", 1.0),
        ("redial_retry_delay_seconds_bucket le=0.1", 2.0),
        ("redial_retry_delay_seconds_bucket le=0.25", 4.0),
        ("redial_retry_delay_seconds_bucket le=0.5", 5.0),
        ("redial_retry_budget_exhausted_total", 0.0),
        ("redial_amplification_ratio", 17.0 / 12.0),
        ("redial_multiplier_ratio", 17.0 / 12.0),
        ("redial_storm_level", 0.0),
    ]);
    let retries = [("reset".to_owned(), 1.0), ("timeout".to_owned(), 4.0)];
    assert_eq!(scrape.nonzero("redial_retries_total"), retries);
    assert_eq!(scrape.nonzero("redial_stops_total"), [("attempts".to_owned(), 1.0)]);
    assert_eq!(scrape.get("redial_retry_budget_balance"), None, "there is no budget");
    assert_eq!(scrape.get("redial_breaker_state state=closed"), None, "there is no breaker");
}

#[tokio::test(start_paused = true)]
async fn both_paths_count_the_same() {
    // A policy with a concurrency limit does not use the fast path, and neither does an observed call.
    let (short, full, watched) = (Registry::new(), Registry::new(), Registry::new());
    let log = Log::default();
    for (retry, n) in [
        (metered(&short, unbounded(|p| p)), 5),
        (metered(&full, unbounded(|p| p.concurrency(8))), 5),
        (metered(&watched, unbounded(|p| p)).observe(log.clone()), 5),
    ] {
        for _ in 0..n {
            call(&retry, &[Ok(())]).await;
            call(&retry, &[Err(RESET), Ok(())]).await;
        }
    }
    assert_eq!(scrape(&short).0, scrape(&full).0);
    assert_eq!(scrape(&short).0, scrape(&watched).0);
    let attempts = log.take().iter().filter(|e| matches!(e, Event::Attempt { .. })).count();
    assert_eq!(attempts, 15, "the observer sees what the meter counts");
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_dropped_leaves_nothing_in_flight() {
    for change in [|p: Draft| p, |p: Draft| p.concurrency(8)] {
        let registry = Registry::new();
        let retry = metered(&registry, unbounded(change));
        call(&retry, &[Ok(())]).await;
        let running = retry.run(|_| pending::<Result<(), Fault>>());
        let given_up = tokio::time::timeout(ms(50), async {
            let mut running = std::pin::pin!(running);
            tokio::select! {
                _ = &mut running => unreachable!(),
                () = tokio::time::sleep(ms(10)) => {}
            }
            scrape(&registry).check(&[("redial_inflight_requests", 1.0)]);
            running.await
        });
        given_up.await.unwrap_err();
        // Another call while it waits for its retry.
        let waiting = retry.run(|_| async { Err::<(), _>(RESET) });
        tokio::time::timeout(ms(1), waiting).await.unwrap_err();
        let scrape = scrape(&registry);
        scrape.check(&[
            ("redial_calls_total origin=fresh", 3.0),
            ("redial_attempts_total", 3.0),
            ("redial_inflight_requests", 0.0),
            ("redial_stops_total reason=cancelled", 2.0),
            ("redial_attempts_per_call_count", 3.0),
            ("redial_attempts_per_call_sum", 3.0),
            ("redial_attempt_duration_seconds_count outcome=failure", 2.0),
            ("redial_attempt_duration_seconds_sum outcome=failure", 0.05),
        ]);
    }
}

#[tokio::test(start_paused = true)]
async fn hedges_are_attempts_and_their_losers_end() {
    let registry = Registry::new();
    let retry = metered(&registry, unbounded(|p| p.hedge(HedgeRule::after(ms(50)))));
    let winner = retry.run(|attempt| async move {
        let slow = if attempt.number() == 1 { ms(5_000) } else { ms(20) };
        tokio::time::sleep(slow).await;
        Ok::<_, Fault>(attempt.number())
    });
    assert_eq!(winner.await, Ok(2));
    let scrape = scrape(&registry);
    scrape.check(&[
        ("redial_calls_total origin=fresh", 1.0),
        ("redial_attempts_total", 2.0),
        ("redial_retries_total reason=hedge", 1.0),
        ("redial_inflight_requests", 0.0),
        ("redial_attempt_duration_seconds_sum outcome=success", 0.02),
        ("redial_attempt_duration_seconds_sum outcome=failure", 0.07),
        ("redial_attempts_per_call_bucket le=2", 1.0),
        ("redial_retry_delay_seconds_count", 0.0),
    ]);
}

#[tokio::test(start_paused = true)]
async fn polls_are_not_failures() {
    let registry = Registry::new();
    let retry = metered(&registry, unbounded(|p| p));
    for _ in 0..2 {
        let answers = Script::new(&[false, false, true]);
        retry
            .clone()
            .until(|done| *done)
            .run(|_| async { Ok::<_, Fault>(answers.next()) })
            .await
            .unwrap();
    }
    scrape(&registry).check(&[
        ("redial_calls_total origin=fresh", 2.0),
        ("redial_attempts_total", 6.0),
        ("redial_retries_total reason=not-yet", 4.0),
        ("redial_attempt_duration_seconds_count outcome=success", 6.0),
        ("redial_attempt_duration_seconds_count outcome=failure", 0.0),
        ("redial_attempts_per_call_sum", 6.0),
    ]);
}

#[test]
fn blocking_calls_are_counted_too() {
    let quick = Backoff::exponential(ms(1), ms(1));
    let registry = Registry::new();
    let retry = metered(&registry, unbounded(|p| p.backoff(quick)));
    for _ in 0..5 {
        retry.run_blocking(|_| Ok::<_, Fault>(())).unwrap();
    }
    let script = Script::new(&[Err(RESET), Ok(())]);
    retry.run_blocking(|_| script.next()).unwrap();
    let token = CancelToken::new();
    let cancelled = retry.run_blocking_with(&token, |_| {
        token.cancel();
        Err::<(), _>(RESET)
    });
    cancelled.unwrap_err();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        retry.run_blocking(|_| -> Result<(), Fault> { std::panic::resume_unwind(Box::new(())) })
    }));
    panicked.unwrap_err();
    scrape(&registry).check(&[
        ("redial_calls_total origin=fresh", 8.0),
        ("redial_attempts_total", 9.0),
        ("redial_retries_total reason=reset", 2.0),
        ("redial_stops_total reason=cancelled", 2.0),
        ("redial_inflight_requests", 0.0),
        ("redial_attempt_duration_seconds_count outcome=success", 6.0),
        ("redial_attempt_duration_seconds_count outcome=failure", 3.0),
        ("redial_attempts_per_call_count", 8.0),
    ]);
}

#[tokio::test(start_paused = true)]
async fn threads_count_separately_and_nothing_is_lost() {
    let registry = Registry::new();
    let retry = metered(&registry, unbounded(|p| p));
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                (0..500).for_each(|_| retry.run_blocking(|_| Ok::<_, Fault>(())).unwrap());
            });
        }
    });
    scrape(&registry).check(&[
        ("redial_calls_total origin=fresh", 20_000.0),
        ("redial_attempt_duration_seconds_count outcome=success", 20_000.0),
        ("redial_attempts_per_call_sum", 20_000.0),
        ("redial_inflight_requests", 0.0),
    ]);
}

#[derive(Debug)]
struct Says(Failure);

impl Classify for Says {
    fn classify(&self) -> Failure {
        self.0
    }
}

/// One call whose attempts all fail in this way.
async fn fails(retry: &Retry, failure: Failure) {
    retry.run(|_| async { Err::<(), _>(Says(failure)) }).await.unwrap_err();
}

/// A reason, the failure that leads to it, and the policy.
type Case = (&'static str, Failure, fn(Draft) -> Draft);

#[tokio::test(start_paused = true)]
async fn every_reason_to_stop_is_counted() {
    let stopped = |registry: &Registry| scrape(registry).nonzero("redial_stops_total");
    let reset = Failure::new(Class::Reset);
    let permanent = Failure::new(Class::Permanent);
    let too_long = reset.hint(Hint::AtLeast(Duration::from_secs(3_600)));
    let cases: [Case; 5] = [
        ("permanent", permanent, |p| p),
        ("attempts", reset, |p| p.attempts(2)),
        ("deadline", reset, |p| p.deadline(ms(150))),
        ("hint-too-long", too_long, |p| p),
        ("told-to-stop", Failure { stop: true, ..reset }, |p| p),
    ];
    for (reason, failure, change) in cases {
        let registry = Registry::new();
        fails(&metered(&registry, unbounded(change)), failure).await;
        assert_eq!(stopped(&registry), [(reason.to_owned(), 1.0)]);
    }
    let registry = Registry::new();
    let unsafe_one = Retry::new(unbounded(|p| p)).meter(registry.meter("api"));
    fails(&unsafe_one, reset).await;
    assert_eq!(stopped(&registry), [("unsafe".to_owned(), 1.0)]);
    let registry = Registry::new();
    let off = metered(&registry, unbounded(|p| p));
    off.set_enabled(false);
    fails(&off, reset).await;
    assert_eq!(stopped(&registry), [("switched-off".to_owned(), 1.0)]);
    let registry = Registry::new();
    let stalled = stalled().await;
    fails(&stalled.meter(registry.meter("api")), reset).await;
    assert_eq!(stopped(&registry), [("stalled".to_owned(), 1.0)]);
}

#[tokio::test(start_paused = true)]
async fn budgets_and_breakers_show_their_state() {
    let registry = Registry::new();
    let retry = metered(&registry, plain(|p| p.attempts(2).breaker(breaker_of_three())));
    let before = scrape(&registry);
    before.check(&[
        ("redial_breaker_state state=closed", 1.0),
        ("redial_breaker_state state=open", 0.0),
        ("redial_retry_budget_balance", retry.balance().unwrap() as f64),
    ]);
    for _ in 0..5 {
        call(&retry, &[Err(RESET)]).await;
    }
    let after = scrape(&registry);
    after.check(&[
        ("redial_breaker_state state=closed", 0.0),
        ("redial_breaker_state state=open", 1.0),
        ("redial_breaker_transitions_total to=open", 1.0),
        ("redial_calls_total origin=fresh", 5.0),
        ("redial_retry_budget_balance", retry.balance().unwrap() as f64),
    ]);
    let refused = after.of("redial_stops_total reason=breaker-open");
    assert!(refused >= 3.0, "{after:#?}");
    after.check(&[("redial_attempts_per_call_count", 5.0), ("redial_inflight_requests", 0.0)]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_budget_is_counted() {
    let registry = Registry::new();
    let retry = metered(&registry, plain(|p| p.attempts(2)));
    let spendable = retry.balance().unwrap();
    for _ in 0..spendable + 30 {
        call(&retry, &[Err(RESET)]).await;
    }
    let scrape = scrape(&registry);
    let (dry, stopped) = (
        scrape.of("redial_retry_budget_exhausted_total"),
        scrape.of("redial_stops_total reason=budget"),
    );
    assert!(dry > 0.0 && dry == stopped, "{scrape:#?}");
    let retried = scrape.of("redial_retries_total reason=reset");
    scrape.check(&[("redial_attempts_total", spendable as f64 + 30.0 + retried)]);
}

#[tokio::test(start_paused = true)]
async fn hints_are_counted_by_result() {
    let registry = Registry::new();
    let retry = metered(&registry, unbounded(|p| p.attempts(2)));
    fails(&retry, Failure::new(Class::Throttled).hint(Hint::AtLeast(Duration::from_secs(3)))).await;
    fails(&retry, Failure::new(Class::Throttled).hint(Hint::AtLeast(Duration::from_secs(3_600))))
        .await;
    scrape(&registry).check(&[
        ("redial_hints_total result=honoured", 1.0),
        ("redial_hints_total result=ignored", 1.0),
        ("redial_hints_total result=unreadable", 0.0),
    ]);
}

#[tokio::test(start_paused = true)]
async fn calls_for_an_inbound_retry_are_counted_separately() {
    let registry = Registry::new();
    let retry = metered(&registry, unbounded(|p| p));
    for attempt in [1, 1, 2, 3] {
        let inbound = Inbound::default().with_attempt(attempt);
        inbound.scope(call(&retry, &[Ok(())])).await;
    }
    call(&retry, &[Ok(())]).await;
    scrape(&registry).check(&[
        ("redial_calls_total origin=fresh", 3.0),
        ("redial_calls_total origin=retried", 2.0),
        ("redial_attempts_total", 5.0),
        ("redial_multiplier_ratio", 5.0 / 3.0),
        ("redial_amplification_ratio", 1.0),
    ]);
}

#[tokio::test(start_paused = true)]
async fn destinations_are_one_upstream_and_their_budgets_are_added_up() {
    let registry = Registry::new();
    let retry = metered(&registry, plain(|p| p.breaker(breaker_of_three())));
    let one = retry.balance().unwrap() as f64;
    for host in ["a", "b", "a"] {
        call(&retry.clone().scope(host), &[Ok(())]).await;
    }
    tokio::time::advance(Duration::from_secs(60)).await;
    scrape(&registry).check(&[
        ("redial_calls_total origin=fresh", 3.0),
        // The two that had a success have no bootstrap any more.
        ("redial_retry_budget_balance", one + 2.0),
        ("redial_breaker_state state=closed", 3.0),
    ]);
}

#[tokio::test(start_paused = true)]
async fn a_shared_budget_is_counted_once() {
    let registry = Registry::new();
    let budget = redial::RetryBudget::new(redial::admit::budget::WindowBudget::ratio(0.1)).unwrap();
    let retry = |policy| Retry::new(policy).budget(&budget).meter(registry.meter("api"));
    let (one, other) = (retry(plain(|p| p)), retry(plain(|p| p)));
    let scoped = one.clone().scope("a");
    scrape(&registry).check(&[("redial_retry_budget_balance", budget.balance() as f64)]);
    drop((one, other, scoped));
}
