//! Where is the edge of collapse? A scenario has one load and one length of the outage; how close it is to collapse
//! shows when they are varied.
//!
//! A sweep is a scenario with one or two parameters set to every combination of some values. All cells are read and
//! validated before the first one runs.

use redial_core::Span;
use serde::Serialize;

use crate::Scenario;
use crate::measure::{Run, Summary};
use crate::scenario::Set;
use crate::simulate::{Method, Settings, Watch, turns};
use redial_policy::Problem;

/// The most cells of a sweep.
pub const MOST_CELLS: usize = 10_000;

/// A parameter, and its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Axis {
    /// As for `--set`, or one of the short names: `load`, `rate`, `clients`, `outage`.
    pub path: String,
    /// As for `--set`.
    pub values: Vec<String>,
}

impl Axis {
    /// Reads `path=a,b,c` or `path=from..to:steps`, where `steps` is the number of values.
    ///
    /// # Errors
    ///
    /// It has another form, or more values than [`MOST_CELLS`].
    pub fn read(text: &str) -> Result<Self, Problem> {
        let wrong = |why: &str| Problem::whole(format!("{text:?} {why}"));
        let form = "is not PATH=A,B,C or PATH=FROM..TO:STEPS, such as load=0.3..0.9:7";
        let (path, values) = text.split_once('=').ok_or_else(|| wrong(form))?;
        let values = match values.split_once("..") {
            Some((from, rest)) => {
                let (to, steps) = rest.split_once(':').ok_or_else(|| wrong(form))?;
                let steps = steps.trim().parse().map_err(|_| wrong(form))?;
                if !(2..=MOST_CELLS as u64).contains(&steps) {
                    return Err(wrong(&format!(
                        "has {steps} values, and 2 to {MOST_CELLS} are allowed"
                    )));
                }
                between(from.trim(), to.trim(), steps)
                    .ok_or_else(|| wrong("has an end that is neither a number nor a duration"))?
            }
            None => values.split(',').map(|value| value.trim().to_owned()).collect(),
        };
        if path.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(wrong(form));
        }
        Ok(Self { path: path.trim().to_owned(), values })
    }

    /// The last part of its path.
    pub fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }

    /// The parameter set to one of its values.
    fn set(&self, value: &str) -> Result<Set, Problem> {
        Set::of_flag("--sweep", &self.path, value)
    }
}

/// A range of integers has integer values, because most integer parameters require them.
fn between(from: &str, to: &str, steps: u64) -> Option<Vec<String>> {
    let at = |from: f64, to: f64, n: u64| from + (to - from) * n as f64 / (steps - 1) as f64;
    let values: Vec<String> = if let (Ok(from), Ok(to)) = (from.parse::<i64>(), to.parse::<i64>()) {
        (0..steps).map(|n| format!("{:.0}", at(from as f64, to as f64, n))).collect()
    } else if let (Ok(from), Ok(to)) = (from.parse::<f64>(), to.parse::<f64>()) {
        // Without the rounding errors of 0.1 + 0.2.
        (0..steps).map(|n| ((at(from, to, n) * 1e9).round() / 1e9).to_string()).collect()
    } else {
        let (from, to): (Span, Span) = (from.parse().ok()?, to.parse().ok()?);
        let span = |n| at(from.as_nanos_f64(), to.as_nanos_f64(), n).round();
        (0..steps).map(|n| Span::from_nanos_f64(span(n)).to_string()).collect()
    };
    let mut values = values;
    values.dedup();
    Some(values)
}

/// A scenario with one or two parameters varied.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Option<Axis>,
    /// Row by row.
    cells: Vec<Scenario>,
}

impl Sweep {
    /// Reads this file, with some parameters set to other values.
    ///
    /// # Errors
    ///
    /// There are more than [`MOST_CELLS`] cells, or one of them is invalid.
    pub fn read(text: &str, sets: &[Set], x: Axis, y: Option<Axis>) -> Result<Self, Problem> {
        let rows = y.as_ref().map_or(1, |y| y.values.len());
        let count = x.values.len().saturating_mul(rows);
        if count > MOST_CELLS {
            return Err(Problem::whole(format!(
                "{count} cells are more than the maximum of {MOST_CELLS}: use fewer values"
            )));
        }
        Scenario::read(text, sets)?;
        if let Some(y) = &y {
            let first = |axis: &Axis| axis.set(&axis.values[0])?.target(text, sets);
            if first(&x)? == first(y)? {
                return Err(Problem::whole(format!(
                    "--sweep {} and --sweep {} vary the same parameter",
                    x.path, y.path
                )));
            }
        }
        let mut cells = Vec::with_capacity(count);
        for row in 0..rows {
            for value in &x.values {
                let mut all = sets.to_vec();
                all.push(x.set(value)?);
                if let Some(y) = &y {
                    all.push(y.set(&y.values[row])?);
                }
                cells.push(Scenario::read(text, &all)?);
            }
        }
        Ok(Self { x, y, cells })
    }

    /// The scenarios, row by row.
    pub fn cells(&self) -> &[Scenario] {
        &self.cells
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.y.as_ref().map_or(1, |y| y.values.len())
    }

    /// The approximate number of calls in one run of every cell.
    pub fn calls(&self) -> f64 {
        self.cells.iter().map(Scenario::calls).sum()
    }

    /// Runs every cell with its policies: `methods` has those of the first cell, then as many of the second, and so on. All
    /// cells use the same random numbers, so that only the varied parameters differ. The first run of all cells is made before the
    /// second of any, so that a sweep that is stopped has a complete but coarser map; cells without a run are
    /// `None`. The result is by policy.
    pub fn run(
        &self,
        methods: &[Method<'_>],
        settings: &Settings,
        watch: &Watch,
    ) -> Vec<Vec<Option<Summary>>> {
        let policies = methods.len() / self.cells.len().max(1);
        // The curves of ten thousand cells would not fit into memory, and are not shown.
        let mut by_policy = vec![Vec::with_capacity(self.cells.len()); policies];
        for (job, summary) in
            turns(methods, settings, watch, Run::without_curves).into_iter().enumerate()
        {
            by_policy[job % policies].push((summary.runs > 0).then_some(summary));
        }
        by_policy
    }
}
