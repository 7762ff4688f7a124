//! The worked tables of the texts in docs/literature.md, with their errors corrected.

use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::decide::{Class, Failure, Outcome};
use redial_core::schedule::{Backoff, Hint, Jitter};
use redial_core::{Policy, Preset, Rate, Stop};

use crate::support::{Lab, MS, SECOND, fail, mean, ms, policy};

fn ceilings(backoff: &Backoff, n: u32) -> Vec<u64> {
    (1..=n).map(|k| backoff.ceiling(k) / MS).collect()
}

#[test]
fn the_ceilings_of_a_web_client() {
    let web = Policy::from(Preset::Web);
    let want = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
    assert_eq!(ceilings(web.backoff(), 8), want);
}

#[test]
fn mean_total_waits() {
    // The table starts at 200 ms, the code at 100 ms: the mean total is 700 ms or 350 ms.
    for (base, want) in [(200, 700.0), (100, 350.0)] {
        let backoff = Backoff::exponential(ms(base), ms(2_000));
        let mut lab = Lab::new(policy(|p| p.backoff(backoff).budget(Budget::None)));
        let totals: Vec<_> = (0..20_000).map(|_| lab.failing(Class::Overloaded).elapsed).collect();
        let got = mean(&totals) / MS.as_nanos_f64();
        assert!((got - want).abs() < want * 0.02, "{got} ms, not {want} ms");
        let plain = backoff.jitter(Jitter::None);
        let mut lab = Lab::new(policy(|p| p.backoff(plain).budget(Budget::None)));
        assert_eq!(lab.failing(Class::Overloaded).elapsed, 2 * want as u64 * MS);
    }
    let capped = Backoff::exponential(ms(200), ms(2_000));
    assert_eq!(ceilings(&capped, 6), [200, 400, 800, 1_600, 2_000, 2_000], "capped from the fifth");
}

#[test]
fn amplification_with_and_without_a_budget() {
    for (retries, multiplier) in [(1, 2), (3, 4), (9, 10)] {
        let mut lab =
            Lab::new(policy(|p| p.attempts(retries + 1).budget(Budget::None).without_deadline()));
        let attempts: u32 = (0..500).map(|_| lab.failing(Class::Overloaded).attempts).sum();
        assert_eq!(attempts, 500 * multiplier);
    }
    let budget = Budget::Window(WindowBudget::ratio(0.1).floor(Rate::ZERO));
    let mut lab = Lab::new(policy(|p| p.budget(budget)));
    let start = lab.now;
    let attempts: u32 = (0..5_000_u64)
        .map(|call| {
            lab.now = start + call * SECOND / 500;
            lab.failing(Class::Overloaded).attempts
        })
        .sum();
    assert!((5_499..=5_500).contains(&attempts), "1.1 times the load of a 10 s outage: {attempts}");
}

#[test]
fn not_found_is_final_and_retry_after_is_a_floor() {
    let mut lab = Lab::new(Policy::from(Preset::Web));
    let not_found = Failure::new(Class::Permanent).code(404).into();
    assert_eq!(lab.call(&[not_found]).attempts, 1);
    let wait = Failure::new(Class::Throttled).code(429).hint(Hint::AtLeast(ms(45_000))).into();
    assert!(
        lab.call(&[wait, Outcome::Success]).waits[0] >= 45 * SECOND,
        "a floor, not a suggestion"
    );
}

#[test]
fn worst_case_is_not_six_seconds() {
    let policy = Policy::from(Preset::FraudScore).edit().without_deadline().build().unwrap();
    assert_eq!(policy.worst_case().elapsed, Some(ms(1_300)));
}

#[test]
fn a_control_plane_with_a_budget() {
    // 4 attempts, 200 ms to 10 s, a deposit per operation, a withdrawal per retry.
    let budget = Budget::Window(WindowBudget::ratio(0.1).floor(Rate::per_second(10)));
    let mut lab =
        Lab::new(Policy::from(Preset::ControlPlane).edit().budget(budget).build().unwrap());
    assert_eq!(ceilings(lab.policy.backoff(), 7), [200, 400, 800, 1_600, 3_200, 6_400, 10_000]);
    let start = lab.now;
    let retries: u32 = (0..1_000)
        .map(|_| {
            lab.now = start;
            lab.failing(Class::Overloaded).attempts - 1
        })
        .sum();
    assert_eq!(retries, 100 + 100, "a tenth of the calls, and the floor of ten seconds");
}

