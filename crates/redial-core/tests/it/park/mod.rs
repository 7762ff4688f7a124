//! Calls that cannot retry yet wait for evidence: the success of an attempt that was sent after the one that failed.

mod alone;
mod any_order;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Duration;

use redial_core::admit::budget::{Budget, TokenBudget};
use redial_core::admit::{Guards, NotParked, ParkRule, StallRule};
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::schedule::Backoff;
use redial_core::{
    Call, Context, Deadline, Event, Policy, Request, Span, Stop, Time, Turn, Verdict,
};

use crate::support::{MS, SECOND, at};

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

    fn succeed(&self, sent: Time, now: Time) {
        let mut call = Call::new(&self.policy, sent, Deadline::NONE);
        let permit = call.admit(&self.cx(), sent).unwrap();
        assert_eq!(call.settle(&self.cx(), permit, &Outcome::Success, now, || 0), Verdict::Done);
    }

    /// A call whose first attempt failed after a millisecond.
    fn fail(&self, sent: Time) -> (Call, Verdict) {
        self.fail_as(Class::Overloaded, sent, sent + MS)
    }

    fn fail_as(&self, class: Class, sent: Time, now: Time) -> (Call, Verdict) {
        let mut call = Call::new(&self.policy, sent, Deadline::NONE);
        let permit = call.admit(&self.cx(), sent).unwrap();
        let verdict = call.settle(&self.cx(), permit, &Failure::new(class).into(), now, || 0);
        (call, verdict)
    }

    /// A call is parked that is never over.
    fn holding(self) -> Self {
        assert!(self.fail(at(500 * MS)).0.is_parked());
        self
    }

    fn ask(&self, call: &mut Call, now: Time) -> (Turn, Arc<Count>) {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        (call.unpark(&self.cx(), &waker, now), count)
    }
}

fn warm(rule: ParkRule) -> Site {
    let site = Site::new(rule);
    (0..100).for_each(|n| site.succeed(at(n * 10 * MS), at(n * 10 * MS + MS)));
    site
}

#[test]
fn a_later_success_releases_the_oldest_call_first() {
    let site = warm(ParkRule::default());
    let (mut old, _) = site.fail(at(SECOND));
    let (mut young, _) = site.fail(at(SECOND + MS));
    assert!(old.is_parked() && young.is_parked());
    assert_eq!(site.guards.parked(), 2);

    let now = at(SECOND + 5 * MS);
    let (turn, _) = site.ask(&mut young, now);
    assert!(matches!(turn, Turn::Wait(_)), "{turn:?}");
    let (turn, woken) = site.ask(&mut old, now);
    assert!(matches!(turn, Turn::Wait(_)), "{turn:?}");

    site.succeed(at(SECOND + 6 * MS), at(SECOND + 7 * MS));
    assert!(woken.0.load(Ordering::Relaxed) > 0, "evidence wakes the first in line");
    assert_eq!(site.ask(&mut old, at(SECOND + 7 * MS)).0, Turn::Go);
    assert!(old.admit(&site.cx(), at(SECOND + 7 * MS)).is_ok());
    assert_eq!(site.guards.parked(), 1);
}

#[test]
fn a_success_of_an_earlier_attempt_is_no_evidence() {
    let site = warm(ParkRule::default());
    let (mut call, _) = site.fail(at(SECOND));
    site.succeed(at(SECOND - MS), at(SECOND + 3 * MS));
    assert!(matches!(site.ask(&mut call, at(SECOND + 3 * MS)).0, Turn::Wait(_)));
}

