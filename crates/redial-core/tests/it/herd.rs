//! Ten thousand calls that fail at the same instant.

use redial_core::decide::Class;
use redial_core::draw;

use crate::support::{CHI_SQUARE_LIMIT, Lab, MS, chi_square, policy};
use redial_core::admit::budget::Budget;

#[test]
fn calls_that_fail_together_wake_uniformly_over_the_envelope() {
    let mut lab = Lab::new(policy(|p| p.budget(Budget::None)));
    let start = lab.now;
    let mut waits = [Vec::new(), Vec::new(), Vec::new()];
    for caller in 0..10_000 {
        (lab.now, lab.seed) = (start, draw(99, caller));
        let trace = lab.failing(Class::Overloaded);
        waits.iter_mut().zip(trace.waits).for_each(|(all, wait)| all.push(wait));
    }
    for (waits, ceiling) in waits.iter_mut().zip([100, 200, 400]) {
        assert_eq!(waits.len(), 10_000);
        let statistic = chi_square(waits, ceiling * MS);
        assert!(statistic < CHI_SQUARE_LIMIT, "{ceiling} ms: chi-square {statistic}");
        waits.sort_unstable();
        let together = waits.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(together < 10, "{together} of 10,000 pairs wake in the same nanosecond");
    }
}

#[test]
fn the_waits_of_one_call_do_not_depend_on_each_other() {
    let mut lab = Lab::new(policy(|p| p.budget(Budget::None)));
    let n = 10_000;
    let mut products = 0.0;
    for caller in 0..n {
        lab.seed = draw(5, caller);
        let waits = lab.failing(Class::Overloaded).waits;
        let centred = |k: usize, c: f64| waits[k].as_millis_f64() / c - 0.5;
        products += centred(0, 100.0) * centred(1, 200.0);
    }
    let correlation = products / n as f64 * 12.0;
    assert!(correlation.abs() < 4.0 / (n as f64).sqrt(), "correlation {correlation}");
}
