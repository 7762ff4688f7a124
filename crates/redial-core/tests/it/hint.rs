//! What the server wants: hints, and the range of waits that follows from them.

use std::time::Duration;

use proptest::prelude::*;
use redial_core::decide::{Class, Failure, Outcome};
use redial_core::schedule::{Backoff, Hint, HintRule, Jitter, Range, TooLong};
use redial_core::{Event, Policy, Span, Stop, TimeLimit};

use crate::schedule::any_backoff;
use crate::support::{
    CHI_SQUARE_LIMIT, Lab, MS, NS, SECOND, chi_square, fail, mean, ms, policy, spans,
};

#[test]
fn a_hint_is_a_floor_spread_over_as_long_again() {
    let hinted =
        |seconds: u64| Failure::new(Class::Throttled).hint(Hint::AtLeast(ms(seconds * 1_000)));
    let mut lab = Lab::new(policy(|p| p.deadline(ms(120_000)).attempts(2)));
    let waits: Vec<_> = (0..2_000)
        .map(|_| lab.call(&[hinted(7).into(), Outcome::Success]).waits[0] - 7 * SECOND)
        .collect();
    assert!(waits.iter().all(|over| *over <= 7 * SECOND));
    assert!(chi_square(&waits, 7 * SECOND) < CHI_SQUARE_LIMIT);

    let longer = Backoff::exponential(ms(10_000), ms(10_000)).jitter(Jitter::None);
    let mut lab = Lab::new(policy(|p| p.deadline(ms(120_000)).backoff(longer)));
    let waits = lab.call(&[hinted(7).into(), Outcome::Success]).waits;
    assert_eq!(waits, [10 * SECOND], "a wait that is longer than the hint stays");
}

#[test]
fn a_hint_is_spread_only_as_far_as_the_deadline_leaves_time_for_the_attempt() {
    let outcome = Failure::new(Class::Throttled).hint(Hint::AtLeast(ms(7_000))).into();
    let spread_over = |policy: Policy| {
        let mut lab = Lab::new(policy);
        let waits: Vec<_> = (0..2_000)
            .map(|_| lab.call(&[outcome, Outcome::Success]).waits[0] - 7 * SECOND)
            .collect();
        let longest = *waits.iter().max().unwrap();
        assert!(chi_square(&waits, longest) < CHI_SQUARE_LIMIT);
        longest.round_up(10 * MS).as_millis()
    };
    assert_eq!(spread_over(policy(|p| p.deadline(ms(20_000)))), 7_000, "all of it");
    assert_eq!(spread_over(policy(|p| p.deadline(ms(11_000)))), 3_000, "three quarters of 4 s");
    let timed = policy(|p| p.deadline(ms(11_000)).attempt_timeout(ms(200)));
    assert_eq!(spread_over(timed), 3_800, "all but the timeout of the attempt");

    let mut lab = Lab::new(policy(|p| p.deadline(ms(7_000))));
    assert_eq!(lab.call(&[outcome]).end, Err(Stop::Deadline), "the hint itself does not fit");
}

#[test]
fn without_jitter_a_hint_is_not_spread_by_default() {
    let outcome = Failure::new(Class::Throttled).hint(Hint::AtLeast(ms(7_000))).into();
    let plain = Backoff::default().jitter(Jitter::None);
    let mut lab = Lab::new(policy(|p| p.deadline(ms(60_000)).backoff(plain)));
    assert_eq!(lab.call(&[outcome, Outcome::Success]).waits, [7 * SECOND]);

    let spread = HintRule::Honour { cap: 60 * SECOND, too_long: TooLong::Stop, spread: Some(0.5) };
    let mut lab = Lab::new(policy(|p| p.deadline(ms(60_000)).backoff(plain).hint(spread)));
    let wait = lab.call(&[outcome, Outcome::Success]).waits[0];
    assert!((7 * SECOND..=10_500 * MS).contains(&wait) && wait != 7 * SECOND, "{wait}");
}

#[test]
fn a_slot_is_exact_and_replaces_the_wait() {
    let backoff = Backoff::exponential(ms(5_000), ms(5_000)).jitter(Jitter::None);
    let slot = Failure::new(Class::Overloaded)
        .hint(Hint::Slot(Duration::from_nanos(1_234_567_891)))
        .into();
    let mut lab = Lab::new(policy(|p| p.backoff(backoff)));
    assert_eq!(lab.call(&[slot, Outcome::Success]).waits, [Span::from_nanos(1_234_567_891)]);
}

#[test]
fn a_pushback_is_exact_and_starts_the_backoff_over() {
    let pushed = Failure::new(Class::Overloaded).hint(Hint::Pushback(ms(300))).into();
    let plain = Backoff::default().jitter(Jitter::None);
    let mut lab = Lab::new(policy(|p| p.backoff(plain).attempts(5)));
    let waits = lab.call(&[fail(Class::Overloaded), pushed, fail(Class::Overloaded)]).waits;
    assert_eq!(waits, [100 * MS, 300 * MS, 100 * MS, 200 * MS]);

    let mut lab = Lab::new(policy(|p| p.attempts(5)));
    let waits = lab.call(&[fail(Class::Overloaded), pushed, fail(Class::Overloaded)]).waits;
    assert_ne!(waits[0], waits[2], "the same ceiling, another draw");
}

