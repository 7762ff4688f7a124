use redial_live::{Lag, Late};

use crate::{MS, at};

/// 99 wake-ups on time in each of ten seconds, and some that are `late_ms` late in the fifth.
fn judged(late: u32, late_ms: u64) -> Result<(), Late> {
    let lag = Lag::default();
    for second in 0..10 {
        for n in 0..99 {
            let wanted = at(second * 1_000 + n);
            lag.woke(wanted, wanted + MS);
        }
    }
    for _ in 0..late {
        lag.woke(at(4_500), at(4_500 + 1 + late_ms));
    }
    lag.judge()
}

#[test]
fn a_run_on_time_is_accepted() {
    assert_eq!(judged(0, 0), Ok(()));
    assert_eq!(Lag::default().judge(), Ok(()), "without wake-ups");
}

#[test]
fn one_second_that_lags_is_enough() {
    assert_eq!(judged(1, 500), Ok(()), "one of a hundred may");
    assert_eq!(judged(2, 500), Err(Late { second: 4, p99: 500 * MS }));
    assert_eq!(judged(2, 20), Ok(()), "at the bound");
    assert_eq!(judged(2, 21), Err(Late { second: 4, p99: 21 * MS }));
    let text = judged(2, 21).unwrap_err().to_string();
    assert!(text.contains("second 5") && text.contains("21 ms late (the limit is 20 ms"), "{text}");
}

#[test]
fn a_standstill_of_many_seconds_is_counted() {
    let lag = Lag::default();
    lag.woke(at(0), at(3_600_000));
    assert!(lag.judge().is_err());
}
