//! Each button of the demo, simulated with its settings: Redial loses no more calls than a single attempt, and at most a point
//! more than the naive loop with as many attempts.

use redial_core::{Draft, Policy, Span, Time};
use redial_live::{Fault, Naive};
use redial_sim::scenario::{Arrivals, Clients, FailureMode, HintGiven, Outage, Pace, Slowdown};
use redial_sim::simulate::Watch;
use redial_sim::{Scenario, Subject, exact};
use redial_web::{Demo, DemoFault};

const SEEDS: u64 = 8;
/// Before the fault, so that there is traffic to learn from.
const BEFORE: Span = Span::from_secs(10);
/// After it, so that a storm that does not end shows.
const AFTER: Span = Span::from_secs(10);
/// The calls a second of the demo while nothing fails.
const RATE: f64 = 200.0;
/// The most that Redial may lose in addition to the naive loop, as a share of its calls.
const POINT: f64 = 0.01;

/// The demo with a fault.
fn with(scenario: &Scenario, pressed: &DemoFault) -> Scenario {
    let (start, duration) = (Time::at(BEFORE), Span::from_secs(pressed.seconds));
    let mut scenario = scenario.clone();
    scenario.duration = BEFORE + duration + AFTER;
    let some = |share, answer, cost| Outage {
        start,
        duration,
        share,
        answer,
        cost,
        shard: None,
        endpoint: None,
        service: None,
    };
    match pressed.fault {
        Fault::Down => scenario.outage.push(some(1.0, FailureMode::UNAVAILABLE, 0.0)),
        Fault::Failing(share) => scenario.brownout.push(some(share, FailureMode::UNAVAILABLE, 0.0)),
        Fault::Limiting(share) => {
            scenario.brownout.push(some(share, FailureMode::LIMITED, 0.0));
            scenario.backend.hint = HintGiven::Fixed(Span::SECOND);
        }
        // After the work.
        Fault::LosingReplies(share) => scenario.brownout.push(some(share, FailureMode::Reset, 1.0)),
        Fault::Slow(factor) => scenario.slowdown.push(Slowdown { start, duration, factor }),
    }
    scenario
}

/// The calls that were lost, and their share.
fn lost(scenario: &Scenario, subject: &Subject) -> (f64, f64) {
    let runs = (1..=SEEDS).map(|seed| exact::run(scenario, subject, seed, &Watch::default()));
    let (calls, lost) = runs.fold((0.0, 0.0), |(calls, lost), run| {
        (calls + run.calls as f64, lost + run.calls as f64 * (1.0 - run.success))
    });
    (lost / SEEDS as f64, lost / calls)
}

/// The policy of the demo's sidecar.
fn ours(demo: &Demo) -> Policy {
    let policies = demo.file().unwrap().policies;
    policies.into_iter().find(|it| it.name == "demo").unwrap().policy
}

#[test]
fn under_every_button_redial_loses_few_calls() {
    let demo = Demo::start().unwrap();
    let naive = demo.scenario().subject("naive").unwrap();
    let redial = Subject::new("redial", ours(&demo)).unwrap();
    let attempts = naive.policy.attempts();
    assert_eq!((redial.policy.attempts(), Naive::TYPICAL.attempts), (attempts, attempts));
    let timeout = redial.policy.attempt_timeout().unwrap();
    let once = Draft::bare(1).attempt_timeout(timeout).build().unwrap();
    let once = Subject::new("one attempt", once).unwrap();
    // Callers of a closed loop that wait make fewer calls to lose. Those of an open loop do not.
    let open = Scenario {
        clients: Clients {
            arrivals: Arrivals::Poisson(Pace::Rate(RATE)),
            ..demo.scenario().clients.clone()
        },
        ..demo.scenario().clone()
    };
    let loops = [("closed", demo.scenario()), ("open", &open)];
    let each = |of| Demo::FAULTS.iter().map(move |pressed| (of, pressed));
    let mut missed = Vec::new();
    for ((name, scenario), pressed) in loops.into_iter().flat_map(each) {
        let scenario = with(scenario, pressed);
        let [(once, _), (_, naive), (ours, share)] =
            [&once, &naive, &redial].map(|subject| lost(&scenario, subject));
        let found = format!(
            "{}, {name} loop: {ours:.0} calls lost ({:.2}%), one attempt {once:.0}, the naive loop {:.2}%",
            pressed.kind,
            share * 100.0,
            naive * 100.0
        );
        if ours > once || share > naive + POINT {
            missed.push(found);
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
