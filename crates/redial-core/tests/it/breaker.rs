use redial_core::admit::budget::Budget;
use redial_core::admit::{BreakerRule, BreakerState, RateRule, ThrottleRule};
use redial_core::decide::{Class, Outcome};
use redial_core::{Event, Rate, Stop, Verdict};

use crate::support::{Lab, MS, NS, SECOND, fail, ms, policy};

/// Single attempts, no budget, opens for exactly 5 s.
fn lab(rule: BreakerRule) -> Lab {
    let rule = rule.open_for(ms(5_000), 0.0);
    Lab::new(policy(|p| p.attempts(1).budget(Budget::None).without_deadline().breaker(rule)))
}

fn run(lab: &mut Lab, outcome: Outcome, times: usize) -> usize {
    (0..times).filter(|_| lab.call(&[outcome]).end != Err(Stop::BreakerOpen)).count()
}

#[test]
fn opens_at_its_ratio_after_enough_calls() {
    let mut lab = lab(BreakerRule::default().last_calls(10).minimum_calls(4).failure_ratio(0.5));
    assert_eq!(run(&mut lab, fail(Class::Reset), 3), 3, "too few to judge");
    assert_eq!(run(&mut lab, Outcome::Success, 1), 1);
    assert_eq!(lab.guards.breaker(), BreakerState::Open, "3 of 4, judged at the fourth call");
    assert!(lab.events.take().contains(&Event::BreakerMoved { to: BreakerState::Open }));
    assert_eq!(run(&mut lab, Outcome::Success, 5), 0);
}

#[test]
fn a_count_window_forgets_the_oldest() {
    let mut lab = lab(BreakerRule::default().last_calls(10).minimum_calls(10).failure_ratio(0.5));
    run(&mut lab, fail(Class::Reset), 4);
    run(&mut lab, Outcome::Success, 10);
    run(&mut lab, fail(Class::Reset), 4);
    assert_eq!(lab.guards.breaker(), BreakerState::Closed, "4 of the last 10");
    run(&mut lab, fail(Class::Reset), 1);
    assert_eq!(lab.guards.breaker(), BreakerState::Open, "5 of the last 10");
}

#[test]
fn a_time_window_forgets_the_past() {
    let rule = BreakerRule::default().last_time(ms(10_000)).minimum_calls(4).failure_ratio(0.5);
    let mut lab = lab(rule);
    run(&mut lab, fail(Class::Reset), 3);
    lab.now += 12 * SECOND;
    run(&mut lab, fail(Class::Reset), 3);
    assert_eq!(lab.guards.breaker(), BreakerState::Closed);
    run(&mut lab, fail(Class::Reset), 1);
    assert_eq!(lab.guards.breaker(), BreakerState::Open);
}

#[test]
fn slow_calls_open_it_too() {
    let rule = BreakerRule::default().last_calls(10).minimum_calls(4);
    let mut lab = lab(rule.slow_calls(ms(200), 0.75));
    lab.attempt_takes = 300 * MS;
    run(&mut lab, Outcome::Success, 3);
    lab.attempt_takes = 100 * MS;
    assert_eq!(lab.guards.breaker(), BreakerState::Closed);
    run(&mut lab, Outcome::Success, 1);
    assert_eq!(lab.guards.breaker(), BreakerState::Open, "3 of 4 took longer than 200 ms");
}

fn opened(probes: u32) -> Lab {
    let rule = BreakerRule::default().last_calls(4).minimum_calls(4).probes(probes);
    let mut lab = lab(rule);
    run(&mut lab, fail(Class::Overloaded), 4);
    lab
}

#[test]
fn half_open_admits_a_fixed_number_and_closes_when_all_are_good() {
    let mut lab = opened(3);
    lab.now += 5 * SECOND - NS;
    assert_eq!(run(&mut lab, Outcome::Success, 1), 0);
    lab.now += NS;
    let mut calls: Vec<_> = (0..10).map(|_| lab.start()).collect();
    let permits: Vec<_> =
        calls.iter_mut().filter_map(|c| c.admit(&lab.cx(), lab.now).ok()).collect();
    assert_eq!(permits.len(), 3);
    assert_eq!(lab.guards.breaker(), BreakerState::HalfOpen);
    for (call, permit) in calls.iter_mut().zip(permits) {
        call.settle(&lab.cx(), permit, &Outcome::Success, lab.now, || 0);
    }
    assert_eq!(lab.guards.breaker(), BreakerState::Closed);
    run(&mut lab, fail(Class::Reset), 3);
    assert_eq!(lab.guards.breaker(), BreakerState::Closed, "earlier failures are forgotten");
    let moved = |event: &Event| match event {
        Event::BreakerMoved { to } => Some(*to),
        _ => None,
    };
    let moves: Vec<_> = lab.events.take().iter().filter_map(moved).collect();
    assert_eq!(moves, [BreakerState::Open, BreakerState::HalfOpen, BreakerState::Closed]);
}

