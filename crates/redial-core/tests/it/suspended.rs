//! Calls that are stored between two attempts, and that another process continues.

use redial_core::admit::BreakerRule;
use redial_core::admit::budget::{Budget, InflightBudget, WindowBudget};
use redial_core::decide::{Class, Failure, Outcome};
use redial_core::schedule::{Backoff, Hint, Jitter};
use redial_core::{Call, Deadline, Event, Progress, Rate, Stop, Suspended};

use crate::support::{Lab, MS, SECOND, Trace, fail, ms, policy};

/// A call that another process continues after every wait. The last outcome repeats itself for ever.
fn handed_over(lab: &mut Lab, outcomes: &[Outcome], deadline: Deadline) -> Trace {
    lab.seed += 1;
    let (started, mut waits, mut progress) = (lab.now, Vec::new(), Progress::default());
    let mut attempts = 0;
    let mut outcomes = outcomes.iter().chain(std::iter::repeat(outcomes.last().unwrap()));
    let end = loop {
        let mut call = match Call::revive(progress, &lab.cx(), deadline, lab.now) {
            Ok(call) => call,
            Err(stop) => break Err(stop),
        };
        let permit = match call.admit(&lab.cx(), lab.now) {
            Ok(permit) => permit,
            Err(stop) => break Err(stop),
        };
        attempts += 1;
        assert_eq!(permit.number, attempts);
        lab.now += lab.attempt_takes;
        let outcome = outcomes.next().unwrap();
        match call.suspend(&lab.cx(), permit, outcome, lab.now, || lab.seed) {
            Suspended::Done => break Ok(()),
            Suspended::Stop(stop) => break Err(stop),
            Suspended::Wait { until, progress: reached } => {
                waits.push(until - lab.now);
                (lab.now, progress) = (until, reached);
            }
        }
    };
    Trace { attempts, waits, end, elapsed: lab.now - started }
}

fn suspend(lab: &Lab, outcome: &Outcome) -> Suspended {
    let mut call = lab.start();
    let permit = call.admit(&lab.cx(), lab.now).unwrap();
    call.suspend(&lab.cx(), permit, outcome, lab.now, || lab.seed)
}

#[test]
fn a_call_that_is_handed_over_in_every_wait_is_the_same_call() {
    let backoff = Backoff::exponential(ms(100), ms(3_000));
    let pushback = Failure::new(Class::Reset).hint(Hint::Pushback(ms(7))).into();
    let floor = Failure::new(Class::Reset).hint(Hint::AtLeast(ms(900))).into();
    let reset = fail(Class::Reset);
    let calls = [
        vec![reset],
        vec![reset, reset, pushback, reset],
        vec![reset, floor, pushback, Outcome::NotYet(None), reset],
        vec![reset, reset, Outcome::Success],
    ];
    for jitter in [Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Decorrelated] {
        for (attempts, deadline) in [(1, 10_000), (4, 10_000), (9, 4_000)] {
            for outcomes in &calls {
                let lab = || {
                    let mut lab = Lab::new(policy(|p| {
                        let backoff = backoff.jitter(jitter);
                        p.attempts(attempts).deadline(ms(deadline)).backoff(backoff)
                    }));
                    lab.attempt_takes = 5 * MS;
                    lab
                };
                let (mut one, mut other) = (lab(), lab());
                let want = one.call(outcomes);
                let deadline = other.now + deadline * MS;
                let context = format!("{jitter:?}, {attempts}, {outcomes:?}");
                assert_eq!(handed_over(&mut other, outcomes, deadline.into()), want, "{context}");
            }
        }
    }
}