#[test]
fn an_ignored_pushback_does_not_start_the_backoff_over() {
    let pushed = Failure::new(Class::Overloaded).hint(Hint::Pushback(ms(300))).into();
    let plain = Backoff::default().jitter(Jitter::None);
    let mut lab = Lab::new(policy(|p| p.backoff(plain).hint(HintRule::Ignore)));
    assert_eq!(lab.call(&[pushed]).waits, [100 * MS, 200 * MS, 400 * MS]);
}

#[test]
fn a_hint_that_does_not_fit_is_not_honoured() {
    let hint = Hint::AtLeast(ms(11_000));
    let mut lab = Lab::new(redial_core::Policy::standard());
    let trace = lab.call(&[Failure::new(Class::Throttled).hint(hint).into()]);
    assert_eq!((trace.end, trace.elapsed), (Err(Stop::Deadline), Span::ZERO));
    let events = lab.events.take();
    assert!(events.contains(&Event::HintIgnored { hint }), "{events:?}");
}

#[test]
fn a_hint_above_its_cap_stops_and_clipping_is_opt_in() {
    let hint = Hint::AtLeast(ms(61_000));
    let outcome = Failure::new(Class::Throttled).hint(hint).into();
    let mut lab = Lab::new(policy(|p| p.without_deadline()));
    let trace = lab.call(&[outcome]);
    assert_eq!((trace.end, trace.elapsed), (Err(Stop::HintTooLong), Span::ZERO));
    assert!(lab.events.take().contains(&Event::HintIgnored { hint }));

    let clip = HintRule::Honour { cap: 60 * SECOND, too_long: TooLong::Clip, spread: Some(0.0) };
    let mut lab = Lab::new(policy(|p| p.without_deadline().hint(clip)));
    assert_eq!(lab.call(&[outcome, Outcome::Success]).waits, [60 * SECOND]);

    let mut lab = Lab::new(policy(|p| p.without_deadline().hint(HintRule::Ignore)));
    assert!(lab.call(&[outcome, Outcome::Success]).waits[0] <= 100 * MS);
    assert!(lab.events.take().contains(&Event::HintIgnored { hint }));
}

#[test]
fn waits_are_uniform_on_their_range() {
    let full = Backoff::exponential(ms(100), ms(2_000));
    let hint = |after| Some(Hint::AtLeast(ms(after)));
    let none = full.jitter(Jitter::None);
    for (backoff, hint, want) in [
        (full, None, Some((0, 200))),
        (full.jitter(Jitter::Equal), None, Some((100, 200))),
        (full, hint(1_000), Some((1_000, 2_000))),
        (full, hint(6_000), Some((6_000, 9_000))),
        (none, hint(1_000), Some((1_000, 1_000))),
        (full, hint(150), None),
        (none, hint(50), Some((200, 200))),
        (full, Some(Hint::Slot(ms(70))), Some((70, 70))),
        (full.jitter(Jitter::Decorrelated), None, None),
        (full.jitter(Jitter::Added(1_900 * MS)).clipped(), None, None),
    ] {
        let policy = policy(|p| p.backoff(backoff));
        let left = (10 * SECOND).into();
        let got = policy.schedule().range(2, hint, left).unwrap();
        assert_eq!(got.map(|it| (it.lo / MS, it.hi / MS)), want, "{backoff:?} {hint:?}");
        let Some(Range { lo, hi }) = got else { continue };
        let waits: Vec<_> = (0..1_000)
            .map(|seed| policy.schedule().wait(2, Span::ZERO, hint, left, seed).unwrap().delay)
            .collect();
        assert!(waits.iter().all(|wait| (lo..=hi).contains(wait)), "{backoff:?} {hint:?}");
        let middle = mean(&waits);
        let error = (hi - lo).as_nanos_f64() / 12_000_f64.sqrt();
        assert!(
            (middle - (lo + hi).as_nanos_f64() / 2.0).abs() <= 5.0 * error,
            "{backoff:?} {hint:?}"
        );
    }
    let short = HintRule::honour(ms(1_000), TooLong::Stop);
    let policy = policy(|p| p.hint(short));
    assert_eq!(policy.schedule().range(1, hint(1_001), TimeLimit::NONE), Err(Stop::HintTooLong));
}

proptest! {
    #[test]
    fn a_hinted_wait_is_in_the_bulk_range_and_ends_before_the_deadline(
        backoff in any_backoff(),
        k in 1..20_u32,
        (after, left) in (spans(NS..60 * SECOND), spans(NS..200 * SECOND)),
        (timeout, spread) in (1..20_000_u64, proptest::option::of(0.0..=1.0)),
        seed in any::<u64>(),
    ) {
        let rule = HintRule::Honour { cap: 60 * SECOND, too_long: TooLong::Stop, spread };
        let policy = policy(|p| {
            p.backoff(backoff).hint(rule).attempt_timeout(ms(timeout)).deadline(ms(200_000))
        });
        let hint = Some(Hint::AtLeast(after.into()));
        let wait = policy.schedule().wait(k, Span::ZERO, hint, left.into(), seed).unwrap();
        prop_assert!(wait.delay >= after);
        prop_assert!(wait.delay == wait.drawn || after >= left || wait.delay < left);
        if let Some(Range { lo, hi }) = policy.schedule().range(k, hint, left.into()).unwrap() {
            prop_assert!((lo..=hi).contains(&wait.delay), "{} to {}: {:?}", lo, hi, wait);
        }
    }
}
