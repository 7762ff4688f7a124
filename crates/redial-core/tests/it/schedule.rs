use proptest::prelude::*;
use redial_core::admit::Guards;
use redial_core::decide::Class;
use redial_core::schedule::{Backoff, HedgeRule, Jitter, Latency, Range};
use redial_core::{Deadline, Span, Stop, Time, draw};

use crate::support::{
    CHI_SQUARE_LIMIT, Lab, MS, NS, SECOND, at, chi_square, mean, ms, policy, spans,
};

fn ceilings(backoff: Backoff, want: &[u64]) {
    let got: Vec<_> = (1..=want.len() as u32).map(|k| backoff.ceiling(k) / MS).collect();
    assert_eq!(got, want, "{backoff:?}");
}

#[test]
fn ceilings_grow_as_configured_and_stop_at_the_cap() {
    ceilings(Backoff::exponential(ms(100), ms(2_000)), &[100, 200, 400, 800, 1600, 2000, 2000]);
    ceilings(Backoff::exponential(ms(500), ms(60_000)).factor(1.5), &[500, 750, 1125, 1687, 2531]);
    ceilings(Backoff::exponential(ms(10), ms(9_000)).factor(10.0), &[10, 100, 1000, 9000, 9000]);
    ceilings(Backoff::linear(ms(100), ms(350)), &[100, 200, 300, 350, 350]);
    ceilings(Backoff::constant(ms(70)), &[70, 70, 70]);
    ceilings(Backoff::exponential(ms(70), ms(700)).factor(1.0), &[70, 70, 70]);
}

#[test]
fn fractional_factors_are_exact_to_the_nanosecond() {
    let backoff = Backoff::exponential(ms(500), ms(60_000)).factor(1.5);
    assert_eq!(backoff.ceiling(4), Span::from_micros(1_687_500));
    assert_eq!(Backoff::exponential(ms(100), ms(60_000)).factor(1.6).ceiling(3), 256 * MS);
}

#[test]
fn no_attempt_number_overflows() {
    let day = ms(24 * 3600 * 1000);
    for backoff in [
        Backoff::exponential(ms(1), day),
        Backoff::exponential(ms(1), day).factor(1.0001),
        Backoff::exponential(ms(1), day).factor(1000.0),
        Backoff::linear(ms(1), day),
    ] {
        for k in [0, 1, 2, 62, 63, 64, 65, 1_000, u32::MAX - 1, u32::MAX] {
            for jitter in
                [Jitter::Full, Jitter::Decorrelated, Jitter::Around(1.0), Jitter::Normal(1.0)]
            {
                let delay = backoff.jitter(jitter).delay(k, Span::MAX, 3);
                assert!(delay <= backoff.ceiling(u32::MAX), "{backoff:?} {k}");
            }
        }
        assert_eq!(backoff.ceiling(u32::MAX), 24 * 3600 * SECOND);
    }
}

#[test]
fn ranges_of_every_jitter() {
    let backoff = Backoff::exponential(ms(100), ms(1_000));
    let check = |jitter, k, previous: u64, lo: u64, hi: u64| {
        let range = backoff.jitter(jitter).range(k, previous * MS);
        assert_eq!(range, Range { lo: lo * MS, hi: hi * MS }, "{jitter:?} k={k}");
    };
    check(Jitter::None, 3, 0, 400, 400);
    check(Jitter::Full, 3, 0, 0, 400);
    check(Jitter::Full, 9, 0, 0, 1000);
    check(Jitter::Equal, 3, 0, 200, 400);
    check(Jitter::Decorrelated, 1, 0, 100, 300);
    check(Jitter::Decorrelated, 2, 250, 100, 750);
    check(Jitter::Decorrelated, 2, 900, 100, 1000);
    check(Jitter::Around(0.2), 2, 0, 160, 240);
    check(Jitter::Around(0.2), 5, 0, 800, 1000);
    check(Jitter::Added(50 * MS), 2, 0, 200, 250);
    check(Jitter::Added(300 * MS), 9, 0, 700, 1000);
    check(Jitter::Normal(0.1), 2, 0, 80, 320);
    check(Jitter::Normal(0.2), 3, 0, 0, 880);
}

#[test]
fn normal_jitter_has_the_shares_of_a_normal_distribution() {
    let backoff = Backoff::exponential(ms(100), ms(1_000)).jitter(Jitter::Normal(0.2));
    let waits: Vec<_> =
        (0..20_000).map(|seed| backoff.delay(1, Span::ZERO, draw(seed, 0))).collect();
    let share = |from: u64, to: u64| {
        let inside = waits.iter().filter(|wait| (from * MS..to * MS).contains(*wait));
        inside.count() as f64 / waits.len() as f64
    };
    for (from, to, expected) in
        [(80, 120, 0.683), (60, 140, 0.954), (0, 100, 0.5), (100, 113, 0.242)]
    {
        let found = share(from, to);
        assert!((found - expected).abs() < 0.012, "{from} to {to} ms: {found}");
    }
    // Draws above the cap wait for exactly the cap.
    let at_cap =
        (0..1_000).filter(|seed| backoff.delay(9, Span::ZERO, draw(*seed, 0)) == 1_000 * MS);
    assert!((450..550).contains(&at_cap.count()));
}