/// A dry budget and an open breaker end a call in one process. One that is suspended has the same schedule as without
/// them, and its next attempt is refused when it is due.
#[test]
fn guards_do_not_change_the_schedule_of_a_suspended_call() {
    let backoff = Backoff::exponential(ms(100), ms(3_000));
    let dry = Budget::Window(WindowBudget::ratio(0.1).floor(Rate::ZERO).bootstrap(0));
    let breaker = BreakerRule::default().last_calls(1).minimum_calls(1);
    let plain = |p: redial_core::Draft| p.backoff(backoff).budget(Budget::None).deadline(ms(5_000));
    let outcomes = [
        (fail(Class::Reset), false),
        (Failure::new(Class::Reset).hint(Hint::Pushback(ms(7))).into(), false),
        (Failure::new(Class::Reset).hint(Hint::AtLeast(ms(6_000))).into(), true),
    ];
    for (outcome, ends) in outcomes {
        let free = suspend(&Lab::new(policy(plain)), &outcome);
        assert_eq!(matches!(free, Suspended::Stop(Stop::Deadline)), ends, "{outcome:?}");
        let without_money = Lab::new(policy(|p| plain(p).budget(dry)));
        let behind_breaker = Lab::new(policy(|p| plain(p).breaker(breaker)));
        for (lab, stop) in [(without_money, Stop::Budget), (behind_breaker, Stop::BreakerOpen)] {
            assert_eq!(suspend(&lab, &outcome), free, "{stop:?}");
            let refusals = [Event::BudgetDry, Event::Stopped { reason: stop, attempts: 1 }];
            let seen = lab.events.take();
            assert!(!seen.iter().any(|event| refusals.contains(event)), "{seen:?}");
            let Suspended::Wait { until, progress } = free else { continue };
            let revived = Call::revive(progress, &lab.cx(), Deadline::NONE, until);
            let admitted = revived.and_then(|mut call| call.admit(&lab.cx(), until).map(drop));
            assert_eq!(admitted, Err(stop));
        }
    }
}

#[test]
fn a_suspended_call_holds_nothing() {
    let budget = WindowBudget::ratio(0.1).floor(Rate::per_second(1)).bootstrap(0);
    let mut lab = Lab::new(policy(|p| p.budget(Budget::Window(budget))));
    let before = lab.balance();
    let Suspended::Wait { progress, .. } = suspend(&lab, &fail(Class::Reset)) else {
        panic!("no wait")
    };
    assert_eq!(lab.balance(), before, "the process that sends the retry pays for it");

    while lab.guards.withdraw_up_to(1, Class::Reset, lab.now) == 1 {}
    assert_eq!(
        Call::revive(progress, &lab.cx(), Deadline::NONE, lab.now).unwrap_err(),
        Stop::Budget
    );
    lab.now += 20 * SECOND;
    let mut call = Call::revive(progress, &lab.cx(), Deadline::NONE, lab.now).unwrap();
    assert_eq!(call.admit(&lab.cx(), lab.now).unwrap().number, 2);
}

#[test]
fn a_revived_call_is_in_flight_once() {
    let mut lab = Lab::new(policy(|p| p.budget(Budget::Inflight(InflightBudget::new(0.5, 0)))));
    for _ in 0..3 {
        handed_over(&mut lab, &[fail(Class::Reset)], Deadline::NONE);
    }
    let (mut one, mut other) = (lab.start(), lab.start());
    let _held = (one.admit(&lab.cx(), lab.now).unwrap(), other.admit(&lab.cx(), lab.now).unwrap());
    assert_eq!(lab.balance(), 1, "half of two");
}

#[test]
fn a_deadline_that_has_passed_elsewhere_has_passed() {
    let lab = Lab::new(policy(|p| p));
    let progress = Progress { attempts: 1, step: 1, drawn: MS, poll: false };
    let mut call = Call::revive(progress, &lab.cx(), lab.now.into(), lab.now).unwrap();
    assert_eq!(call.admit(&lab.cx(), lab.now).unwrap_err(), Stop::Deadline);
}

#[test]
fn a_call_with_no_attempt_left_is_not_revived() {
    let lab = Lab::new(policy(|p| p.attempts(3)));
    let revive = |attempts| {
        let progress = Progress { attempts, step: attempts, ..Progress::default() };
        Call::revive(progress, &lab.cx(), Deadline::NONE, lab.now).err()
    };
    assert_eq!((revive(2), revive(3)), (None, Some(Stop::Attempts)));
}

#[test]
fn a_poll_is_free_and_a_retry_is_not() {
    let budget = WindowBudget::ratio(0.1).floor(Rate::ZERO).bootstrap(0);
    let lab = Lab::new(policy(|p| p.attempts(3).budget(Budget::Window(budget))));
    let suspended = |outcome: Outcome| match suspend(&lab, &outcome) {
        Suspended::Wait { progress, .. } => progress,
        other => panic!("{other:?}"),
    };
    let revive = |progress| Call::revive(progress, &lab.cx(), Deadline::NONE, lab.now);
    let retry = suspended(fail(Class::Reset));
    assert_eq!(revive(retry).unwrap_err(), Stop::Budget);
    let poll = suspended(Outcome::NotYet(None));
    assert_eq!(revive(poll).unwrap().admit(&lab.cx(), lab.now).unwrap().number, 2);
    let last = Progress { attempts: 3, ..poll };
    assert_eq!(revive(last).unwrap_err(), Stop::Attempts);
}
