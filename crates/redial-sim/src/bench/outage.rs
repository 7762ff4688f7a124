//! Outages of a fixed length, and other trouble in which every call should succeed. Where a policy is a default, every
//! client of a backend that is down has it, and what a new process may spend on retries is multiplied by their
//! number. So the same calls are divided among few or many clients.

use std::time::Duration;

use super::bars::Bound::{self, AtLeast, AtMost};
use super::bars::Unit;
use super::cell::{Cell, Suite};
use super::run::{Plan, in_parallel};
use crate::measure::Run;
use crate::scenario::{BuiltIn, Set};
use crate::simulate::Watch;
use crate::{Scenario, Stream, Subject, exact};
use redial_policy::Problem;

/// The built-in scenario whose backend is down.
const SCENARIO: &str = "many-clients";
/// A case has as many runs as it takes for this many calls: fewer would vary too much.
const CALLS: f64 = 30_000.0;

/// A figure of every policy in an outage.
#[derive(Clone, Debug, PartialEq)]
pub struct OutageFigure {
    /// What is measured, and in which outage.
    pub what: String,
    /// The heading of its column.
    pub column: [&'static str; 2],
    /// What the values are.
    pub unit: Unit,
    /// What the value of a default may be; `None` if it is only reported.
    pub bound: Option<Bound>,
    /// The value of each policy, in the order of the plan.
    pub values: Vec<f64>,
}

/// Conditions, and what is read from their runs.
struct Case {
    trouble: Trouble,
    readings: &'static [Reading],
}

enum Trouble {
    Down(Down),
    /// A built-in scenario as it is. Policies keep their own deadlines.
    BuiltIn(&'static str),
}

/// A backend that is down.
struct Down {
    /// Among how many clients the calls are divided.
    clients: u32,
    /// Calls a second of all clients.
    rate: u32,
    answer: &'static str,
    /// How many seconds the backend is up, down and up again.
    seconds: [u32; 3],
    deadline: Duration,
    timeout: Option<Duration>,
}

struct Reading {
    figure: &'static str,
    column: [&'static str; 2],
    unit: Unit,
    bound: Option<Bound>,
    read: fn(&Run) -> f64,
}

/// A thousand calls a second to a backend that is down for 30 s.
const fn down(clients: u32, answer: &'static str) -> Down {
    let seconds = [5, 30, 5];
    Down { clients, rate: 1_000, answer, seconds, deadline: Duration::from_secs(3), timeout: None }
}

const fn hanging(clients: u32) -> Down {
    Down { timeout: Some(Duration::from_millis(500)), ..down(clients, "hang") }
}

/// Callers that wait for up to 10 s.
const fn patient(clients: u32, rate: u32, seconds: [u32; 3]) -> Down {
    Down { clients, rate, answer: "503", seconds, deadline: Duration::from_secs(10), timeout: None }
}

const fn case(trouble: Down, readings: &'static [Reading]) -> Case {
    Case { trouble: Trouble::Down(trouble), readings }
}

const fn attempts(column: [&'static str; 2], most: Option<f64>, read: fn(&Run) -> f64) -> Reading {
    let bound = match most {
        Some(most) => Some(AtMost(most)),
        None => None,
    };
    Reading { figure: "attempts per call", column, unit: Unit::Attempts, bound, read }
}

const fn to_failure(column: [&'static str; 2], most_ms: f64) -> Reading {
    let (unit, bound) = (Unit::Milliseconds, Some(AtMost(most_ms)));
    let read = |run: &Run| run.outcomes.failure_ms().unwrap_or(0.0);
    Reading { figure: "time to failure", column, unit, bound, read }
}

const fn success(column: [&'static str; 2], least: f64) -> Reading {
    let (unit, bound) = (Unit::Success, Some(AtLeast(least)));
    Reading { figure: "success", column, unit, bound, read: |run| run.success }
}

const fn built_in(name: &'static str, readings: &'static [Reading]) -> Case {
    Case { trouble: Trouble::BuiltIn(name), readings }
}

/// Attempts ÷ calls while the backend of [`down`] is down.
const DOWN: fn(&Run) -> f64 = |run| attempts_per_call(run, 5.0, 35.0);
const FIRST: fn(&Run) -> f64 = |run| attempts_per_call(run, 0.0, 10.0);
const AFTER: fn(&Run) -> f64 = |run| attempts_per_call(run, 10.0, 30.0);

const CASES: &[Case] = &[
    case(down(10, "503"), &[attempts(["503", "10 clients"], Some(1.01), DOWN)]),
    case(down(1_000, "503"), &[attempts(["503", "1,000 clients"], Some(1.05), DOWN)]),
    case(down(100_000, "503"), &[attempts(["503", "100,000 clients"], None, DOWN)]),
    case(down(10, "connect"), &[attempts(["refused", "10 clients"], Some(1.01), DOWN)]),
    case(down(1_000, "connect"), &[attempts(["refused", "1,000 clients"], Some(1.05), DOWN)]),
    case(down(100_000, "connect"), &[attempts(["refused", "100,000 clients"], None, DOWN)]),
    case(hanging(10), &[attempts(["hanging", "10 clients"], Some(1.01), DOWN)]),
    case(hanging(1_000), &[attempts(["hanging", "1,000 clients"], Some(1.1), DOWN)]),
    case(hanging(100_000), &[attempts(["hanging", "100,000 clients"], None, DOWN)]),
    case(
        Down { seconds: [0, 30, 5], ..down(1_000, "503") },
        &[
            attempts(["new processes", "first 10 s"], Some(1.5), FIRST),
            attempts(["new processes", "after 10 s"], Some(1.1), AFTER),
        ],
    ),
    case(patient(10, 1_000, [15, 10, 20]), &[to_failure(["outage", "10 s"], 1_000.0)]),
    case(patient(10, 1_000, [15, 60, 20]), &[to_failure(["outage", "60 s"], 300.0)]),
    case(patient(500, 100, [15, 1, 20]), &[success(["small clients", "1 s"], 0.995)]),
    case(patient(500, 100, [15, 3, 20]), &[success(["small clients", "3 s"], 0.955)]),
    built_in("blip", &[success(["", "blip"], 0.999)]),
    built_in("blip-synchronised", &[success(["", "blip-synchronised"], 0.999)]),
    built_in("flapping", &[success(["", "flapping"], 0.999)]),
    built_in("rate-limited", &[success(["", "rate-limited"], 0.999)]),
];

/// Runs every policy in each outage.
///
/// # Errors
///
/// A policy cannot have the patience of the callers.
pub fn outages(plan: &Plan<'_>, watch: &Watch) -> Result<Vec<OutageFigure>, String> {
    let all = cases(plan);
    let run = |number: usize| all[number].run(plan, watch);
    let each = in_parallel(all.len(), plan.threads, watch, run);
    Ok(each.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// How many runs that are.
pub(super) fn outage_runs(plan: &Plan<'_>) -> usize {
    let runs = |case: &Case| case.scenario().map_or(0, |scenario| runs(&scenario));
    cases(plan).iter().map(runs).sum::<usize>() * plan.subjects.len()
}

fn cases(plan: &Plan<'_>) -> &'static [Case] {
    if plan.outages { CASES } else { &[] }
}

fn runs(scenario: &Scenario) -> usize {
    (CALLS / scenario.calls()).ceil() as usize
}

impl Case {
    fn run(&self, plan: &Plan<'_>, watch: &Watch) -> Result<Vec<OutageFigure>, String> {
        let scenario = self.scenario().map_err(|problem| problem.to_string())?;
        let all = self.readings.iter().map(|it| OutageFigure {
            what: it.what(),
            column: it.column,
            unit: it.unit,
            bound: it.bound,
            values: Vec::new(),
        });
        let mut all: Vec<OutageFigure> = all.collect();
        for subject in plan.subjects {
            let subject = self.subject(&scenario, subject)?;
            let seeds = (0..runs(&scenario)).map(|n| Stream::new(plan.seed).of(n as u64).bits());
            let runs: Vec<Run> =
                seeds.map(|seed| exact::run(&scenario, &subject, seed, watch)).collect();
            for (outage, reading) in all.iter_mut().zip(self.readings) {
                let sum: f64 = runs.iter().map(reading.read).sum();
                outage.values.push(sum / runs.len() as f64);
            }
        }
        Ok(all)
    }

    fn scenario(&self) -> Result<Scenario, Problem> {
        let (name, sets) = match &self.trouble {
            Trouble::BuiltIn(name) => (*name, Vec::new()),
            Trouble::Down(down) => (SCENARIO, down.sets()),
        };
        let sets = sets.iter().map(|set| Set::read(set)).collect::<Result<Vec<_>, _>>()?;
        Scenario::read(BuiltIn::find(name).map_or("", |it| it.text), &sets)
    }

    /// The policy with the patience of the callers.
    fn subject(&self, scenario: &Scenario, subject: &Subject) -> Result<Subject, String> {
        match &self.trouble {
            Trouble::BuiltIn(_) => scenario.accept(subject.clone()),
            Trouble::Down(Down { deadline, timeout, .. }) => {
                let cell = Cell {
                    name: "outage".to_owned(),
                    kind: "outage",
                    suite: Suite::Named,
                    scenario: scenario.clone(),
                    text: String::new(),
                    deadline: *deadline,
                    timeout: *timeout,
                };
                cell.with_patience(subject)
            }
        }
    }
}

impl Reading {
    fn what(&self) -> String {
        let parts = [self.figure, self.column[0], self.column[1]];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

impl Down {
    fn sets(&self) -> Vec<String> {
        let [start, length, after] = self.seconds;
        vec![
            format!("duration={}s", start + length + after),
            format!("outage.start={start}s"),
            format!("outage.duration={length}s"),
            format!("outage.answer={}", self.answer),
            format!("clients.instances={}", self.clients),
            format!("clients.arrivals.poisson.rate={}", self.rate),
        ]
    }
}

/// Attempts ÷ calls between these seconds of a run.
fn attempts_per_call(run: &Run, from: f64, to: f64) -> f64 {
    let sum = |row: &[f64]| {
        let windows = [from, to].map(|at| (at * 1e3 / run.series.window_ms) as usize);
        let [first, last] = windows.map(|window| window.min(row.len()));
        row[first..last].iter().sum::<f64>()
    };
    sum(&run.series.attempts) / sum(&run.series.calls).max(1.0)
}