#[test]
fn a_key_rests_for_half_of_the_cap_or_up_to_all_of_it() {
    let backoff = Backoff::exponential(ms(1), ms(1_000)).jitter(Jitter::None);
    let rests: Vec<_> = (0..1_000).map(|seed| backoff.rest(draw(seed, 0))).collect();
    assert!(rests.iter().all(|rest| (500 * MS..=1_000 * MS).contains(rest)));
    let early = rests.iter().filter(|rest| **rest < 750 * MS).count();
    assert!((440..560).contains(&early), "{early} of 1000 in the first half");
}

#[test]
fn clipping_after_the_draw_is_for_imported_configs() {
    let aws = Backoff::exponential(ms(5), ms(2_000)).jitter(Jitter::Decorrelated).clipped();
    assert_eq!(aws.range(2, 1_500 * MS).hi, 4_500 * MS);
    let on_cap = (0..10_000).filter(|seed| aws.delay(2, 1_500 * MS, *seed) == 2_000 * MS).count();
    let expected = 10_000.0 * (4_500.0 - 2_000.0) / (4_500.0 - 5.0);
    assert!((on_cap as f64 - expected).abs() < 200.0, "{on_cap} on the cap, expected {expected}");

    let ours = Backoff::exponential(ms(5), ms(2_000)).jitter(Jitter::Decorrelated);
    let on_cap = (0..10_000).filter(|seed| ours.delay(2, 1_500 * MS, *seed) == 2_000 * MS).count();
    assert_eq!(on_cap, 0);
}

#[test]
fn full_jitter_is_uniform_with_half_the_ceiling_as_its_mean() {
    let backoff = Backoff::exponential(ms(100), ms(2_000));
    for k in 1..=6 {
        let (top, n) = (backoff.ceiling(k), 20_000);
        let draws: Vec<_> = (0..n).map(|seed| backoff.delay(k, Span::ZERO, seed)).collect();
        let error = top.as_nanos_f64() / (12.0 * n as f64).sqrt();
        assert!((mean(&draws) - top.as_nanos_f64() / 2.0).abs() < 4.0 * error, "mean of retry {k}");
        let statistic = chi_square(&draws, top);
        assert!(statistic < CHI_SQUARE_LIMIT, "retry {k}: chi-square {statistic}");
    }
}

#[test]
fn an_invalid_backoff_does_not_panic() {
    let long = std::time::Duration::MAX;
    for backoff in [
        Backoff::exponential(ms(10), ms(20)).jitter(Jitter::Added(SECOND)),
        Backoff::exponential(ms(10), ms(20)).jitter(Jitter::Around(9.0)),
        Backoff::exponential(ms(20), ms(10)).jitter(Jitter::Decorrelated),
        Backoff::exponential(long, long),
        Backoff::exponential(ms(10), long).factor(f64::NAN),
        Backoff::linear(long, ms(1)).jitter(Jitter::Added(Span::MAX)).clipped(),
    ] {
        for k in [0, 1, 7, u32::MAX] {
            let Range { lo, hi } = backoff.range(k, Span::MAX);
            assert!(lo <= hi);
            backoff.delay(k, Span::MAX, u64::MAX);
        }
    }
}

#[test]
fn a_wait_that_does_not_fit_before_the_deadline_stops_now() {
    let plain = Backoff::exponential(ms(100), ms(10_000)).jitter(Jitter::None);
    let mut lab = Lab::new(policy(|p| p.backoff(plain).attempts(100).deadline(ms(1_000))));
    let trace = lab.failing(Class::Timeout);
    assert_eq!(trace.waits, [100 * MS, 200 * MS, 400 * MS]);
    assert_eq!((trace.end, trace.elapsed), (Err(Stop::Deadline), 700 * MS));

    let mut lab = Lab::new(policy(|p| p.backoff(plain).attempts(2).deadline(ms(100))));
    let trace = lab.failing(Class::Timeout);
    assert_eq!(trace.end, Err(Stop::Deadline), "a wait that ends on the deadline leaves no time");
}

