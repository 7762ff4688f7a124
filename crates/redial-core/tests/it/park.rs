//! Calls that cannot retry yet wait for evidence: the success of an attempt that was sent after the one that failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use redial_core::admit::budget::{Budget, TokenBudget};
use redial_core::admit::{Guards, ParkRule, StallRule};
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
        self.fail_as(Class::Overloaded, sent, sent + MS)
    }

    fn fail_as(&self, class: Class, sent: Nanos, now: Nanos) -> (Call, Verdict) {
        let mut call = Call::new(&self.policy, sent, NEVER);
        let permit = call.admit(&self.cx(), sent).unwrap();
        let verdict = call.settle(&self.cx(), permit, &Failure::new(class).into(), now, || 0);
        (call, verdict)
    }

    /// Waits for the turn of a parked call that nothing else happens beside. Returns when it is, or why there is none.
    fn turn(&self, call: &mut Call, from: Nanos) -> Result<Nanos, Stop> {
        let mut now = from;
        loop {
            match self.ask(call, now).0 {
                Turn::Go => return Ok(now),
                Turn::Wait(until) => now = until.max(now + 1),
                Turn::Stop(stop) => return Err(stop),
            }
        }
    }

    /// When the attempts of a call are sent that is alone in its process and fails again and again after `taken`.
    fn alone(&self, class: Class, taken: Nanos) -> (Vec<Nanos>, Stop) {
        let (mut sent, mut times) = (SECOND, vec![0]);
        let (mut call, mut verdict) = self.fail_as(class, sent, sent + taken);
        loop {
            match verdict {
                Verdict::Wait(until) => match self.turn(&mut call, until) {
                    Ok(now) => sent = now,
                    Err(stop) => return (times, stop),
                },
                Verdict::Stop(stop) => return (times, stop),
                _ => panic!("{verdict:?}"),
            }
            times.push(sent - SECOND);
            let permit = call.admit(&self.cx(), sent).unwrap();
            let outcome = Failure::new(class).into();
            verdict = call.settle(&self.cx(), permit, &outcome, sent + taken, || 0);
        }
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

#[test]
fn a_new_process_makes_the_attempts_of_its_policy() {
    for (class, taken) in
        [(Class::Overloaded, MS), (Class::Timeout, 100 * MS), (Class::Timeout, SECOND)]
    {
        let (times, stop) = Site::new(ParkRule::default()).alone(class, taken);
        assert_eq!((times.len(), stop), (4, Stop::Attempts), "{class:?} {taken}: {times:?}");
        assert!(times.last().unwrap() + taken <= 10 * SECOND, "{times:?}");
    }
}

#[test]
fn a_timeout_that_leaves_no_room_is_not_repeated_by_a_lone_call() {
    let (times, stop) = Site::new(ParkRule::default()).alone(Class::Timeout, 2 * SECOND);
    assert_eq!((times.len(), stop), (1, Stop::Budget));
}

#[test]
fn after_a_success_a_lone_call_has_what_was_earned() {
    let site = Site::new(ParkRule::default());
    site.succeed(0, MS);
    let (times, stop) = site.alone(Class::Overloaded, MS);
    assert_eq!((times.len(), stop), (2, Stop::Budget), "{times:?}");
}

#[test]
fn a_call_that_the_stall_rule_refuses_waits_for_a_success() {
    let policy = Policy::draft().stall(StallRule::most(1.0)).without_hedge().build().unwrap();
    let site = Site { guards: Guards::new(&policy, 1, 0), policy, most: u32::MAX };
    (0..100).for_each(|n| site.succeed(n * 10 * MS, n * 10 * MS + MS));
    for n in 0..60 {
        let _ = site.fail_as(Class::Timeout, SECOND + n * MS, SECOND + (400 + n) * MS);
    }
    let now = 3 * SECOND;
    let mut held = Call::new(&site.policy, now, NEVER);
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

/// What happens next at a destination.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Failure,
    Timeout,
    Success,
    Cancel,
}

fn anything() -> impl Strategy<Value = Happens> {
    use Happens::{Cancel, Failure, Success, Timeout};
    prop_oneof![4 => Just(Failure), 2 => Just(Timeout), 3 => Just(Success), 1 => Just(Cancel)]
}

/// A parked call, when the attempt that failed was sent, and when to ask next.
struct Held(Call, Nanos, Nanos);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parked_calls_are_bounded_and_released_by_evidence_or_as_probes(
        steps in proptest::collection::vec((anything(), 1u64..300), 1..120),
        most in 1u32..8,
    ) {
        let site = warm(ParkRule::default().most(most));
        let (mut now, mut newest) = (2 * SECOND, 0);
        let mut held: Vec<Held> = Vec::new();
        for (happens, after) in steps {
            now += after * MS;
            match happens {
                Happens::Success => {
                    site.succeed(now, now);
                    newest = now;
                }
                Happens::Cancel => {
                    if let Some(Held(mut call, ..)) = held.pop() {
                        call.cancel(&site.cx(), now);
                    }
                }
                failure => {
                    let (class, taken) = match failure {
                        Happens::Timeout => (Class::Timeout, 200 * MS),
                        _ => (Class::Overloaded, 0),
                    };
                    let (call, verdict) = site.fail_as(class, now - taken, now);
                    if let (true, Verdict::Wait(until)) = (call.is_parked(), verdict) {
                        held.push(Held(call, now - taken, until));
                    }
                }
            }
            prop_assert!(site.guards.parked() <= most);
            prop_assert_eq!(site.guards.parked() as usize, held.len());
            let mut probes = 0;
            let mut kept = Vec::new();
            for Held(mut call, sent, until) in held {
                if until > now {
                    kept.push(Held(call, sent, until));
                    continue;
                }
                match site.ask(&mut call, now).0 {
                    Turn::Wait(later) => {
                        prop_assert!(later <= call.deadline());
                        kept.push(Held(call, sent, 0));
                    }
                    Turn::Go => {
                        prop_assert!(now < call.deadline());
                        probes += u32::from(newest <= sent);
                        call.cancel(&site.cx(), now);
                    }
                    Turn::Stop(stop) => {
                        prop_assert!(stop == Stop::Budget || now >= call.deadline(), "{:?}", stop);
                    }
                }
            }
            prop_assert!(probes <= 1, "one call at a time is sent to find out");
            held = kept;
        }
    }

    #[test]
    fn a_total_outage_sees_no_more_retries_than_the_bucket_held(
        gaps in proptest::collection::vec(1u64..400, 1..400),
    ) {
        let site = Site::new(ParkRule::default());
        let (mut now, mut retries) = (SECOND, 0u64);
        let mut held: Vec<(Call, Nanos)> = Vec::new();
        for gap in gaps {
            now += gap * MS;
            let (call, verdict) = site.fail(now);
            match verdict {
                Verdict::Wait(until) => held.push((call, until)),
                _ => prop_assert!(call.is_over()),
            }
            now += MS;
            for (mut call, until) in std::mem::take(&mut held) {
                if until > now {
                    held.push((call, until));
                    continue;
                }
                match site.ask(&mut call, now).0 {
                    Turn::Wait(_) => held.push((call, 0)),
                    Turn::Stop(_) => {}
                    Turn::Go => {
                        retries += 1;
                        let permit = call.admit(&site.cx(), now).unwrap();
                        let failed = Failure::new(Class::Overloaded).into();
                        if let Verdict::Wait(until) = call.settle(&site.cx(), permit, &failed, now, || 0) {
                            held.push((call, until));
                        }
                    }
                }
            }
        }
        // Three of a new process, and one in 30 s from the first refusal on.
        prop_assert!(retries <= 3 + 1 + now / (30 * SECOND), "{} until {}", retries, now);
    }
}