#[test]
fn no_more_calls_wait_than_the_rule_the_runner_and_the_traffic_allow() {
    let parked = |rule: ParkRule, most: u32| {
        let site = Site { most, ..warm(rule) };
        let calls: Vec<_> = (0..3_000).map(|n| site.fail(at(SECOND + n * MS))).collect();
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
    let (mut old, _) = site.fail(at(SECOND));
    let (mut young, _) = site.fail(at(SECOND + MS));
    site.ask(&mut old, at(SECOND + 5 * MS));
    let (_, woken) = site.ask(&mut young, at(SECOND + 5 * MS));
    let before = woken.0.load(Ordering::Relaxed);
    old.cancel(&site.cx(), at(SECOND + 6 * MS));
    assert_eq!(site.guards.parked(), 1);
    assert_eq!(woken.0.load(Ordering::Relaxed), before + 1);
}

#[test]
fn a_call_does_not_wait_past_its_deadline() {
    let site = warm(ParkRule::default());
    let (mut call, _) = site.fail(at(SECOND));
    let deadline = call.deadline();
    let mut now = at(SECOND + 2 * MS);
    // Others keep failing, so that no probe is due.
    while !deadline.is_over(now) {
        match site.ask(&mut call, now).0 {
            Turn::Wait(until) => assert!(until <= deadline),
            turn => panic!("{turn:?} at {now:?}"),
        }
        site.fail(now);
        now += 20 * MS;
    }
    assert_eq!(site.ask(&mut call, deadline.time().unwrap()).0, Turn::Stop(Stop::Deadline));
    assert!(call.is_over());
}

#[test]
fn after_half_of_the_deadline_without_a_success_calls_fail_fast() {
    let site = warm(ParkRule::default());
    let mut now = at(SECOND);
    let half = 5 * SECOND;
    while now < at(SECOND + half - 50 * MS) {
        let (mut call, verdict) = site.fail(now);
        assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?} at {now:?}");
        call.cancel(&site.cx(), now + MS);
        now += 20 * MS;
    }
    // What the bucket can still pay for is paid for at once.
    let verdicts = (0..20).map(|n| site.fail(now + 100 * MS + n * MS).1);
    assert_eq!(verdicts.last(), Some(Verdict::Stop(Stop::Budget)));
    assert_eq!(site.guards.parked(), 0);
}

