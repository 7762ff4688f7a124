//! Defects of other retry libraries, each as a test that passes here. The numbers are those of the project's list of
//! defects.

use redial_core::admit::BreakerRule;
use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::schedule::{Backoff, Hint, Jitter};
use redial_core::{Policy, Rate, Span, Stop, draw};

use crate::support::{Lab, MS, SECOND, ms, policy};

#[test]
fn defect_1_every_call_draws_the_same_jitter() {
    let mut lab = Lab::new(policy(|p| p.budget(Budget::None)));
    let mut all: Vec<_> = (0..1_000)
        .map(|call| {
            lab.seed = draw(3, call);
            lab.failing(Class::Reset).waits
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 1_000);
}

#[test]
fn defect_2_a_ratio_is_rounded_to_another_one() {
    for (tenths, want) in [(4, 4_000), (6, 6_000), (7, 7_000), (9, 9_000)] {
        let budget = WindowBudget::ratio(f64::from(tenths) / 10.0).floor(Rate::ZERO);
        let mut lab = Lab::new(policy(|p| p.attempts(2).budget(Budget::Window(budget))));
        let now = lab.now;
        let retried = (0..10_000).filter(|_| {
            lab.now = now;
            lab.failing(Class::Reset).attempts == 2
        });
        assert_eq!(retried.count(), want);
    }
}

#[test]
fn defect_3_jitter_pushes_the_wait_above_the_cap() {
    for jitter in [Jitter::Full, Jitter::Around(1.0), Jitter::Added(10 * SECOND)] {
        let backoff = Backoff::exponential(ms(10_000), ms(10_000)).jitter(jitter);
        assert!(
            (0..5_000).all(|seed| backoff.delay(3, Span::ZERO, seed) <= 10 * SECOND),
            "{jitter:?}"
        );
    }
}

#[test]
fn defect_3_a_base_above_the_cap_is_accepted() {
    let backwards = Backoff::exponential(ms(10_000), ms(1_000));
    assert_eq!(Policy::draft().backoff(backwards).build().unwrap_err().field(), "backoff.base");
}

#[test]
fn defect_3_time_spent_in_the_call_is_not_counted() {
    let mut lab = Lab::new(policy(|p| p.attempts(100).budget(Budget::None)));
    lab.attempt_takes = 3 * SECOND;
    let trace = lab.failing(Class::Timeout);
    assert!(trace.elapsed <= 10 * SECOND, "{} s", trace.elapsed / SECOND);
    assert!(trace.attempts <= 4);
}

#[test]
fn defects_3_and_4_a_hint_bypasses_attempts_or_deadline() {
    let hinted = Failure::new(Class::Throttled).hint(Hint::AtLeast(ms(1_000))).into();
    let mut lab = Lab::new(policy(|p| p.attempts(3).without_deadline()));
    assert_eq!(lab.call(&[hinted]).attempts, 3);
    let mut lab = Lab::new(policy(|p| p.attempts(1_000).deadline(ms(5_500))));
    let trace = lab.call(&[hinted]);
    assert_eq!(trace.end, Err(Stop::Deadline));
    assert!(trace.elapsed < 5_500 * MS);
}

#[test]
fn defect_4_a_hint_of_seven_seconds_slept_a_tenth_of_one() {
    let hinted = Failure::new(Class::Throttled).hint(Hint::AtLeast(ms(7_000))).into();
    let mut lab = Lab::new(Policy::standard());
    assert!(lab.call(&[hinted, Outcome::Success]).waits[0] >= 7 * SECOND);
}

#[test]
fn defect_5_half_open_admits_everyone() {
    let rule = BreakerRule::default().last_calls(1).minimum_calls(1).probes(2);
    let mut lab = Lab::new(policy(|p| p.attempts(1).breaker(rule)));
    lab.failing(Class::Reset);
    lab.now += 60 * SECOND;
    let admitted = (0..1_000).filter(|_| lab.start().admit(&lab.cx(), lab.now).is_ok());
    assert_eq!(admitted.count(), 2);
}

#[test]
fn defect_8_half_of_the_first_waits_are_exactly_the_minimum() {
    for jitter in [Jitter::Full, Jitter::Equal, Jitter::Decorrelated, Jitter::Around(0.3)] {
        let backoff = Backoff::exponential(ms(100), ms(10_000)).jitter(jitter);
        let mut first: Vec<_> = (0..1_000).map(|seed| backoff.delay(1, Span::ZERO, seed)).collect();
        first.sort_unstable();
        first.dedup();
        assert!(first.len() > 990, "{jitter:?}: {} different waits", first.len());
    }
}

#[test]
fn defect_8_half_a_second_becomes_four_minutes() {
    let backoff = Backoff::exponential(ms(500), ms(60_000)).jitter(Jitter::None);
    let waits: Vec<_> = (1..=3).map(|k| backoff.delay(k, Span::ZERO, 9) / MS).collect();
    assert_eq!(waits, [500, 1_000, 2_000]);
}

#[test]
fn defect_9_sleeps_past_its_own_deadline() {
    let backoff = Backoff::exponential(ms(1_000), ms(60_000));
    for seed in 0..1_000 {
        let mut lab = Lab::new(policy(|p| p.attempts(50).backoff(backoff).deadline(ms(4_000))));
        lab.seed = draw(seed, 0);
        assert!(lab.failing(Class::Reset).elapsed < 4 * SECOND);
    }
}

#[test]
fn defect_10_a_payout_is_sent_twice() {
    let mut lab = Lab::new(Policy::standard());
    lab.request.safety = Safety::Unsafe;
    for class in [Class::Overloaded, Class::ServerError, Class::Timeout, Class::Reset] {
        let trace = lab.call(&[Failure::new(class).into(), Outcome::Success]);
        assert_eq!((trace.attempts, trace.end), (1, Err(Stop::Unsafe)), "{class:?}");
    }
}
