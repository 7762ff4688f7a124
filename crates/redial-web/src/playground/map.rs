//! Where is the edge of collapse? A map over load and length of the trouble, by a sweep of the simulator.

use redial_policy::Problem;
use redial_sim::Subject;
use redial_sim::measure::{Metric, Summary};
use redial_sim::simulate::{Method, Settings, Watch};
use redial_sim::sweep::{Axis, Sweep};
use serde::Serialize;

use super::slider::Setting;
use super::{Quality, Question, work};
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
    /// Loads and lengths.
    axes: [MapAxis; 2],
    /// The policies of each cell.
    subjects: Vec<Vec<Subject>>,
}

/// A parameter, and its values.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct MapAxis {
    path: String,
    values: Vec<String>,
}

/// A map, with one cell for every load and length.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct MapAnswer {
    /// The load.
    x: MapAxis,
    /// The length of the trouble.
    y: MapAxis,
    policies: Vec<PolicyMap>,
    /// The command that computes the same figures.
    command: String,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct PolicyMap {
    name: String,
    /// Row by row; `None` where the map was cancelled before.
    cells: Vec<Option<MapCell>>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct MapCell {
    /// The share of the runs that collapsed.
    collapse: f64,
    success: f64,
    amplification: f64,
}

impl Map {
    pub(super) fn new(question: Question) -> Result<Self, ApiError> {
        let setting = &question.setting;
        let wrong = |problem: Problem| ApiError::bad_request(problem.to_string());
        let loads = Axis::read(LOADS).map_err(wrong)?;
        let lengths = Axis { path: setting.story.trouble.to_owned(), values: lengths(setting) };
        if setting.scenario.rate().is_none() || setting.scenario.backend.servers.is_none() {
            let why = "this story has no load to vary: choose one with traffic and a capacity";
            return Err(ApiError::bad_request(why));
        }
        let sets = setting.parsed_sets()?;
        let axes = [&loads, &lengths]
            .map(|axis| MapAxis { path: axis.path.clone(), values: axis.values.clone() });
        let sweep = Sweep::read(setting.text, &sets, loads, Some(lengths)).map_err(wrong)?;
        let subjects = sweep.cells().iter().map(|cell| question.subjects_in(cell));
        let subjects: Vec<Vec<Subject>> = subjects.collect::<Result<_, _>>()?;
        let map = Self { question, sweep, axes, subjects };
        map.methods()?;
        Ok(map)
    }

    fn methods(&self) -> Result<Vec<Method<'_>>, ApiError> {
        let cells = self.sweep.cells().iter().zip(&self.subjects);
        let all = cells.flat_map(|(cell, subjects)| subjects.iter().map(move |it| (cell, it)));
        work::methods(ENGINE.choice(), all, RUNS, "use less traffic or fewer policies")
    }

    /// How many runs it takes.
    pub(super) fn runs(&self) -> f64 {
        let cells: usize = self.subjects.iter().map(Vec::len).sum();
        cells as f64 * f64::from(RUNS)
    }

    pub(super) fn answer(&self, watch: &Watch) -> Result<MapAnswer, ApiError> {
        let settings = Settings { runs: RUNS, seed: self.question.seed, threads: 1 };
        let results = self.sweep.run(&self.methods()?, &settings, watch);
        let names = self.question.subjects().map(|subject| subject.name.clone());
        let policies = names.zip(results).map(|(name, cells)| {
            let cells = cells.iter().map(|cell| cell.as_ref().map(MapCell::of)).collect();
            PolicyMap { name, cells }
        });
        let axes =
            self.axes.iter().map(|axis| format!("--sweep {}={}", axis.path, axis.values.join(",")));
        let axes = axes.collect::<Vec<_>>().join(" ");
        let [x, y] = self.axes.clone();
        Ok(MapAnswer {
            policies: policies.collect(),
            command: self.question.command_with(&format!("{axes} --runs {RUNS} --engine quick")),
            x,
            y,
        })
    }
}

impl MapCell {
    fn of(summary: &Summary) -> Self {
        Self {
            collapse: summary.collapse.value,
            success: summary.mean(Metric::Success),
            amplification: summary.mean(Metric::Amplification),
        }
    }
}

/// Around the length that the visitor has chosen. Trouble has to end within the run, so that it can recover, and within the
/// slider, which takes the length of the cell that is chosen.
fn lengths(setting: &Setting) -> Vec<String> {
    let scenario = &setting.scenario;
    let (start, end) = scenario.fault_span().unwrap_or_default();
    let (least, most) = setting.story.range("outage").unwrap_or((1.0, f64::INFINITY));
    let longest =
        most.min((scenario.duration - start.since_zero()).as_nanos_f64() / 2e6).max(least);
    let chosen = (end - start).as_millis_f64();
    let mut all: Vec<String> = LENGTHS
        .iter()
        .map(|times| (chosen * times).round().clamp(least, longest))
        .map(super::slider::ms_text)
        .collect();
    all.dedup();
    all
}
