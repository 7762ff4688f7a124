//! Does the simulator rank policies as real traffic does, and is the default among the best? Libraries for Rust and Python,
//! unmodified and with their defaults, make the same calls over TCP against the same server in four kinds of trouble, and
//! the simulator runs their policies in the same files.
//!
//! Calls arrive at their own rate and count from when they were due, so holding calls back does not flatter a policy.

mod bars;
mod python;
mod report;

use std::time::Duration;

use redial_core::Policy;
use redial_live::{Caller, Client, Error, LiveRun, LiveScenario, Once, Redial, round_trip, run};
use redial_sim::measure::Run;
use redial_sim::simulate::Watch;
use redial_sim::{Scenario, Subject, exact};

use crate::fidelity::peers::{Backon, Tower};
use crate::fidelity::{Real, with_latency};
pub(crate) use report::Report;
use report::{CellReport, Figures, Row};

/// A scenario, and what every caller has set in it.
struct Cell {
    name: &'static str,
    text: &'static str,
    deadline: Duration,
    /// The timeout of an attempt.
    timeout: Option<Duration>,
    /// The least success of `standard`, if that does not depend on the number of its attempts.
    bar: Option<f64>,
}

const CELLS: [Cell; 4] = [
    Cell {
        name: "errors",
        text: include_str!("../../scenarios/errors.toml"),
        deadline: Duration::from_secs(2),
        timeout: None,
        bar: None,
    },
    Cell {
        name: "pause",
        text: include_str!("../../scenarios/pause.toml"),
        deadline: Duration::from_secs(3),
        timeout: Some(Duration::from_millis(400)),
        bar: Some(0.99),
    },
    Cell {
        name: "blip",
        text: include_str!("../../scenarios/blip-open.toml"),
        deadline: Duration::from_secs(2),
        timeout: None,
        bar: Some(0.999),
    },
    Cell {
        name: "brownout",
        text: include_str!("../../scenarios/brownout-open.toml"),
        deadline: Duration::from_secs(2),
        timeout: None,
        bar: Some(0.99),
    },
];

const OURS: &str = "redial, standard";

/// A way of retrying.
struct Way {
    name: &'static str,
    /// The policy that represents it in the scenario.
    policy: &'static str,
    live: fn(&Cell, LiveScenario, Policy) -> Result<LiveRun, String>,
}

const WAYS: [Way; 10] = [
    Way { name: "no retry", policy: "no-retry", live: |cell, it, _| cell.run(it, || Once) },
    Way {
        name: OURS,
        policy: "standard",
        live: |_, it, policy| message(run(it, |_| Redial::new(policy.clone()))),
    },
    Way {
        name: "backon",
        policy: "peer:backon",
        live: |cell, it, _| cell.run(it, Backon::by_default),
    },
    Way { name: "tower", policy: "tower", live: |cell, it, _| cell.run(it, Tower::standard) },
    Way {
        name: "tenacity",
        policy: "peer:tenacity",
        live: |cell, it, _| cell.run_python(it, "tenacity"),
    },
    Way {
        name: "backoff",
        policy: "peer:python-backoff",
        live: |cell, it, _| cell.run_python(it, "backoff"),
    },
    Way {
        name: "stamina",
        policy: "peer:stamina",
        live: |cell, it, _| cell.run_python(it, "stamina"),
    },
    Way {
        name: "pyfailsafe",
        policy: "pyfailsafe",
        live: |cell, it, _| cell.run_python(it, "pyfailsafe"),
    },
    Way { name: "urllib3", policy: "urllib3", live: |cell, it, _| cell.run_python(it, "urllib3") },
    Way {
        name: "botocore",
        policy: "peer:aws-2026",
        live: |cell, it, _| cell.run_python(it, "botocore"),
    },
];

pub(crate) fn measure(runs: u32) -> Result<Report, String> {
    let round_trip = message(round_trip())?;
    let mut cells = Vec::new();
    for cell in &CELLS {
        let scenario = Scenario::read(cell.text, &[]).map_err(|problem| problem.to_string())?;
        let virtually = with_latency(&scenario, round_trip);
        let mut rows = Vec::new();
        for way in &WAYS {
            eprintln!("{}: {} …", cell.name, way.name);
            let subject = cell.subject(scenario.subject(way.policy)?)?;
            let live = |setting: LiveScenario| {
                (way.live)(cell, setting.deadline(cell.deadline), subject.policy.clone())
            };
            let real = Real::measure(&scenario, runs, live)?;
            // With the same seeds, so that the same calls begin.
            let simulate = |seed: &u64| exact::run(&virtually, &subject, *seed, &Watch::default());
            let simulated: Vec<Run> = real.seeds.iter().map(simulate).collect();
            rows.push(Row {
                way: way.name,
                most_attempts: subject.policy.attempts(),
                runs: real.runs.len() as u32,
                refused: real.refused,
                refusal: real.refusal.map(|refusal| refusal.to_string()),
                figures: Figures::of(&real.runs, &simulated),
            });
        }
        cells.push(CellReport { cell: cell.name, title: scenario.title, bar: cell.bar, rows });
    }
    Ok(Report { runs, round_trip_us: round_trip.as_micros(), cells })
}

impl Cell {
    /// The policy with the deadline and the timeout of this cell.
    fn subject(&self, subject: Subject) -> Result<Subject, String> {
        let draft = subject.policy.edit().deadline(self.deadline);
        let draft = match self.timeout {
            Some(timeout) => draft.attempt_timeout(timeout),
            None => draft.without_attempt_timeout(),
        };
        let policy = draft.build().map_err(|invalid| invalid.to_string())?;
        Ok(Subject { policy, ..subject })
    }

    /// Callers that have neither a deadline nor a timeout of their own.
    fn run<C: Caller>(&self, setting: LiveScenario, caller: fn() -> C) -> Result<LiveRun, String> {
        message(run(setting.timeout(self.timeout), |_| Patient {
            caller: caller(),
            deadline: self.deadline,
        }))
    }

    fn run_python(&self, setting: LiveScenario, library: &str) -> Result<LiveRun, String> {
        python::run(library, setting, self.deadline, self.timeout)
    }
}

/// Waits no longer for a call than until its deadline.
struct Patient<C> {
    caller: C,
    deadline: Duration,
}

impl<C: Caller> Caller for Patient<C> {
    async fn call(&self, client: Client) -> bool {
        tokio::time::timeout(self.deadline, self.caller.call(client)).await.unwrap_or(false)
    }
}

fn message<T>(result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}
