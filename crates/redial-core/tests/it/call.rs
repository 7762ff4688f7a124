use redial_core::admit::budget::{Budget, InflightBudget, WindowBudget};
use redial_core::decide::{Class, Failure, Outcome, Reach, RetryOn, Safety};
use redial_core::schedule::{Backoff, Hint, Jitter};
use redial_core::{Call, Deadline, Draft, Event, Preset, Rate, Span, Stop, Verdict};

use crate::support::{Lab, MS, NS, SECOND, at, fail, ms, policy};

#[test]
fn a_call_is_small() {
    assert!(size_of::<Call>() <= 32, "{}", size_of::<Call>());
}

#[test]
fn success_on_the_first_attempt_is_one_attempt() {
    let mut lab = Lab::new(policy(|p| p));
    let trace = lab.call(&[Outcome::Success]);
    assert_eq!((trace.attempts, trace.end, trace.elapsed), (1, Ok(()), Span::ZERO));
    assert_eq!(
        lab.events.take(),
        [
            Event::Attempt { number: 1, hedge: false },
            Event::AttemptEnded { number: 1, taken: ms(0), outcome: Outcome::Success },
            Event::Succeeded { attempts: 1 },
        ]
    );
}

#[test]
fn every_step_is_an_event() {
    let plain = Backoff::default().jitter(Jitter::None);
    let mut lab = Lab::new(policy(|p| p.backoff(plain).attempts(2)));
    let hint = Hint::AtLeast(ms(3_000));
    let failure = Failure::new(Class::Throttled).code(429).hint(hint);
    lab.attempt_takes = 20 * MS;
    lab.call(&[failure.into()]);
    let ended = |number| Event::AttemptEnded { number, taken: ms(20), outcome: failure.into() };
    assert_eq!(
        lab.events.take(),
        [
            Event::Attempt { number: 1, hedge: false },
            ended(1),
            Event::HintHonoured { hint, delay: ms(3_000) },
            Event::RetryScheduled { attempt: 2, delay: ms(3_000), failure: Some(failure) },
            Event::Attempt { number: 2, hedge: false },
            ended(2),
            Event::Stopped { reason: Stop::Attempts, attempts: 2 },
        ]
    );
}

#[test]
fn the_safety_gate() {
    let check = |safety, class, reach, retried| {
        let mut lab = Lab::new(policy(|p| p));
        lab.request.safety = safety;
        let trace = lab.call(&[Failure::new(class).reach(reach).into(), Outcome::Success]);
        let want = if retried { Ok(()) } else { Err(Stop::Unsafe) };
        assert_eq!(trace.end, want, "{safety:?} {class:?} {reach:?}");
    };
    for safety in [Safety::Unsafe, Safety::Idempotent, Safety::Keyed, Safety::Conditional] {
        let safe = safety != Safety::Unsafe;
        for class in [Class::Reset, Class::Timeout, Class::Overloaded, Class::ServerError] {
            check(safety, class, Reach::Unknown, safe);
            check(safety, class, Reach::NotSent, true);
            check(safety, class, Reach::Refused, true);
        }
    }
}

#[test]
fn classes_imply_how_far_the_request_got() {
    let reach = |class| Failure::new(class).reach;
    assert_eq!(reach(Class::Connect), Reach::NotSent);
    assert_eq!((reach(Class::Refused), reach(Class::Throttled)), (Reach::Refused, Reach::Refused));
    for class in [Class::Reset, Class::Timeout, Class::Overloaded, Class::ServerError] {
        assert_eq!(reach(class), Reach::Unknown, "{class:?}");
    }
}

#[test]
fn a_required_key_is_required() {
    let mut lab = Lab::new(Preset::PaymentProcessor.into());
    lab.request.safety = Safety::Idempotent;
    let charge = Failure::new(Class::ServerError).code(500).into();
    assert_eq!(lab.call(&[charge]).end, Err(Stop::Unsafe));
    lab.request.safety = Safety::Keyed;
    assert_eq!(lab.call(&[charge, Outcome::Success]).end, Ok(()));
    lab.request.safety = Safety::Unsafe;
    let refused = Failure::new(Class::Throttled).code(429).into();
    assert_eq!(lab.call(&[refused, Outcome::Success]).end, Ok(()), "it was not processed");
    let declined = Failure::new(Class::Permanent).code(402).into();
    assert_eq!(lab.call(&[declined]).end, Err(Stop::Permanent));
}

