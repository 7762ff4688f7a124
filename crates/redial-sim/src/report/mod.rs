//! Reports: some twenty figures and six curves for every policy, in the forms in which they are read.
//!
//! A [`Report`] holds a question and its results. It serialises to JSON, and makes a figure ([`Report::svg`]) or a
//! page for a design review ([`Report::html`]). A [`SweepReport`] does the same for scenarios that differ in one or
//! two parameters. Nothing here depends on a terminal: the command draws its own charts from a [`Picture`] and a
//! [`TextTable`], which the page uses too.

mod bench;
mod figure;
mod html;
mod json;
mod lines;
mod map;
mod picture;
mod progress;
mod rates;
mod scale;
mod svg;
mod sweep;
mod table;
mod verdict;

use crate::measure::{Engine, Summary};
use crate::scenario::Set;
use crate::{Scenario, Subject};

pub use crate::number::{count, milliseconds, percent, ratio};
pub use bench::{BenchReport, Standing};
pub use picture::{Picture, Point};
pub use progress::RunProgress;
pub use rates::Rates;
pub use sweep::{Cells, SweepReport};
pub use table::{Column, TextTable};

/// A question and its results.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The question.
    pub question: SimulationSetup<'a>,
    /// The scenario, with all set parameters.
    pub scenario: &'a Scenario,
    /// The results, in the order of the request.
    pub cases: Vec<Case>,
    /// Whether JSON includes the curves.
    pub series: bool,
    /// The time that it took.
    pub wall_ms: f64,
}

/// What was simulated, and how.
#[derive(Clone, Debug)]
pub struct SimulationSetup<'a> {
    /// The name of the scenario, or its file.
    pub name: &'a str,
    /// The scenario's file.
    pub text: &'a str,
    /// The parameters that were set to other values.
    pub sets: &'a [Set],
    /// The seed.
    pub seed: u64,
    /// The requested number of runs of each policy.
    pub runs: u32,
    /// The engine; `None` if there were several.
    pub engine: Option<Engine>,
    /// The command that reproduces the report.
    pub command: &'a str,
}

/// A policy with its results.
#[derive(Clone, Debug)]
pub struct Case {
    /// The policy.
    pub subject: Subject,
    /// Its results.
    pub summary: Summary,
}

impl SimulationSetup<'_> {
    /// The engine in words.
    pub fn engine(&self) -> String {
        self.engine.map_or_else(|| "several engines".to_owned(), |engine| engine.to_string())
    }
}

impl Report<'_> {
    /// How policies were simulated, where a reader has to know: as a scale model, or not by cohorts.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<(&Summary, Vec<&str>)> = Vec::new();
        for Case { subject, summary } in self.cases.iter().filter(|it| !it.summary.is_plain()) {
            let alike = |it: &&mut (&Summary, _)| {
                it.0.engine == summary.engine && it.0.notes == summary.notes
            };
            match notes.iter_mut().find(alike) {
                Some((_, names)) => names.push(&subject.name),
                None => notes.push((summary, vec![&subject.name])),
            }
        }
        let note = |(summary, names): (&Summary, Vec<&str>)| {
            let notes = summary.notes.join("; ");
            let colon = if notes.is_empty() { "" } else { ": " };
            format!("{}: {}{colon}{notes}.", names.join(", "), summary.engine)
        };
        notes.into_iter().map(note).collect()
    }
}