#[test]
fn one_bad_probe_opens_it_again() {
    let mut lab = opened(2);
    lab.now += 5 * SECOND;
    let (mut first, mut second) = (lab.start(), lab.start());
    let good = first.admit(&lab.cx(), lab.now).unwrap();
    let bad = second.admit(&lab.cx(), lab.now).unwrap();
    second.settle(&lab.cx(), bad, &fail(Class::Timeout), lab.now, || 0);
    assert_eq!(lab.guards.breaker(), BreakerState::Open);
    lab.now += 5 * SECOND;
    let mut third = lab.start();
    let probe = third.admit(&lab.cx(), lab.now).unwrap();
    first.settle(&lab.cx(), good, &Outcome::Success, lab.now, || 0);
    assert_eq!(lab.guards.breaker(), BreakerState::HalfOpen, "a probe of the period before");
    third.settle(&lab.cx(), probe, &Outcome::Success, lab.now, || 0);
    assert_eq!(run(&mut lab, Outcome::Success, 1), 1);
    assert_eq!(lab.guards.breaker(), BreakerState::Closed);
}

#[test]
fn a_cancelled_probe_returns_its_place() {
    let mut lab = opened(1);
    lab.now += 5 * SECOND;
    for _ in 0..5 {
        let mut call = lab.start();
        let permit = call.admit(&lab.cx(), lab.now).unwrap();
        assert_eq!(lab.start().admit(&lab.cx(), lab.now).unwrap_err(), Stop::BreakerOpen);
        call.abandon(&lab.cx(), permit, lab.now);
        call.cancel(&lab.cx(), lab.now);
    }
    assert_eq!(run(&mut lab, Outcome::Success, 1), 1);
    assert_eq!(lab.guards.breaker(), BreakerState::Closed);
}

#[test]
fn a_probe_is_taken_only_when_every_other_guard_agrees() {
    let rule = BreakerRule::default().last_calls(4).minimum_calls(4).probes(2);
    let rule = rule.open_for(ms(5_000), 0.0);
    let mut lab = Lab::new(policy(|p| {
        p.attempts(1).budget(Budget::None).without_deadline().breaker(rule).concurrency(1)
    }));
    let mut early = lab.start();
    let held = early.admit(&lab.cx(), lab.now).unwrap();
    for _ in 0..4 {
        lab.failing(Class::Reset);
    }
    assert_eq!(lab.guards.breaker(), BreakerState::Closed, "the limit refused them all");
    early.settle(&lab.cx(), held, &fail(Class::Reset), lab.now, || 0);
    run(&mut lab, fail(Class::Reset), 3);
    lab.now += 5 * SECOND;
    let mut probe = lab.start();
    let held = probe.admit(&lab.cx(), lab.now).unwrap();
    assert_eq!(lab.start().admit(&lab.cx(), lab.now).unwrap_err(), Stop::Concurrency);
    probe.settle(&lab.cx(), held, &fail(Class::Throttled), lab.now, || 0);
    assert_eq!(lab.guards.breaker(), BreakerState::HalfOpen, "throttling says nothing");
    assert_eq!(run(&mut lab, Outcome::Success, 2), 2, "both places are still there");
    assert_eq!(lab.guards.breaker(), BreakerState::Closed);
}

#[test]
fn callers_without_a_probe_cost_the_other_guards_nothing() {
    let rule = BreakerRule::default().last_calls(1).probes(1).open_for(ms(5_000), 0.0);
    let rate = RateRule::new(Rate::new(3, ms(3_600_000)), 3);
    let draft = |p: redial_core::Draft| p.attempts(1).budget(Budget::None).without_deadline();
    let mut lab =
        Lab::new(policy(|p| draft(p).breaker(rule).rate(rate).throttle(ThrottleRule::default())));
    lab.failing(Class::Overloaded);
    lab.now += 5 * SECOND;
    let mut probe = lab.start();
    let permit = probe.admit(&lab.cx(), lab.now).unwrap();
    let before = lab.guards.refusal(lab.now);
    for _ in 0..50 {
        assert_eq!(lab.failing(Class::Reset).end, Err(Stop::BreakerOpen));
    }
    assert_eq!(lab.guards.refusal(lab.now), before);
    probe.settle(&lab.cx(), permit, &Outcome::Success, lab.now, || 0);
    assert_eq!(lab.call(&[Outcome::Success]).end, Ok(()), "the last of three is still there");
}

#[test]
fn the_default_minimum_fits_the_window() {
    let mut few = lab(BreakerRule::default().last_calls(3));
    run(&mut few, fail(Class::Reset), 3);
    assert_eq!(few.guards.breaker(), BreakerState::Open);
    let rule = BreakerRule::default().last_calls(3).minimum_calls(4);
    let error = redial_core::Policy::draft().breaker(rule).build().unwrap_err();
    assert_eq!(error.field(), "breaker.minimum_calls");
}

