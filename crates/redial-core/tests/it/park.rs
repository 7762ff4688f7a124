//! Calls that cannot retry yet wait for evidence: the success of an attempt that was sent after the one that failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use redial_core::admit::budget::{Budget, TokenBudget};
use redial_core::admit::{Guards, ParkRule};
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::schedule::Backoff;
use redial_core::{Call, Context, MS, NEVER, Nanos, Policy, Request, SECOND, Stop, Turn, Verdict};

#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A destination, and the calls to it.
struct Site {
    policy: Policy,
    guards: Guards,
    most: u32,
}

impl Site {
    fn new(rule: ParkRule) -> Self {
        let tokens = TokenBudget::earned();
        let policy = Policy::draft().park(rule).without_hedge().without_stall();
        let policy = policy
            .budget(Budget::Tokens(tokens))
            .backoff(Backoff::constant(Duration::from_millis(1)))
            .build();
        let policy = policy.unwrap();
        let guards = Guards::new(&policy, 1, 0);
        Self { policy, guards, most: u32::MAX }
    }

    fn cx(&self) -> Context<'_> {
        let request = Request { safety: Safety::Idempotent, park: self.most, ..Request::default() };
        Context { policy: &self.policy, guards: &self.guards, observer: None, request }
    }

    fn succeed(&self, sent: Nanos, now: Nanos) {
        let mut call = Call::new(&self.policy, sent, NEVER);
        let permit = call.admit(&self.cx(), sent).unwrap();
        assert_eq!(call.settle(&self.cx(), permit, &Outcome::Success, now, || 0), Verdict::Done);
    }

    /// A call whose first attempt failed after a millisecond.
    fn fail(&self, sent: Nanos) -> (Call, Verdict) {
        let mut call = Call::new(&self.policy, sent, NEVER);
        let permit = call.admit(&self.cx(), sent).unwrap();
        let outcome = Outcome::Failure(Failure::new(Class::Overloaded));
        let verdict = call.settle(&self.cx(), permit, &outcome, sent + MS, || 0);
        (call, verdict)
    }

    fn ask(&self, call: &mut Call, now: Nanos) -> (Turn, Arc<Count>) {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        (call.unpark(&self.cx(), &waker, now), count)
    }
}

fn warm(rule: ParkRule) -> Site {
    let site = Site::new(rule);
    (0..100).for_each(|n| site.succeed(n * 10 * MS, n * 10 * MS + MS));
    site
}

#[test]
fn a_later_success_releases_the_oldest_call_first() {
    let site = warm(ParkRule::default());
    let (mut old, _) = site.fail(SECOND);
    let (mut young, _) = site.fail(SECOND + MS);
    assert!(old.is_parked() && young.is_parked());
    assert_eq!(site.guards.parked(), 2);

    let now = SECOND + 5 * MS;
    let (turn, _) = site.ask(&mut young, now);
    assert!(matches!(turn, Turn::Wait(_)), "{turn:?}");
    let (turn, woken) = site.ask(&mut old, now);
    assert!(matches!(turn, Turn::Wait(_)), "{turn:?}");

    site.succeed(SECOND + 6 * MS, SECOND + 7 * MS);
    assert!(woken.0.load(Ordering::Relaxed) > 0, "evidence wakes the first in line");
    assert_eq!(site.ask(&mut old, SECOND + 7 * MS).0, Turn::Go);
    assert!(old.admit(&site.cx(), SECOND + 7 * MS).is_ok());
    assert_eq!(site.guards.parked(), 1);
}

#[test]
fn a_success_of_an_earlier_attempt_is_no_evidence() {
    let site = warm(ParkRule::default());
    let (mut call, _) = site.fail(SECOND);
    site.succeed(SECOND - MS, SECOND + 3 * MS);
    assert!(matches!(site.ask(&mut call, SECOND + 3 * MS).0, Turn::Wait(_)));
}

#[test]
fn no_more_calls_wait_than_the_rule_the_runner_and_the_traffic_allow() {
    let parked = |rule: ParkRule, most: u32| {
        let site = Site { most, ..warm(rule) };
        let calls: Vec<_> = (0..3_000).map(|n| site.fail(SECOND + n * MS)).collect();
        assert_eq!(
            calls.iter().filter(|(call, _)| call.is_parked()).count(),
            site.guards.parked() as usize
        );
        site.guards.parked()
    };
    assert_eq!(parked(ParkRule::default().most(7), u32::MAX), 7);
    assert_eq!(parked(ParkRule::default(), 5), 5);
    assert_eq!(parked(ParkRule::default(), 0), 0);
    assert!((900..1_100).contains(&parked(ParkRule::default(), u32::MAX)));
}

#[test]
fn a_call_that_is_cancelled_leaves_at_once_and_the_next_is_woken() {
    let site = warm(ParkRule::default());
    let (mut old, _) = site.fail(SECOND);
    let (mut young, _) = site.fail(SECOND + MS);
    site.ask(&mut old, SECOND + 5 * MS);
    let (_, woken) = site.ask(&mut young, SECOND + 5 * MS);
    let before = woken.0.load(Ordering::Relaxed);
    old.cancel(&site.cx(), SECOND + 6 * MS);
    assert_eq!(site.guards.parked(), 1);
    assert_eq!(woken.0.load(Ordering::Relaxed), before + 1);
}

#[test]
fn a_call_does_not_wait_past_its_deadline() {
    let site = warm(ParkRule::default());
    let (mut call, _) = site.fail(SECOND);
    let deadline = call.deadline();
    let mut now = SECOND + 2 * MS;
    // Others keep failing, so that no probe is due.
    while now < deadline {
        match site.ask(&mut call, now).0 {
            Turn::Wait(until) => assert!(until <= deadline),
            turn => panic!("{turn:?} at {now}"),
        }
        site.fail(now);
        now += 20 * MS;
    }
    assert_eq!(site.ask(&mut call, deadline).0, Turn::Stop(Stop::Deadline));
    assert!(call.is_over());
}

#[test]
fn after_half_of_the_deadline_without_a_success_calls_fail_fast() {
    let site = warm(ParkRule::default());
    let mut now = SECOND;
    let half = 5 * SECOND;
    while now < SECOND + half - 50 * MS {
        let (mut call, verdict) = site.fail(now);
        assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?} at {now}");
        call.cancel(&site.cx(), now + MS);
        now += 20 * MS;
    }
    // What the bucket can still pay for is paid for at once.
    let verdicts = (0..20).map(|n| site.fail(now + 100 * MS + n * MS).1);
    assert_eq!(verdicts.last(), Some(Verdict::Stop(Stop::Budget)));
    assert_eq!(site.guards.parked(), 0);
}
