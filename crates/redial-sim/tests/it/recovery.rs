//! When is a storm over?

use redial_core::{Span, Time};
use redial_sim::Scenario;
use redial_sim::measure::{Recorder, Run, Usual};
use redial_sim::simulate::usual_of;

use crate::helpers::run;

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
        let at = Time::at(Span::from_millis(ms));
        recorder.calls(at, 1);
        recorder.ended(at, at + Span::MILLISECOND, !bad.contains(&ms), 1);
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

#[test]
fn a_run_that_collapsed_before_the_fault_is_not_healthy() {
    let run = failing(500..10_000);
    assert_eq!((run.recover_ms, run.collapsed), (None, true));
    let half = Usual { success: 0.01, goodput: 0.0 };
    assert!(!failing(500..9_500).compared(&half).collapsed, "a hundredth is usual here");
}

/// Twice as many calls as the backend can serve, and callers that give up before the queue has emptied.
const OVERLOADED: &str = r#"
title = "More calls than the backend can serve, from the start"
duration = "60s"
policies = ["patient", "eager"]
clients = { instances = 10, arrivals = { poisson = { load = 0.9 } } }
backend = { servers = 10, service = { exponential = "100ms" }, queue = 1000 }

[policy.patient]
attempts = 1
deadline = "2s"

[policy.eager]
attempts = 10
attempt_timeout = "300ms"
deadline = "2s"
backoff = { base = "1ms", cap = "1ms" }
budget = "none"
"#;

#[test]
fn a_collapse_needs_no_fault() {
    let scenario = Scenario::read(OVERLOADED, &[]).unwrap();
    let eager = scenario.subject("eager").unwrap();
    assert!(usual_of(&scenario, &eager.one_attempt(), 1).success > 0.95);
    assert_eq!(run(&scenario, "patient", 2).collapse.value, 0.0);
    assert_eq!(run(&scenario, "eager", 2).collapse.value, 1.0);
}

#[test]
fn in_a_closed_loop_goodput_counts() {
    let closed = "closed = { callers = 180, think = { exponential = \"1s\" } }";
    let text = OVERLOADED.replace("poisson = { load = 0.9 }", closed);
    let text = text.replace("attempts = 10", "attempts = 60000").replace("2s", "none");
    let scenario = Scenario::read(&text, &[]).unwrap();
    let eager = run(&scenario, "eager", 2);
    assert_eq!(eager.collapse.value, 1.0, "nearly all of the calls that end succeed, but few do");
}

#[test]
fn every_kind_of_fault_can_be_taken_away() {
    for built_in in redial_sim::scenario::BUILT_IN {
        let scenario = built_in.read(&[]).unwrap();
        assert_eq!(scenario.without_faults().fault_span(), None, "{}", built_in.name);
    }
}