#[test]
fn polling_waits_until_a_condition_is_met() {
    let backoff = Backoff::exponential(ms(1_000), ms(60_000));
    let mut lab = Lab::new(policy(|p| p.attempts(100).deadline(ms(600_000)).backoff(backoff)));
    let mut polls = vec![Outcome::NotYet(None); 7];
    polls.push(Outcome::Success);
    let trace = lab.call(&polls);
    assert_eq!(trace.end, Ok(()));
    let within = trace.waits.iter().enumerate().all(|(n, wait)| *wait <= (1 << n) * SECOND);
    assert!(within, "U(0,1), U(0,2), U(0,4) …: {:?}", trace.waits);
}

#[test]
fn full_and_decorrelated_jitter_and_a_bootstrap_allowance() {
    // Full: U(0, min(cap, base·2^i)). Decorrelated: U(base, min(cap, 3·prev)), the code's form.
    let full = Backoff::exponential(ms(100), ms(10_000));
    assert_eq!(ceilings(&full, 8), [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000]);
    let decorrelated = full.jitter(Jitter::Decorrelated);
    let mut lab = Lab::new(policy(|p| p.attempts(30).without_deadline().backoff(decorrelated)));
    let waits = lab.failing(Class::Reset).waits;
    let mut previous = 100 * MS;
    for wait in waits {
        assert!((100 * MS..=(3 * previous).min(10 * SECOND)).contains(&wait));
        previous = wait;
    }

    // A bootstrap phase lets a new process retry before it has a history.
    let budget = WindowBudget::ratio(0.1).floor(Rate::ZERO).bootstrap(100);
    let mut lab = Lab::new(policy(|p| p.budget(Budget::Window(budget))));
    let start = lab.now;
    let mut call = |n: u32| -> u32 {
        (0..n)
            .map(|_| {
                lab.now = start;
                lab.failing(Class::Reset).attempts - 1
            })
            .sum()
    };
    assert_eq!(call(30), 90, "every retry of the first calls");
    assert_eq!(call(970), 100 + 100 - 90, "then a tenth of the calls");
}

#[test]
fn two_layers_multiply() {
    // Three attempts in each of two layers are nine calls below.
    let mut outer = Lab::new(policy(|p| p.attempts(3).budget(Budget::None)));
    let mut inner = Lab::new(policy(|p| p.attempts(3).budget(Budget::None)));
    let mut below = 0;
    let (mut call, cx_now) = (outer.start(), outer.now);
    let mut now = cx_now;
    while let Ok(permit) = call.admit(&outer.cx(), now) {
        below += inner.call(&[fail(Class::Overloaded)]).attempts;
        match call.settle(&outer.cx(), permit, &fail(Class::Overloaded), now, || 1) {
            redial_core::Verdict::Wait(until) => now = until,
            _ => break,
        }
    }
    assert_eq!(below, 9);

    // A stop signal from the inner layer makes it three.
    outer.seed += 1;
    let told = Failure::new(Class::Overloaded).told_to_stop().into();
    let trace = outer.call(&[told]);
    assert_eq!((trace.attempts * 3, trace.end), (3, Err(Stop::ToldToStop)));
}

#[test]
fn full_jitter_gives_up_sooner() {
    // A one second outage, six attempts from 100 ms: the cost of retrying sooner.
    let survive = |jitter| {
        let backoff = Backoff::exponential(ms(100), ms(60_000)).jitter(jitter);
        let patient =
            policy(|p| p.attempts(6).backoff(backoff).without_deadline().budget(Budget::None));
        let mut lab = Lab::new(patient);
        let survivors = (0..20_000).filter(|_| lab.failing(Class::Overloaded).elapsed >= SECOND);
        survivors.count() as f64 / 20_000.0
    };
    assert_eq!(survive(Jitter::None), 1.0);
    let full = survive(Jitter::Full);
    assert!((full - 0.83).abs() < 0.01, "{full}");
}