#[test]
fn what_counts_as_a_failure() {
    let opened_by = |class| {
        let mut lab = lab(BreakerRule::default().last_calls(4));
        run(&mut lab, fail(class), 8);
        lab.guards.breaker() == BreakerState::Open
    };
    for class in [Class::Connect, Class::Reset, Class::Timeout, Class::Overloaded] {
        assert!(opened_by(class), "{class:?}");
    }
    assert!(opened_by(Class::ServerError) && opened_by(Class::Transient));
    for class in [Class::Permanent, Class::Refused, Class::Throttled, Class::Cancelled] {
        assert!(!opened_by(class), "{class:?}");
    }
    let mut mixed = lab(BreakerRule::default().last_calls(4).failure_ratio(1.0));
    run(&mut mixed, fail(Class::Reset), 3);
    run(&mut mixed, fail(Class::Permanent), 1);
    assert_eq!(
        mixed.guards.breaker(),
        BreakerState::Closed,
        "a permanent failure is not a health failure"
    );
}

#[test]
fn the_throttle_of_the_book() {
    let mut lab = Lab::new(policy(|p| p.attempts(1).throttle(ThrottleRule::default())));
    for _ in 0..10 {
        lab.call(&[Outcome::Success]);
    }
    for _ in 0..10 {
        lab.failing(Class::Throttled);
    }
    assert_eq!(lab.guards.refusal(lab.now), 0.0, "20 requests for 10 accepted: K is 2");
    lab.failing(Class::Throttled);
    assert_eq!(lab.guards.refusal(lab.now), 1.0 / 22.0);
}

#[test]
fn the_open_time_is_jittered() {
    let spread: Vec<_> = (0..200)
        .map(|seed| {
            let rule = BreakerRule::default().last_calls(1).minimum_calls(1);
            let rule = rule.open_for(ms(1_000), 0.5);
            let mut lab = Lab::new(policy(|p| p.attempts(1).breaker(rule)));
            lab.guards = redial_core::admit::Guards::new(&lab.policy, 1, seed);
            run(&mut lab, fail(Class::Reset), 1);
            let opened = lab.now;
            while lab.start().admit(&lab.cx(), lab.now).is_err() {
                lab.now += MS;
            }
            (lab.now - opened) / MS
        })
        .collect();
    let (least, most) = (spread.iter().min().unwrap(), spread.iter().max().unwrap());
    assert!((1_000..1_050).contains(least) && (1_450..=1_500).contains(most), "{least} to {most}");
}

#[test]
fn a_retry_that_the_breaker_will_refuse_stops_at_once() {
    let rule = BreakerRule::default().last_calls(2).minimum_calls(2).open_for(ms(60_000), 0.0);
    let mut lab = Lab::new(policy(|p| p.breaker(rule)));
    let trace = lab.failing(Class::Reset);
    assert_eq!((trace.attempts, trace.end), (2, Err(Stop::BreakerOpen)));
    assert_eq!(trace.waits.len(), 1, "the second failure opened it, and the call did not wait");
}

#[test]
fn guards_are_checked_again_after_a_wait() {
    let rule = BreakerRule::default().last_calls(2).minimum_calls(2);
    let mut lab = Lab::new(policy(|p| p.breaker(rule)));
    let before = lab.balance();
    let mut call = lab.start();
    let permit = call.admit(&lab.cx(), lab.now).unwrap();
    let Verdict::Wait(until) = call.settle(&lab.cx(), permit, &fail(Class::Reset), lab.now, || 1)
    else {
        panic!("one failure of two does not open it");
    };
    let single = policy(|p| p.breaker(rule).attempts(1));
    let usual = std::mem::replace(&mut lab.policy, single);
    run(&mut lab, fail(Class::Reset), 1);
    lab.policy = usual;
    assert_eq!(call.admit(&lab.cx(), until).unwrap_err(), Stop::BreakerOpen);
    assert_eq!(lab.balance(), before, "the unsent retry was refunded");
}

#[test]
fn the_throttle_follows_the_formula() {
    let rule = ThrottleRule::k(2.0).window(ms(120_000));
    let mut lab = Lab::new(policy(|p| p.attempts(1).throttle(rule).budget(Budget::None)));
    for _ in 0..10 {
        lab.call(&[Outcome::Success]);
    }
    assert_eq!(lab.guards.refusal(lab.now), 0.0);
    let mut refused = 0;
    for _ in 0..90 {
        refused += u32::from(lab.failing(Class::Throttled).end == Err(Stop::Throttled));
    }
    let odds = lab.guards.refusal(lab.now);
    assert_eq!(odds, (100.0 - 2.0 * 10.0) / 101.0);
    assert!((30..70).contains(&refused), "{refused} of 90 were refused here");

    let sent = (0..10_000).filter(|_| lab.failing(Class::Throttled).end != Err(Stop::Throttled));
    assert!(sent.count() < 300, "the client probes less and less");
    lab.now += 130 * SECOND;
    assert_eq!(lab.guards.refusal(lab.now), 0.0, "and the window passes");
    for _ in 0..50 {
        let mut hung = lab.start();
        if let Ok(permit) = hung.admit(&lab.cx(), lab.now) {
            hung.abandon(&lab.cx(), permit, lab.now);
            hung.cancel(&lab.cx(), lab.now);
        }
    }
    assert_eq!(lab.guards.refusal(lab.now), 0.0, "cancelled requests do not count");
}
