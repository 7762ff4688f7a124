//! Calls that cannot retry yet wait until the destination is back, in each runner.

use std::future::pending;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use redial::admit::budget::{Budget, TokenBudget};
use redial::admit::{ParkRule, StallRule};
use redial::decide::{Class, Classify, Failure};
use redial::schedule::{Backoff, Hint, Jitter};
use redial::{
    Attempt, CancelToken, Draft, Event, ParkLimit, Policy, Retry, RetryableBlocking as _, Stop,
    testing,
};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{advance, sleep};

use crate::support::{Fault, Log, RESET, ms};

/// Waits of exactly 10 ms before a retry asks for its turn.
pub(crate) fn policy(change: impl FnOnce(Draft) -> Draft) -> Policy {
    let backoff = Backoff::constant(ms(10)).jitter(Jitter::None);
    let draft = Policy::standard().edit().backoff(backoff).park(ParkRule::default());
    change(draft).build().unwrap()
}

/// A budget that pays for no retry.
pub(crate) fn dry() -> Budget {
    Budget::Tokens(TokenBudget::new(20_000, 2_000).opening(0))
}

/// So many calls in a moment, and those that follow are not alone.
const TRAFFIC: u32 = 30;

pub(crate) async fn busy(retry: &Retry) {
    for _ in 0..TRAFFIC {
        succeed(retry).await;
    }
}

/// What a new user writes.
pub(crate) fn first_call() -> Policy {
    Policy::standard().edit().attempt_timeout(ms(300)).build().unwrap()
}

/// Holds back every call while a destination answers nothing.
pub(crate) fn strict() -> Policy {
    let budget = Budget::Tokens(TokenBudget::new(200, 20).opening(200));
    policy(|p| p.attempt_timeout(ms(1000)).stall(StallRule::most(1.0)).budget(budget))
}

/// Ten calls time out after a second. From 3 s to 5 s, every call is held back. This ends after 3.5 s.
pub(crate) async fn stall(retry: &Retry) {
    for _ in 0..10 {
        let retry = retry.clone();
        tokio::spawn(async move { retry.run(|_| pending::<Result<(), Fault>>()).await });
    }
    sleep(ms(3500)).await;
}

pub(crate) fn parking() -> Retry {
    Retry::new(policy(|p| p)).idempotent()
}

/// A call that fails once, then succeeds.
pub(crate) fn fails_once(
    retry: &Retry,
    then: impl Fn() + Send + Sync + 'static,
) -> JoinHandle<u32> {
    let retry = retry.clone();
    let op = move |attempt: Attempt| {
        let failed = attempt.number() == 1;
        if !failed {
            then();
        }
        async move { if failed { Err(RESET) } else { Ok(attempt.number()) } }
    };
    tokio::spawn(async move { retry.run(op).await.unwrap() })
}

/// A call that succeeds at once.
pub(crate) async fn succeed(retry: &Retry) {
    retry.run(|_| async { Ok::<_, Fault>(()) }).await.unwrap();
}

