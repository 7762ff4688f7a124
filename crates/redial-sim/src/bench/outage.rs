//! What does a call cost while nothing answers? Where a policy is a default, every client of a backend that is down has
//! it, and what a new process may spend on retries is multiplied by their number. So the same calls are divided among
//! few or many clients.

use std::time::Duration;

use super::cell::{Cell, Suite};
use super::run::{Bench, Plan, in_parallel};
use crate::scenario::{BuiltIn, Problem, Set};
use crate::simulate::Watch;

/// The built-in scenario, and what is different: an outage of 30 s in a run of 40 s. It has 1,000 calls a second.
const SCENARIO: &str = "many-clients";
const SETS: [&str; 3] = ["duration=40s", "outage.start=5s", "outage.duration=30s"];
/// How long callers wait.
const DEADLINE: Duration = Duration::from_secs(3);
/// How attempts fail: the name in reports, and in a scenario.
const ANSWERS: [(&str, &str); 2] = [("503", "503"), ("refused", "connect")];
/// Among how many clients the calls are divided.
const CLIENTS: [(u32, &str); 3] = [(10, "10"), (1_000, "1,000"), (100_000, "100,000")];

/// Attempts in a total outage.
#[derive(Clone, Debug, PartialEq)]
pub struct Outage {
    /// How attempts fail: with status 503, or refused connections.
    pub answer: &'static str,
    /// Among how many clients the calls are divided.
    pub clients: u32,
    /// The number as text.
    pub clients_text: &'static str,
    /// Attempts ÷ calls during the outage, for each policy in the order of the plan.
    pub attempts_per_call: Vec<f64>,
}

/// Runs every policy once in each outage: 30,000 calls hardly vary.
///
/// # Errors
///
/// A policy cannot have the patience of the callers.
pub fn outages(plan: &Plan<'_>, watch: &Watch) -> Result<Vec<Outage>, String> {
    let all = kinds(plan);
    let run = |number: usize| {
        let ((answer, sent), (clients, clients_text)) = all[number];
        let cell = cell(sent, clients).map_err(|problem| problem.to_string())?;
        let attempts_per_call = Bench::new(plan, &cell).loads(watch)?;
        Ok(Outage { answer, clients, clients_text, attempts_per_call })
    };
    in_parallel(all.len(), plan.threads, watch, run).into_iter().collect()
}

/// How many runs that are, with those of one attempt.
pub(super) fn outage_runs(plan: &Plan<'_>) -> usize {
    kinds(plan).len() * (plan.subjects.len() + 1)
}

type Text = &'static str;

fn kinds(plan: &Plan<'_>) -> Vec<((Text, Text), (u32, Text))> {
    let each = |answer| CLIENTS.map(|clients| (answer, clients));
    ANSWERS.into_iter().filter(|_| plan.outages).flat_map(each).collect()
}

fn cell(answer: &str, clients: u32) -> Result<Cell, Problem> {
    let sets = SETS.map(str::to_owned).into_iter();
    let sets = sets
        .chain([format!("outage.answer={answer}"), format!("clients.instances={clients}")])
        .map(|set| Set::read(&set))
        .collect::<Result<Vec<_>, _>>()?;
    let text = BuiltIn::find(SCENARIO).map_or("", |it| it.text);
    Ok(Cell {
        name: "outage".to_owned(),
        kind: "outage",
        suite: Suite::Named,
        scenario: crate::Scenario::read(text, &sets)?,
        text: text.to_owned(),
        deadline: DEADLINE,
        timeout: None,
    })
}