#[test]
fn an_attempt_ends_at_its_timeout_or_at_the_deadline() {
    let plain = Backoff::constant(ms(100)).jitter(Jitter::None);
    let timed = |p: redial_core::Draft| p.attempt_timeout(ms(400)).deadline(ms(1_000));
    let mut lab = Lab::new(policy(|p| timed(p).backoff(plain)));
    lab.attempt_takes = Span::MAX / 2;
    let trace = lab.failing(Class::Timeout);
    assert_eq!((trace.attempts, trace.elapsed), (2, 900 * MS));
    assert_eq!(trace.end, Err(Stop::Deadline));

    let lab = Lab::new(policy(timed));
    let (mut call, late) = (lab.start(), lab.now + 700 * MS);
    assert_eq!(call.admit(&lab.cx(), late).unwrap().expires, (lab.now + 1_000 * MS).into());
}

#[test]
fn a_latency_quantile_is_close_from_above_and_decays_slowly() {
    let latency = Latency::new(0.5);
    assert_eq!(latency.quantile(), None, "too early to say");
    let take = |n: u32, ms: u64| {
        (0..n).for_each(|_| latency.record(ms * MS));
        latency.quantile().unwrap() / MS
    };
    assert!((100..=113).contains(&take(4_000, 100)));
    assert!(take(400, 1) >= 100, "a few quick ones do not outvote the past");
    assert!(take(20_000, 1) <= 2, "many do");
}

#[test]
fn a_hedge_is_due_after_a_multiple_of_a_fixed_or_of_the_usual_time() {
    let guards = |rule: HedgeRule| Guards::new(&policy(|p| p.hedge(rule)), 1, 0);
    assert_eq!(Guards::new(&policy(|p| p), 1, 0).hedge_at(at(SECOND), Deadline::NONE), None);
    assert_eq!(
        guards(HedgeRule::after(ms(200)).multiple(1.5)).hedge_at(at(SECOND), Deadline::NONE),
        Some(at(SECOND + 300 * MS))
    );
    let learnt = guards(HedgeRule::quantile(0.95).multiple(2.0));
    let usual = Latency::new(0.95);
    for taken in 1..=31 {
        learnt.record_latency(taken * MS);
        usual.record(taken * MS);
    }
    assert_eq!(learnt.hedge_at(at(SECOND), Deadline::NONE), None, "31 latencies are too few");
    learnt.record_latency(32 * MS);
    usual.record(32 * MS);
    assert_eq!(
        learnt.hedge_at(at(SECOND), Deadline::NONE),
        Some(at(SECOND + usual.quantile().unwrap() * 2))
    );
    assert!(
        (60 * MS..=72 * MS)
            .contains(&(learnt.hedge_at(Time::ZERO, Deadline::NONE).unwrap() - Time::ZERO))
    );
}

pub(crate) fn any_backoff() -> impl Strategy<Value = Backoff> {
    let jitter = prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        Just(Jitter::Decorrelated),
        (0.0..=1.0).prop_map(Jitter::Around),
        (0.0..=1.0).prop_map(Jitter::Normal),
        spans(NS..1_001 * MS).prop_map(Jitter::Added),
    ];
    let growth = prop_oneof![Just(None), Just(Some(2.0)), (1.0..=20.0).prop_map(Some)];
    (1..1_000_u64, 1_000..100_000_u64, growth, jitter, any::<bool>()).prop_map(
        |(base, cap, factor, jitter, clip)| {
            let backoff = match factor {
                None => Backoff::linear(ms(base), ms(cap)),
                Some(factor) => Backoff::exponential(ms(base), ms(cap)).factor(factor),
            };
            let backoff = backoff.jitter(jitter);
            if clip { backoff.clipped() } else { backoff }
        },
    )
}

proptest! {
    #[test]
    fn no_wait_is_above_the_cap_or_past_the_deadline(
        backoff in any_backoff(),
        seed in any::<u64>(),
        attempts in 1..40_u32,
        deadline in 1..200_000_u64,
        took in spans(Span::ZERO..3_000 * MS),
    ) {
        let mut lab = Lab::new(policy(|p| p.backoff(backoff).attempts(attempts).deadline(ms(deadline))));
        (lab.seed, lab.attempt_takes) = (seed % u64::MAX, took);
        let cap = backoff.ceiling(u32::MAX).max(backoff.range(u32::MAX, Span::ZERO).hi.min(100_000 * MS));
        let trace = lab.failing(Class::Timeout);
        prop_assert!(trace.waits.iter().all(|wait| *wait <= cap));
        prop_assert!(trace.elapsed <= deadline * MS);
        prop_assert!(trace.attempts <= attempts);
    }

    #[test]
    fn a_draw_lies_in_its_range_and_depends_on_nothing_else(
        backoff in any_backoff(), k in 1..100_u32, previous in spans(Span::ZERO..1_000 * SECOND), seed in any::<u64>(),
    ) {
        let Range { lo, hi } = backoff.range(k, previous);
        let delay = backoff.delay(k, previous, seed);
        prop_assert!(lo <= hi);
        prop_assert!(delay >= lo.min(backoff.ceiling(u32::MAX)) && delay <= hi);
        prop_assert_eq!(delay, backoff.delay(k, previous, seed));
    }
}