/// Lets spawned calls run until all of them wait.
pub(crate) async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_goes_when_another_succeeds() {
    let log = Log::default();
    let retry = parking().observe(log.clone());
    let call = fails_once(&retry, || ());
    settle().await;
    assert_eq!(retry.parked(), 1);
    advance(ms(20)).await;
    settle().await;
    assert_eq!(retry.parked(), 1, "its backoff is over, but nothing speaks for a retry");
    succeed(&retry).await;
    assert_eq!(call.await.unwrap(), 2);
    assert_eq!(retry.parked(), 0);
    let events = log.take();
    assert!(events.contains(&Event::Parked { attempt: 2 }));
    let released = Event::Released { attempt: 2, held: ms(20), probe: false };
    assert!(events.contains(&released), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_go_in_the_order_in_which_they_failed() {
    let (retry, order) = (parking(), Arc::new(Mutex::new(Vec::new())));
    let mut calls = Vec::new();
    for number in 0..3 {
        let order = Arc::clone(&order);
        calls.push(fails_once(&retry, move || order.lock().unwrap().push(number)));
        settle().await;
        advance(ms(2)).await;
    }
    sleep(ms(15)).await;
    assert_eq!((retry.parked(), order.lock().unwrap().len()), (3, 0));
    succeed(&retry).await;
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_success_counts_only_for_its_own_scope() {
    let retry = parking();
    let (one, other) = (retry.clone().scope("one"), retry.scope("other"));
    let call = fails_once(&one, || ());
    settle().await;
    advance(ms(20)).await;
    settle().await;
    succeed(&other).await;
    settle().await;
    assert_eq!(one.parked(), 1);
    succeed(&one).await;
    assert_eq!(call.await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_at_once() {
    let retry = parking();
    let (waiting, in_line) = (fails_once(&retry, || ()), fails_once(&retry, || ()));
    settle().await;
    waiting.abort();
    settle().await;
    assert_eq!(retry.parked(), 1, "during its backoff");
    advance(ms(15)).await;
    settle().await;
    in_line.abort();
    settle().await;
    assert_eq!(retry.parked(), 0, "while it waits for its turn");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_parked_until_its_deadline_returns_its_last_error() {
    let retry = Retry::new(policy(|p| p.budget(dry()).deadline(ms(5000)))).idempotent();
    busy(&retry).await;
    let call = || retry.run(|_| async { Err::<(), _>(RESET) });
    // Shortly before its deadline, a single one would be alone, and fail because it cannot pay.
    let (result, _) = tokio::join!(call(), call());
    let error = result.unwrap_err();
    assert_eq!((error.attempts(), error.cause()), (1, Some(&RESET)));
    assert_eq!(error.failure().unwrap().class, Class::Reset);
    assert_eq!((error.elapsed(), error.parked()), (ms(5000), ms(5000)));
    let text = "gave up after 1 of 4 attempts in 5.0 s: the deadline leaves no time for another \
                attempt; waited 5.0 s for the destination to recover; last outcome: reset: \
                connection reset";
    assert_eq!(format!("{error:#}"), text);
    assert_eq!(retry.parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_the_rule_a_call_fails_fast_and_says_what_is_missing() {
    let retry = Retry::new(policy(|p| p.without_park().budget(dry()))).idempotent();
    let error = retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
    assert_eq!((error.elapsed(), error.parked()), (Duration::ZERO, Duration::ZERO));
    let text = "gave up after 1 of 4 attempts in 0 ms: the retry budget is dry (a retry costs 2000 \
                tokens, 0 are left; successes earn more); last outcome: reset";
    assert_eq!(error.to_string(), text);
}

#[tokio::test(start_paused = true)]
async fn fatal_failures_and_unsafe_requests_are_not_held() {
    let log = Log::default();
    let retry = Retry::new(policy(|p| p.budget(dry()))).observe(log.clone());
    let fatal = Fault(Class::Permanent, "no such user");
    for (retry, fault, reason) in
        [(retry.clone().idempotent(), fatal, Stop::Permanent), (retry, RESET, Stop::Unsafe)]
    {
        let error = retry.run(|_| async { Err::<(), _>(fault.clone()) }).await.unwrap_err();
        assert_eq!((error.reason(), error.elapsed()), (reason, Duration::ZERO));
    }
    assert!(!log.take().iter().any(|event| matches!(event, Event::Parked { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_lone_call_that_cannot_pay_is_not_held() {
    let retry = Retry::new(policy(|p| p.budget(dry()))).idempotent();
    let error = retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
    assert_eq!((error.reason(), error.elapsed()), (Stop::Budget, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_first_attempt_that_the_stall_rule_holds_is_sent_after_a_success() {
    let log = Log::default();
    let retry = Retry::new(strict()).observe(log.clone());
    stall(&retry).await;
    log.take();
    let held = tokio::spawn({
        let retry = retry.clone();
        async move { retry.run(|attempt| async move { Ok::<_, Fault>(attempt.number()) }).await }
    });
    sleep(ms(2000)).await;
    assert_eq!((retry.parked(), log.take()), (1, vec![Event::Parked { attempt: 1 }]));
    succeed(&retry).await;
    assert_eq!(held.await.unwrap(), Ok(1));
    let released = Event::Released { attempt: 1, held: ms(2000), probe: false };
    assert!(log.take().contains(&released));
}

#[tokio::test(start_paused = true)]
async fn a_held_call_without_evidence_ends_at_its_deadline() {
    let retry = Retry::new(strict());
    stall(&retry).await;
    let error = retry.run(|_| async { Ok::<_, Fault>(()) }).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (Stop::Deadline, 0));
    assert_eq!(error.parked(), ms(10_000));
    let text = "gave up before the first attempt: the deadline leaves no time for another attempt; \
                waited 10.0 s for the destination to recover";
    assert_eq!(error.to_string(), text);
}

/// The server has said when to come back, so the retry has paid before the stall.
#[tokio::test(start_paused = true)]
async fn a_retry_that_the_stall_rule_holds_is_sent_after_a_success() {
    let retry = Retry::new(strict());
    let call = tokio::spawn({
        let retry = retry.clone().idempotent();
        let op = |attempt: Attempt| async move {
            if attempt.number() == 1 { Err(Later(ms(3200))) } else { Ok(attempt.number()) }
        };
        async move { retry.run(op).await }
    });
    stall(&retry).await;
    sleep(ms(2000)).await;
    assert_eq!(retry.parked(), 1);
    succeed(&retry).await;
    assert_eq!(call.await.unwrap().unwrap(), 2);
}

#[derive(Debug)]
struct Later(Duration);

impl Classify for Later {
    fn classify(&self) -> Failure {
        Failure::new(Class::Overloaded).hint(Hint::AtLeast(self.0))
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_call_that_times_out_twice_succeeds() {
    let retry = Retry::new(first_call()).idempotent();
    let answer = retry.run(|attempt| async move {
        if attempt.number() < 3 {
            pending::<()>().await;
        }
        Ok::<_, Fault>(attempt.number())
    });
    assert_eq!(answer.await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_limit_counts_the_calls_of_all_destinations() {
    let limit = ParkLimit::new(1);
    let retry = Retry::new(policy(|p| p.budget(dry()))).idempotent().park_limit(&limit);
    let (one, other) = (retry.clone().scope("one"), retry.scope("other"));
    busy(&one).await;
    busy(&other).await;
    let call = fails_once(&one, || ());
    settle().await;
    assert_eq!((limit.parked(), one.parked(), other.parked()), (1, 1, 0));
    let error = other.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
    assert_eq!((error.reason(), error.elapsed()), (Stop::Budget, Duration::ZERO));
    call.abort();
    settle().await;
    assert_eq!(limit.parked(), 0);
}

#[test]
fn tests_that_skip_waits_park_nothing() {
    let _fast = testing::skip_waits(4);
    let log = Log::default();
    let error = parking().observe(log.clone()).run_blocking(|_| Err::<(), _>(RESET)).unwrap_err();
    assert_eq!(error.attempts(), 4);
    assert!(!log.take().iter().any(|event| matches!(event, Event::Parked { .. })));
}

/// A retry that waits for an hour, unless it is cancelled.
fn never_released() -> (Retry, mpsc::Receiver<()>) {
    let policy = policy(|p| p.budget(dry()).deadline(Duration::from_secs(3600)));
    let retry = Retry::new(policy).idempotent();
    for _ in 0..TRAFFIC {
        retry.run_blocking(|_| Ok::<_, Fault>(())).unwrap();
    }
    reporting(retry)
}

/// Sends a message when a call parks.
fn reporting(retry: Retry) -> (Retry, mpsc::Receiver<()>) {
    let (parked, seen) = mpsc::channel();
    let observer = move |event: &Event| {
        if matches!(event, Event::Parked { .. }) {
            parked.send(()).unwrap();
        }
    };
    (retry.observe(observer), seen)
}

#[test]
fn a_blocking_call_goes_when_another_succeeds() {
    let (retry, parked) = reporting(parking());
    let call = thread::spawn({
        let retry = retry.clone();
        let op = |attempt: Attempt| {
            if attempt.number() == 1 { Err(RESET) } else { Ok(attempt.number()) }
        };
        move || retry.run_blocking(op)
    });
    parked.recv().unwrap();
    (|| Ok::<_, Fault>(())).retry_blocking(&retry).unwrap();
    assert_eq!(call.join().unwrap(), Ok(2));
    assert_eq!(retry.parked(), 0);
}

#[test]
fn a_first_blocking_call_that_times_out_twice_succeeds() {
    let late = Fault(Class::Timeout, "no answer");
    let op = |attempt: Attempt| match attempt.number() {
        1 | 2 => Err(late.clone()),
        number => Ok(number),
    };
    assert_eq!(Retry::new(first_call()).idempotent().run_blocking(op), Ok(3));
}

#[test]
fn a_token_wakes_a_parked_thread() {
    let (retry, parked) = never_released();
    let token = CancelToken::new();
    let call = thread::spawn({
        let (retry, token) = (retry.clone(), token.clone());
        move || retry.run_blocking_with(&token, |_| Err::<(), _>(RESET))
    });
    parked.recv().unwrap();
    token.cancel();
    let error = call.join().unwrap().unwrap_err();
    assert_eq!((error.reason(), error.cause()), (Stop::Cancelled, Some(&RESET)));
    assert_eq!(retry.parked(), 0);
}

#[test]
fn fewer_threads_than_tasks_are_held() {
    let (retry, parked) = never_released();
    let token = CancelToken::new();
    let call = |_| {
        let (retry, token) = (retry.clone(), token.clone());
        thread::spawn(move || retry.run_blocking_with(&token, |_| Err::<(), _>(RESET)))
    };
    let held: Vec<_> = (0..64).map(call).collect();
    held.iter().for_each(|_| parked.recv().unwrap());
    let error = retry.run_blocking(|_| Err::<(), _>(RESET)).unwrap_err();
    assert_eq!((error.reason(), retry.parked()), (Stop::Budget, 64));
    token.cancel();
    for call in held {
        assert_eq!(call.join().unwrap().unwrap_err().reason(), Stop::Cancelled);
    }
    assert_eq!(retry.parked(), 0);
}
