//! A run is some twenty numbers and six curves for every policy. Which of them decide between the policies, and
//! where does a person want to read them?
//!
//! A [`Report`] is what was asked and what came of it; it is JSON for a program (it serialises), a figure
//! ([`Report::svg`]), or a page for a design review ([`Report::html`]). A [`SweepReport`] is the same for many
//! scenarios that differ in one or two parameters. Nothing here knows of a terminal: the command draws its own
//! charts from a [`Picture`] and a [`Table`], which are also what the page is made of.

mod figure;
mod html;
mod json;
mod lines;
mod map;
mod number;
mod picture;
mod rates;
mod scale;
mod svg;
mod sweep;
mod table;

use crate::measure::Summary;
use crate::scenario::Set;
use crate::{Scenario, Subject};

pub use number::{count, metric, metrics, milliseconds, named, percent, ratio};
pub use picture::{Picture, Point};
pub use rates::Rates;
pub use sweep::{Cells, SweepReport};
pub use table::{Column, Table};

/// What was asked, and what came of it.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// Everything but the answers.
    pub question: Question<'a>,
    /// The scenario, with everything that was set.
    pub scenario: &'a Scenario,
    /// The answers, in the order in which they were asked for.
    pub cases: Vec<Case>,
    /// Whether the curves are wanted as numbers too.
    pub series: bool,
    /// How long it took.
    pub wall_ms: f64,
}

/// What was asked.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// What the scenario is called: its name, or its file.
    pub name: &'a str,
    /// The scenario's file.
    pub text: &'a str,
    /// What was set to other values than those of the file.
    pub sets: &'a [Set],
    /// Names the random numbers.
    pub seed: u64,
    /// How often each policy was to be run.
    pub runs: u32,
    /// What computed it.
    pub engine: &'a str,
    /// What to type to get it again.
    pub command: &'a str,
}

/// A policy, and what it did.
#[derive(Clone, Debug)]
pub struct Case {
    /// The policy.
    pub subject: Subject,
    /// What it did.
    pub summary: Summary,
}