#[test]
fn a_policy_repeats_what_it_lists() {
    let listed = RetryOn::nothing().class(Class::Connect).code(503);
    let mut lab = Lab::new(policy(|p| p.retry_on(listed)));
    let mut end = |failure: Failure| lab.call(&[failure.into(), Outcome::Success]).end;
    assert_eq!(end(Failure::new(Class::Connect)), Ok(()));
    assert_eq!(end(Failure::new(Class::Overloaded).code(503)), Ok(()));
    assert_eq!(end(Failure::new(Class::Overloaded)), Err(Stop::Permanent));
    assert_eq!(end(Failure::new(Class::ServerError).code(500)), Err(Stop::Permanent));
    let all = RetryOn::transient().class(Class::Permanent).class(Class::Cancelled);
    assert_eq!(all, RetryOn::transient(), "naming what is never repeated changes nothing");
}

#[test]
fn a_stop_signal_from_below_ends_the_call() {
    let mut lab = Lab::new(policy(|p| p));
    let trace = lab.call(&[Failure::new(Class::Overloaded).told_to_stop().into()]);
    assert_eq!((trace.attempts, trace.end), (1, Err(Stop::ToldToStop)));
    assert_eq!(lab.failing(Class::Cancelled).end, Err(Stop::Cancelled));
    let answered = Outcome::of_grpc(1, false);
    assert_eq!(lab.call(&[answered]).end, Err(Stop::Cancelled), "not listed");
    let mut lab = Lab::new(policy(|p| p.retry_on(RetryOn::nothing().code(1)).attempts(3)));
    assert_eq!(lab.call(&[answered]).attempts, 3, "the answer of a server, and listed");
    assert_eq!(lab.failing(Class::Cancelled).attempts, 1, "by the caller");
}

#[test]
fn a_switched_off_call_makes_one_attempt() {
    let mut lab = Lab::new(policy(|p| p));
    lab.request.off = Some(Stop::SwitchedOff);
    let trace = lab.failing(Class::Reset);
    assert_eq!((trace.attempts, trace.end), (1, Err(Stop::SwitchedOff)));
    assert_eq!(lab.balance(), 10, "and costs nothing");
    let polled = lab.call(&[Outcome::NotYet(None), Outcome::Success]);
    assert_eq!(polled.end, Ok(()), "a poll is not a retry");
}

#[test]
fn switching_off_stops_waiting_retries() {
    let mut lab = Lab::new(policy(|p| p));
    let mut call = lab.start();
    let permit = call.admit(&lab.cx(), lab.now).unwrap();
    let Verdict::Wait(until) = call.settle(&lab.cx(), permit, &fail(Class::Reset), lab.now, || 1)
    else {
        panic!("a retry is scheduled");
    };
    lab.request.off = Some(Stop::SwitchedOff);
    assert_eq!(call.admit(&lab.cx(), until).unwrap_err(), Stop::SwitchedOff);
    assert_eq!(lab.balance(), 10);
}

#[test]
fn a_late_permit_only_updates_the_guards() {
    let inflight = Budget::Inflight(InflightBudget::new(0.2, 3));
    for outcome in [Outcome::Success, fail(Class::Reset)] {
        let lab = Lab::new(policy(|p| p.budget(inflight).concurrency(2)));
        let mut call = lab.start();
        let slow = call.admit(&lab.cx(), lab.now).unwrap();
        let quick = call.hedge(&lab.cx(), lab.now, lab.now).unwrap();
        assert_eq!(call.settle(&lab.cx(), quick, &Outcome::Success, lab.now, || 0), Verdict::Done);
        let late = call.settle(&lab.cx(), slow, &outcome, lab.now, || 0);
        assert_eq!(late, Verdict::Stop(Stop::Cancelled));
        assert_eq!(lab.balance(), 3, "nothing is in flight");
        assert_eq!(call.admit(&lab.cx(), lab.now).unwrap_err(), Stop::Cancelled);
        assert_eq!(
            call.hedge(&lab.cx(), lab.now, lab.now).unwrap_err().reason,
            Some(Stop::Cancelled)
        );
    }
}

