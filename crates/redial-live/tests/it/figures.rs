//! A measured run has figures by the same rules as simulated ones.

use redial_live::{Inconclusive, LiveRun, Once, run};

use crate::setting;

fn down_for_a_third() -> LiveRun {
    run(setting(&["window=100ms", "outage.start=100ms", "outage.duration=100ms"]), |_| Once)
        .unwrap()
}

#[test]
fn figures_are_those_of_what_was_recorded() {
    let live = down_for_a_third();
    let log = live.log();
    let figures = match live.figures() {
        Ok(figures) => figures,
        // A slow machine does not invalidate the rules.
        Err(Inconclusive::Late(late)) => return assert!(live.lag().judge() == Err(late)),
        Err(refusal) => panic!("{refusal}"),
    };
    let succeeded = log.ended.iter().filter(|ended| ended.succeeded).count();
    assert_eq!((figures.calls, figures.attempts), (log.begun.len() as u64, figures.calls));
    assert_eq!(figures.amplification, 1.0);
    assert_eq!(figures.success, succeeded as f64 / log.begun.len() as f64);
    assert!(figures.success < 1.0 && figures.p50_ms >= 8.0, "{figures:?}");
    let served: f64 = figures.series.served.iter().sum();
    assert_eq!(served as usize, log.served.len());
    assert_eq!(live.unfinished(), 0);
}
