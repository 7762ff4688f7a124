//! The results of all cells, by policy.

use std::collections::BTreeMap;

use super::cell::Cell;
use super::run::{CellResult, PolicyScores};
use super::score::{Mean, Measure};
use crate::measure::Share;

/// A policy loses to one attempt where its loss is higher by more than this.
const POINT: f64 = 0.01;

/// A policy in all cells of a suite, or in those of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// The policy.
    pub name: String,
    /// How many cells.
    pub cells: usize,
    /// By the calls at risk.
    pub at_risk: Figures,
    /// By all calls of a run.
    pub whole_run: Figures,
    /// The mean capture; `None` if no oracle gains a point.
    pub mean_capture: Option<f64>,
    /// The mean load in trouble.
    pub load: f64,
    /// The highest load in trouble of any cell.
    pub worst_load: f64,
    /// Attempts ÷ calls of a whole run, the mean over the cells.
    pub attempts_per_call: f64,
    /// The peak, the mean over the cells.
    pub peak: f64,
    /// The highest peak of any cell.
    pub worst_peak: f64,
    /// The time to failure in milliseconds, the mean over the cells in which calls failed; `None` if none failed.
    pub failure_ms: Option<f64>,
    /// The most calls in progress at the same time, the mean over the cells.
    pub open: f64,
    /// The most calls in progress at the same time in any cell.
    pub most_open: f64,
    /// The share of runs that collapsed.
    pub collapse: Share,
    /// The highest share of calls of any cell whose work was done twice, though it must not be.
    pub worst_duplicates: f64,
    /// In how many cells it collapsed and one attempt did not.
    pub own_collapses: usize,
}

/// How much a policy loses, by one measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// The mean regret. Its confidence interval takes the cells of a scenario for one observation.
    pub mean_regret: Mean,
    /// The regret that a twentieth of the cells exceed.
    pub p95_regret: f64,
    /// The worst regret, and its cell.
    pub worst_regret: (f64, usize),
    /// The most that it loses more than one attempt, and the cell.
    pub worst_against_one: (f64, usize),
    /// In how many cells it loses more than one attempt by more than a point.
    pub loses_to_one: usize,
}

impl Ranking {
    /// The figures by this measure.
    pub fn by(&self, measure: Measure) -> &Figures {
        match measure {
            Measure::AtRisk => &self.at_risk,
            Measure::WholeRun => &self.whole_run,
        }
    }
}

/// Every policy in the wanted cells. The least mean regret by this measure first.
pub fn rank(
    cells: &[Cell],
    results: &[CellResult],
    wanted: impl Fn(&Cell) -> bool,
    measure: Measure,
) -> Vec<Ranking> {
    let results: Vec<&CellResult> =
        results.iter().filter(|result| wanted(&cells[result.cell])).collect();
    let Some(first) = results.first() else { return Vec::new() };
    let oracle = ranking("oracle", cells, &results, |result| &result.oracle);
    let mut all: Vec<Ranking> = (0..first.policies.len())
        .map(|place| {
            ranking(&first.policies[place].name, cells, &results, |it| &it.policies[place])
        })
        .chain([oracle])
        .collect();
    let regret = |it: &Ranking| it.by(measure).mean_regret.value;
    all.sort_by(|one, other| regret(one).total_cmp(&regret(other)));
    all
}

fn ranking(
    name: &str,
    cells: &[Cell],
    results: &[&CellResult],
    of: impl Fn(&CellResult) -> &PolicyScores,
) -> Ranking {
    let each = || results.iter().map(|result| (*result, &of(result).scores));
    let captures: Vec<f64> = each().filter_map(|(result, scores)| result.capture(scores)).collect();
    let runs = each().flat_map(|(_, scores)| &scores.0);
    let loads: Vec<f64> = each().map(|(_, scores)| scores.load()).collect();
    let attempts: Vec<f64> = each().map(|(_, scores)| scores.attempts_per_call()).collect();
    let peaks: Vec<f64> = each().map(|(_, scores)| scores.peak()).collect();
    let failures: Vec<f64> = each().filter_map(|(_, scores)| scores.failure_ms()).collect();
    let open: Vec<f64> = each().map(|(_, scores)| scores.open()).collect();
    Ranking {
        name: name.to_owned(),
        cells: results.len(),
        at_risk: figures(Measure::AtRisk, cells, results, &of),
        whole_run: figures(Measure::WholeRun, cells, results, &of),
        mean_capture: (!captures.is_empty()).then(|| mean(&captures)),
        load: mean(&loads),
        worst_load: loads.into_iter().fold(0.0, f64::max),
        attempts_per_call: mean(&attempts),
        peak: mean(&peaks),
        worst_peak: peaks.into_iter().fold(0.0, f64::max),
        failure_ms: (!failures.is_empty()).then(|| mean(&failures)),
        open: mean(&open),
        most_open: open.into_iter().fold(0.0, f64::max),
        collapse: Share::of(
            runs.clone().filter(|run| run.collapsed).count() as u32,
            runs.count() as u32,
        ),
        worst_duplicates: each().map(|(_, scores)| scores.duplicates()).fold(0.0, f64::max),
        own_collapses: each()
            .filter(|(result, scores)| scores.collapses() && !result.one_attempt.collapses())
            .count(),
    }
}

fn figures(
    by: Measure,
    cells: &[Cell],
    results: &[&CellResult],
    of: impl Fn(&CellResult) -> &PolicyScores,
) -> Figures {
    let each = || results.iter().map(|result| (*result, &of(result).scores));
    let regrets: Vec<f64> = each().map(|(result, scores)| result.regret(by, scores)).collect();
    let against: Vec<f64> =
        each().map(|(result, scores)| by.of(scores) - by.of(&result.one_attempt)).collect();
    let mut sorted = regrets.clone();
    sorted.sort_by(f64::total_cmp);
    let p95 = (sorted.len() as f64 * 0.95).ceil() as usize;
    Figures {
        mean_regret: Mean { value: mean(&regrets), margin: margin(cells, results, &regrets) },
        p95_regret: sorted.get(p95.saturating_sub(1)).copied().unwrap_or(0.0),
        worst_regret: worst(&regrets, results),
        worst_against_one: worst(&against, results),
        loses_to_one: against.iter().filter(|above| **above > POINT).count(),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Half of the confidence interval of the mean over scenarios.
fn margin(cells: &[Cell], results: &[&CellResult], values: &[f64]) -> f64 {
    let mut scenarios: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (result, value) in results.iter().zip(values) {
        scenarios.entry(&cells[result.cell].text).or_default().push(*value);
    }
    Mean::of(&scenarios.values().map(|of_one| mean(of_one)).collect::<Vec<_>>()).margin
}

/// The highest value, and the place of its cell in the plan.
fn worst(values: &[f64], results: &[&CellResult]) -> (f64, usize) {
    let all = values.iter().copied().zip(results.iter().map(|result| result.cell));
    all.reduce(|most, it| if it.0 > most.0 { it } else { most }).unwrap_or_default()
}