#[test]
fn an_attempt_is_given_only_after_a_wait() {
    let lab = Lab::new(policy(|p| p));
    let mut call = lab.start();
    let permit = call.admit(&lab.cx(), lab.now).unwrap();
    assert_eq!(call.admit(&lab.cx(), lab.now).unwrap_err(), Stop::Cancelled, "one is on its way");
    assert_eq!(call.settle(&lab.cx(), permit, &Outcome::Success, lab.now, || 0), Verdict::Done);
}

#[test]
fn hedges_are_bounded() {
    let lab = Lab::new(policy(|p| p.attempts(1_000).budget(Budget::None)));
    let mut call = lab.start();
    let mut held = vec![call.admit(&lab.cx(), lab.now).unwrap()];
    let refused = loop {
        match call.hedge(&lab.cx(), lab.now, lab.now) {
            Ok(permit) => held.push(permit),
            Err(refused) => break refused,
        }
    };
    assert_eq!((held.len(), refused.reason), (255, Some(Stop::Concurrency)));
    held.into_iter().for_each(|permit| call.abandon(&lab.cx(), permit, lab.now));
}

#[test]
fn what_is_unsafe_or_has_a_precondition_is_not_hedged() {
    let hedges = |safety, change: fn(Draft) -> Draft| {
        let mut lab = Lab::new(policy(change));
        lab.request.safety = safety;
        let mut call = lab.start();
        let first = call.admit(&lab.cx(), lab.now).unwrap();
        let hedge = call.hedge(&lab.cx(), lab.now, lab.now);
        call.abandon(&lab.cx(), first, lab.now);
        hedge
            .map(|permit| call.abandon(&lab.cx(), permit, lab.now))
            .map_err(|refused| refused.reason)
    };
    for safety in [Safety::ReadOnly, Safety::Idempotent, Safety::Keyed] {
        assert_eq!(hedges(safety, |p| p), Ok(()), "{safety:?}");
    }
    for safety in [Safety::Unsafe, Safety::Conditional] {
        assert_eq!(hedges(safety, |p| p), Err(Some(Stop::Unsafe)), "{safety:?}");
    }
    assert_eq!(hedges(Safety::Idempotent, Draft::require_key), Err(Some(Stop::Unsafe)));
}

#[test]
fn a_transient_error_is_retried_whatever_the_policy_lists() {
    let mut lab = Lab::new(Preset::PaymentProcessor.into());
    lab.request.safety = Safety::Keyed;
    assert_eq!(lab.call(&[fail(Class::Transient), Outcome::Success]).end, Ok(()));
}

#[test]
fn the_callers_deadline_can_only_shorten_the_policys() {
    let lab = Lab::new(policy(|p| p));
    let deadline = |latest| Call::new(&lab.policy, at(5 * NS), latest).deadline();
    assert_eq!(deadline(Deadline::NONE), at(10 * SECOND + 5 * NS).into());
    assert_eq!(deadline(at(SECOND).into()), at(SECOND).into());
    assert_eq!(deadline(at(60 * SECOND).into()), at(10 * SECOND + 5 * NS).into());
    let mut late = Call::new(&lab.policy, lab.now, lab.now.into());
    assert_eq!(late.admit(&lab.cx(), lab.now).unwrap_err(), Stop::Deadline);
    assert_eq!(lab.events.take(), [Event::Stopped { reason: Stop::Deadline, attempts: 0 }]);
}

#[test]
fn not_yet_polls_on_the_schedule_until_the_attempts_end() {
    let plain = Backoff::exponential(ms(100), ms(400)).jitter(Jitter::None);
    let mut lab = Lab::new(policy(|p| p.backoff(plain).attempts(6)));
    let trace = lab.call(&[Outcome::NotYet(None)]);
    assert_eq!(trace.waits, [100, 200, 400, 400, 400].map(|ms| ms * MS));
    assert_eq!(trace.end, Err(Stop::Attempts));
    let unasked = lab.call(&[Outcome::NotYet(Some(Hint::AtLeast(ms(1_000)))), Outcome::Success]);
    assert_eq!(unasked.waits, [SECOND], "the server may say when to ask again");
}

