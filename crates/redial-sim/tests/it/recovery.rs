//! When is a storm over?

use redial_sim::Scenario;
use redial_sim::measure::{Recorder, Run};

const MS: u64 = 1_000_000;
const TEXT: &str = r#"
title = "A call every millisecond, and a second of outage"
duration = "10s"
policies = ["no-retry"]
clients = { arrivals = { constant = { rate = 1000 } } }
backend = { service = "1ms" }
outage = { start = "2s", duration = "1s" }
"#;

/// Calls fail if they begin within these milliseconds.
fn failing(bad: std::ops::Range<u64>) -> Run {
    let scenario = Scenario::read(TEXT, &[]).unwrap();
    let mut recorder = Recorder::new(&scenario);
    for ms in 0..10_000 {
        recorder.calls(ms * MS, 1);
        recorder.ended(ms * MS, (ms + 1) * MS, !bad.contains(&ms), 1);
    }
    recorder.finish(None, 0)
}

#[test]
fn a_run_recovers_when_calls_succeed_again() {
    let run = failing(2_000..4_500);
    assert_eq!((run.recover_ms, run.collapsed), (Some(1_500.0), false));
    let run = failing(2_000..3_000);
    assert_eq!((run.recover_ms, run.collapsed), (Some(0.0), false));
}

#[test]
fn a_run_does_not_recover_because_calls_end() {
    let run = failing(2_000..9_700);
    assert_eq!((run.recover_ms, run.collapsed), (None, true));
    let run = failing(2_000..10_000);
    assert_eq!((run.recover_ms, run.collapsed), (None, true));
}
