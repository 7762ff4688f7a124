//! Calls that one process stores and another one continues.

use redial_core::admit::budget::{Budget, InflightBudget, WindowBudget};
use redial_core::decide::Class;
use redial_core::schedule::{Backoff, Jitter};
use redial_core::{Call, NEVER, Nanos, Progress, Rate, Stop, Verdict};

use crate::support::{Lab, MS, SECOND, Trace, fail, ms, policy};

/// A call that fails for ever, and that another process takes over in every wait.
fn handed_over(lab: &mut Lab, deadline: Nanos) -> Trace {
    lab.seed += 1;
    let (started, mut waits, mut progress) = (lab.now, Vec::new(), Progress::default());
    let end = loop {
        let mut call = match Call::revive(progress, true, &lab.cx(), deadline, lab.now) {
            Ok(call) => call,
            Err(stop) => break Err(stop),
        };
        let permit = match call.admit(&lab.cx(), lab.now) {
            Ok(permit) => permit,
            Err(stop) => break Err(stop),
        };
        assert_eq!(permit.number, progress.attempts + 1);
        lab.now += lab.attempt_takes;
        let verdict = call.settle(&lab.cx(), permit, &fail(Class::Reset), lab.now, || lab.seed);
        progress = call.progress();
        match verdict {
            Verdict::Wait(until) => {
                call.cancel(&lab.cx(), lab.now);
                waits.push(until - lab.now);
                lab.now = until;
            }
            Verdict::Stop(stop) => break Err(stop),
            other => panic!("{other:?}"),
        }
    };
    Trace { attempts: progress.attempts, waits, end, elapsed: lab.now - started }
}

#[test]
fn a_call_handed_over_in_every_wait_is_the_same_call() {
    let backoff = Backoff::exponential(ms(100), ms(3_000));
    for jitter in [Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Decorrelated] {
        for (attempts, deadline) in [(1, 10_000), (4, 10_000), (9, 4_000)] {
            let lab = || {
                let mut lab = Lab::new(policy(|p| {
                    let backoff = backoff.jitter(jitter);
                    p.attempts(attempts).deadline(ms(deadline)).backoff(backoff)
                }));
                lab.attempt_takes = 5 * MS;
                lab
            };
            let want = lab().failing(Class::Reset);
            let mut other = lab();
            let deadline = other.now + deadline * MS;
            assert_eq!(handed_over(&mut other, deadline), want, "{jitter:?}, {attempts}");
        }
    }
}

#[test]
fn a_stored_wait_holds_nothing() {
    let budget = WindowBudget::ratio(0.1).floor(Rate::per_second(1)).bootstrap(0);
    let mut lab = Lab::new(policy(|p| p.budget(Budget::Window(budget))));
    let before = lab.balance();
    let mut call = lab.start();
    let permit = call.admit(&lab.cx(), lab.now).unwrap();
    let verdict = call.settle(&lab.cx(), permit, &fail(Class::Reset), lab.now, || 1);
    assert!(matches!(verdict, Verdict::Wait(_)));
    assert_eq!(lab.balance(), before - 1, "the retry is paid for before the wait");
    let progress = call.progress();
    call.cancel(&lab.cx(), lab.now);
    assert_eq!(lab.balance(), before);

    while lab.guards.withdraw_up_to(1, Class::Reset, lab.now) == 1 {}
    assert_eq!(Call::revive(progress, true, &lab.cx(), NEVER, lab.now).unwrap_err(), Stop::Budget);
    lab.now += 20 * SECOND;
    let mut call = Call::revive(progress, true, &lab.cx(), NEVER, lab.now).unwrap();
    assert_eq!(call.admit(&lab.cx(), lab.now).unwrap().number, 2);
}

#[test]
fn a_revived_call_is_in_flight_once() {
    let mut lab = Lab::new(policy(|p| p.budget(Budget::Inflight(InflightBudget::new(0.5, 0)))));
    for _ in 0..3 {
        handed_over(&mut lab, NEVER);
    }
    let (mut one, mut other) = (lab.start(), lab.start());
    let _held = (one.admit(&lab.cx(), lab.now).unwrap(), other.admit(&lab.cx(), lab.now).unwrap());
    assert_eq!(lab.balance(), 1, "half of two");
}

#[test]
fn a_deadline_that_passed_in_another_process_has_passed() {
    let lab = Lab::new(policy(|p| p));
    let progress = Progress { attempts: 1, step: 1, drawn: MS };
    let mut call = Call::revive(progress, true, &lab.cx(), lab.now, lab.now).unwrap();
    assert_eq!(call.admit(&lab.cx(), lab.now).unwrap_err(), Stop::Deadline);
}

#[test]
fn a_call_with_no_attempt_left_is_not_revived() {
    let lab = Lab::new(policy(|p| p.attempts(3)));
    let progress = |attempts| Progress { attempts, step: attempts, drawn: 0 };
    let revive = |attempts| Call::revive(progress(attempts), true, &lab.cx(), NEVER, lab.now).err();
    assert_eq!((revive(2), revive(3)), (None, Some(Stop::Attempts)));
}

#[test]
fn polling_is_free() {
    let budget = WindowBudget::ratio(0.1).floor(Rate::ZERO).bootstrap(0);
    let lab = Lab::new(policy(|p| p.attempts(3).budget(Budget::Window(budget))));
    let progress = |attempts| Progress { attempts, step: attempts, drawn: 0 };
    let revive =
        |attempts, retry| Call::revive(progress(attempts), retry, &lab.cx(), NEVER, lab.now);
    assert_eq!(revive(1, true).unwrap_err(), Stop::Budget);
    assert_eq!(revive(1, false).unwrap().admit(&lab.cx(), lab.now).unwrap().number, 2);
    assert_eq!(revive(3, false).unwrap_err(), Stop::Attempts);
}