#[test]
fn a_hedge_is_an_attempt_paid_from_the_same_budget() {
    let budget = Budget::Window(WindowBudget::ratio(0.1).floor(Rate::new(1, ms(10_000))));
    let lab = Lab::new(policy(|p| p.budget(budget)));
    let mut call = lab.start();
    let slow = call.admit(&lab.cx(), lab.now).unwrap();
    let hedge = call.hedge(&lab.cx(), lab.now, lab.now + MS).unwrap();
    assert_eq!((slow.number, hedge.number, lab.balance()), (1, 2, 0));
    assert_eq!(
        call.hedge(&lab.cx(), lab.now, lab.now + MS).unwrap_err().reason,
        Some(Stop::Budget)
    );
    assert_eq!(call.settle(&lab.cx(), hedge, &Outcome::Success, lab.now, || 0), Verdict::Done);
    call.abandon(&lab.cx(), slow, lab.now);
}

#[test]
fn a_failed_attempt_waits_for_the_one_beside_it() {
    let lab = Lab::new(policy(|p| p));
    let mut call = lab.start();
    let first = call.admit(&lab.cx(), lab.now).unwrap();
    let second = call.hedge(&lab.cx(), lab.now, lab.now).unwrap();
    let settle =
        |call: &mut Call, permit, outcome| call.settle(&lab.cx(), permit, &outcome, lab.now, || 0);
    assert_eq!(settle(&mut call, first, fail(Class::Reset)), Verdict::InFlight);
    assert!(matches!(settle(&mut call, second, fail(Class::Reset)), Verdict::Wait(_)));

    let mut call = lab.start();
    let first = call.admit(&lab.cx(), lab.now).unwrap();
    let second = call.hedge(&lab.cx(), lab.now, lab.now).unwrap();
    assert_eq!(settle(&mut call, first, fail(Class::Permanent)), Verdict::Stop(Stop::Permanent));
    call.abandon(&lab.cx(), second, lab.now);
}

/// A failure that is not retried does not end a call that may still succeed.
#[test]
fn the_first_success_wins_whatever_failed_before_it() {
    let check = |last: Outcome, end| {
        let lab = Lab::new(policy(|p| p.retry_on(RetryOn::nothing())));
        let mut call = lab.start();
        let first = call.admit(&lab.cx(), lab.now).unwrap();
        let second = call.hedge(&lab.cx(), lab.now, lab.now).unwrap();
        let failed = call.settle(&lab.cx(), second, &fail(Class::Overloaded), lab.now, || 0);
        assert_eq!(failed, Verdict::InFlight);
        assert_eq!(call.settle(&lab.cx(), first, &last, lab.now, || 0), end);
    };
    check(Outcome::Success, Verdict::Done);
    check(fail(Class::Overloaded), Verdict::Stop(Stop::Permanent));
}

#[test]
fn an_unsafe_call_is_not_hedged() {
    let mut lab = Lab::new(policy(|p| p));
    lab.request.safety = Safety::Unsafe;
    let mut call = lab.start();
    let first = call.admit(&lab.cx(), lab.now).unwrap();
    assert_eq!(call.hedge(&lab.cx(), lab.now, lab.now).unwrap_err().reason, Some(Stop::Unsafe));
    assert_eq!(lab.balance(), 10);
    call.settle(&lab.cx(), first, &Outcome::Success, lab.now, || 0);
}

#[test]
fn every_reason_has_a_name_and_a_sentence() {
    let all = [
        Stop::Permanent,
        Stop::Unsafe,
        Stop::Attempts,
        Stop::Deadline,
        Stop::HintTooLong,
        Stop::Budget,
        Stop::BreakerOpen,
        Stop::Throttled,
        Stop::RateLimit,
        Stop::Concurrency,
        Stop::CoolDown,
        Stop::Stalled,
        Stop::ToldToStop,
        Stop::SwitchedOff,
        Stop::Cancelled,
    ];
    let debug = |stop: Stop| format!("{stop:?}").to_lowercase();
    for stop in all {
        assert_eq!(stop.name().replace('-', ""), debug(stop));
        assert!(stop.to_string().len() > stop.name().len());
    }
}