#[test]
fn where_failures_are_usual_calls_do_not_park_and_retries_earn_half_of_the_bonus() {
    let site = Site::new(ParkRule::default());
    (0..10).for_each(|n| site.succeed(at(n * 10 * MS), at(n * 10 * MS + MS)));
    (0..30).for_each(|n| site.fail(at((100 + n * 10) * MS)).0.cancel(&site.cx(), at(SECOND)));
    let tokens = || site.guards.price(Class::Transient).unwrap().1;
    assert_eq!(tokens(), 20 + 10);

    let (mut call, verdict) = site.fail(at(SECOND));
    assert!(!call.is_parked() && matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
    let now = at(SECOND + 10 * MS);
    let permit = call.admit(&site.cx(), now).unwrap();
    assert_eq!(tokens(), 20 + 10 - 20);
    call.settle(&site.cx(), permit, &Outcome::Success, now + MS, || 0);
    assert_eq!(tokens(), 20 + 10 + 5);
}

/// What a call reports that stops instead of waiting.
#[test]
fn a_call_that_must_not_wait_says_why() {
    let reason = |site: &Site, class: Class, taken: Span| {
        let seen = Mutex::new(Vec::new());
        let see = |event: &Event| seen.lock().unwrap().push(*event);
        let cx = Context { observer: Some(&see), ..site.cx() };
        let mut call = Call::new(&site.policy, at(SECOND), Deadline::NONE);
        let permit = call.admit(&cx, at(SECOND)).unwrap();
        let (outcome, now) = (Failure::new(class).into(), at(SECOND) + taken);
        let verdict = call.settle(&cx, permit, &outcome, now, || 0);
        assert_eq!(verdict, Verdict::Stop(Stop::Budget));
        let why = |event: &Event| match event {
            Event::NotParked { reason } => Some(*reason),
            _ => None,
        };
        seen.into_inner().unwrap().iter().find_map(why)
    };
    let empty = TokenBudget::earned().opening(0).bootstrap(0);
    let site = |rule: ParkRule, successes: u64, failures: u64| {
        let policy = Site::new(rule).policy.edit().budget(Budget::Tokens(empty));
        let policy = policy.build().unwrap();
        let site = Site { guards: Guards::new(&policy, 1, 0), policy, most: u32::MAX };
        (0..successes).for_each(|n| site.succeed(at(n * MS), at(n * MS)));
        (0..failures).for_each(|n| site.fail(at((100 + n) * MS)).0.cancel(&site.cx(), at(SECOND)));
        site
    };
    let default = ParkRule::default();
    let check = |site: Site, class, taken, expected| {
        assert_eq!(reason(&site, class, taken), Some(expected));
    };
    check(site(default, 0, 0), Class::Reset, MS, NotParked::Alone);
    check(site(default, 0, 0), Class::Timeout, 2 * SECOND, NotParked::NoRoom);
    check(site(default.most(1), 15, 0).holding(), Class::Reset, MS, NotParked::Full);
    check(site(ParkRule::outage(0.01), 15, 890), Class::Reset, MS, NotParked::LongOutage);
    check(site(default, 10, 30), Class::Reset, MS, NotParked::FailuresUsual);
}

#[test]
fn calls_are_released_at_most_half_as_fast_as_the_process_makes_them() {
    let policy = Site::new(ParkRule::default()).policy.edit();
    let policy = policy.deadline(Duration::from_secs(1)).build().unwrap();
    let site = Site { guards: Guards::new(&policy, 1, 0), policy, most: u32::MAX };
    (0..1_000).for_each(|n| site.succeed(at(n * MS), at(n * MS + MS)));
    let calls: Vec<_> = (0..300).map(|n| site.fail(at(SECOND + n * MS)).0).collect();
    let mut calls: VecDeque<_> = calls.into_iter().filter(Call::is_parked).collect();
    let parked = calls.len();
    for n in 0..300 {
        let now = at(SECOND + (300 + n) * MS);
        site.succeed(now, now + MS);
        while let Some(call) = calls.front_mut()
            && site.ask(call, now + MS).0 == Turn::Go
        {
            let permit = call.admit(&site.cx(), now + MS).unwrap();
            call.settle(&site.cx(), permit, &Outcome::Success, now + 2 * MS, || 0);
            calls.pop_front();
        }
    }
    let released = parked - calls.len();
    assert!((130..=190).contains(&released), "{released} of {parked} beside 300 calls");
}

#[test]
fn calls_are_held_also_where_a_timeout_is_as_long_as_the_deadline() {
    let policy = Policy::draft().stall(StallRule::most(1.0)).without_hedge().build().unwrap();
    let site = Site { guards: Guards::new(&policy, 1, 0), policy, most: u32::MAX };
    let held_after = |seconds: u64| {
        (0..100).for_each(|n| site.succeed(at(n * 10 * MS), at(n * 10 * MS + MS)));
        let whole = 10 * SECOND;
        for n in 0..60 {
            let _ = site.fail_as(Class::Timeout, at(SECOND + n * MS), at(SECOND + whole));
        }
        let now = at(SECOND + whole + seconds * SECOND);
        let mut call = Call::new(&site.policy, now, Deadline::NONE);
        assert_eq!(call.admit(&site.cx(), now).unwrap_err(), Stop::Stalled);
        call.is_parked()
    };
    assert!(held_after(10));
    assert!(!held_after(21), "nothing has been answered for too long");
}

#[test]
fn a_call_that_the_stall_rule_refuses_waits_for_a_success() {
    let policy = Policy::draft().stall(StallRule::most(1.0)).without_hedge().build().unwrap();
    let site = Site { guards: Guards::new(&policy, 1, 0), policy, most: u32::MAX };
    (0..100).for_each(|n| site.succeed(at(n * 10 * MS), at(n * 10 * MS + MS)));
    for n in 0..60 {
        let _ = site.fail_as(Class::Timeout, at(SECOND + n * MS), at(SECOND + (400 + n) * MS));
    }
    let now = at(3 * SECOND);
    let mut held = Call::new(&site.policy, now, Deadline::NONE);
    assert_eq!(held.admit(&site.cx(), now).unwrap_err(), Stop::Stalled);
    assert!(held.is_parked() && !held.is_over());
    assert!(matches!(site.ask(&mut held, now).0, Turn::Wait(_)));
    site.guards.passed(now + MS, || now + 2 * MS);
    assert_eq!(site.ask(&mut held, now + 2 * MS).0, Turn::Go);
    let permit = held.admit(&site.cx(), now + 2 * MS).unwrap();
    assert_eq!(permit.number, 1);
    let verdict = held.settle(&site.cx(), permit, &Outcome::Success, now + 3 * MS, || 0);
    assert_eq!(verdict, Verdict::Done);
}
