//! Where is the edge of collapse? A map over load and length of the trouble, by a sweep of the simulator.

use redial_sim::Subject;
use redial_sim::measure::Summary;
use redial_sim::simulate::{Settings, Watch};
use redial_sim::sweep::{Axis, Sweep};
use serde::Serialize;

use super::slider::Setting;
use super::work::check_work;
use super::{Quality, Question};
use crate::error::ApiError;

/// The runs of a cell. The cells beside it show the edge, too.
const RUNS: u32 = 2;
const ENGINE: Quality = Quality::Full;
const LOADS: &str = "load=0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9";
/// The lengths of the trouble, as multiples of the one that the visitor has chosen.
const LENGTHS: [f64; 6] = [0.1, 0.2, 0.5, 1.0, 2.0, 4.0];

/// A map to compute.
pub(super) struct Map {
    question: Question,
    sweep: Sweep,
    /// The policies of each cell.
    subjects: Vec<Vec<Subject>>,
}

/// A map, with one cell for every load and length.
#[derive(Debug, Serialize)]
pub(super) struct MapAnswer {
    x: Axis,
    y: Option<Axis>,
    policies: Vec<PolicyMap>,
    /// The command that computes the same figures.
    command: String,
}

#[derive(Debug, Serialize)]
struct PolicyMap {
    name: String,
    /// Row by row; `None` where the map was cancelled before.
    cells: Vec<Option<Cell>>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Cell {
    /// The share of the runs that collapsed.
    collapse: f64,
    success: f64,
    amplification: f64,
}

impl Map {
    pub(super) fn new(question: Question) -> Result<Self, ApiError> {
        let setting = &question.setting;
        let wrong =
            |problem: redial_sim::scenario::Problem| ApiError::bad_request(problem.to_string());
        let loads = Axis::read(LOADS).map_err(wrong)?;
        let lengths = Axis { path: setting.story.trouble.to_owned(), values: lengths(setting) };
        if setting.scenario.rate().is_none() || setting.scenario.backend.servers.is_none() {
            let why = "this story has no load to vary: choose one with traffic and a capacity";
            return Err(ApiError::bad_request(why));
        }
        let sets = setting.parsed_sets()?;
        let sweep = Sweep::read(setting.text, &sets, loads, Some(lengths)).map_err(wrong)?;
        let subjects = sweep.cells().iter().map(|cell| question.subjects_in(cell));
        let subjects: Vec<Vec<Subject>> = subjects.collect::<Result<_, _>>()?;
        let cells = sweep.cells().iter().zip(&subjects);
        let all = cells.flat_map(|(cell, subjects)| subjects.iter().map(move |it| (cell, it)));
        check_work(ENGINE.choice(), all, RUNS, "use less traffic or fewer policies")?;
        Ok(Self { question, sweep, subjects })
    }

    /// How many runs it takes.
    pub(super) fn runs(&self) -> f64 {
        let cells: usize = self.subjects.iter().map(Vec::len).sum();
        cells as f64 * f64::from(RUNS)
    }

    pub(super) fn answer(&self, watch: &Watch) -> MapAnswer {
        let engine = ENGINE.choice();
        let settings = Settings { runs: RUNS, seed: self.question.seed, threads: 1, engine };
        let results = self.sweep.run(&self.subjects, &settings, watch);
        let names = self.question.subjects().map(|subject| subject.name.clone());
        let policies = names.zip(results).map(|(name, cells)| {
            let cells = cells.iter().map(|cell| cell.as_ref().map(Cell::of)).collect();
            PolicyMap { name, cells }
        });
        let axes = std::iter::once(&self.sweep.x).chain(&self.sweep.y);
        let axes = axes.map(|axis| format!("--sweep {}={}", axis.path, axis.values.join(",")));
        let axes = axes.collect::<Vec<_>>().join(" ");
        MapAnswer {
            policies: policies.collect(),
            command: self.question.command_with(&format!("{axes} --runs {RUNS} --engine quick")),
            x: self.sweep.x.clone(),
            y: self.sweep.y.clone(),
        }
    }
}

impl Cell {
    fn of(summary: &Summary) -> Self {
        Self {
            collapse: summary.collapse.value,
            success: summary.mean("success"),
            amplification: summary.mean("amplification"),
        }
    }
}

/// Around the length that the visitor has chosen. Trouble has to end within the run, so that it can recover, and within the
/// slider, which takes the length of the cell that is chosen.
fn lengths(setting: &Setting) -> Vec<String> {
    let scenario = &setting.scenario;
    let (start, end) = scenario.fault_span().unwrap_or_default();
    let (least, most) = setting.story.range("outage").unwrap_or((1.0, f64::INFINITY));
    let longest = most.min(scenario.duration.saturating_sub(start) as f64 / 2e6).max(least);
    let chosen = end.saturating_sub(start) as f64 / 1e6;
    let mut all: Vec<String> = LENGTHS
        .iter()
        .map(|times| (chosen * times).round().clamp(least, longest))
        .map(super::slider::ms_text)
        .collect();
    all.dedup();
    all
}
