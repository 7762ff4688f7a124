//! A small panel for each policy: what it gains over one attempt in each cell, in the order of its gains. Below the
//! line it does harm.

use super::{BenchReport, points};
use crate::bench::{CellResult, Measure, Ranking, Suite};
use crate::number::ratio;
use crate::report::svg::{Svg, brief};

const WIDTH: f64 = 960.0;
const TOP: f64 = 46.0;
/// The line above the panels of a suite.
const NOTE: f64 = 24.0;
const ACROSS: usize = 4;
const PANEL: f64 = 92.0;
const ROW: f64 = PANEL + 62.0;
const GAP: f64 = 22.0;
const LEFT: f64 = 34.0;
/// No policy gains or loses more than all calls.
const MAX_GAIN: f64 = 1.0;

impl BenchReport<'_> {
    /// The figure as a standalone file.
    pub fn svg(&self) -> String {
        self.figure(true)
    }

    pub(super) fn figure(&self, alone: bool) -> String {
        let blocks: Vec<(Suite, Vec<Ranking>)> = self
            .suites()
            .into_iter()
            .map(|suite| (suite, self.ranking(suite, None, Measure::AtRisk)))
            .collect();
        let height = |ranking: &[Ranking]| NOTE + ROW * ranking.len().div_ceil(ACROSS) as f64;
        let all: f64 = blocks.iter().map(|(_, ranking)| height(ranking)).sum();
        let svg = Svg::new(WIDTH, TOP + all, "What each policy gains over one attempt");
        let mut svg = if alone { svg.alone() } else { svg };
        if alone {
            svg.text((LEFT, 24.0), "name", "What each policy gains over one attempt, cell by cell");
        }
        let mut top = TOP;
        for (suite, ranking) in &blocks {
            self.block(&mut svg, top, *suite, ranking);
            top += height(ranking);
        }
        svg.finish()
    }

    /// The panels of a suite.
    fn block(&self, svg: &mut Svg, top: f64, suite: Suite, ranking: &[Ranking]) {
        let note = format!(
            "{}: a bar for each of {} cells, in the order of the gains; in points of the calls at risk; below the line: \
             it loses more than one attempt",
            suite.name(),
            ranking.first().map_or(0, |it| it.cells)
        );
        svg.text((LEFT, top), "small dim", &note);
        let width = (WIDTH - LEFT - GAP * ACROSS as f64) / ACROSS as f64;
        for (place, it) in ranking.iter().enumerate() {
            let column = (place % ACROSS) as f64;
            let left = LEFT + column * (width + GAP);
            let top = top + NOTE + ROW * (place / ACROSS) as f64 + 30.0;
            panel(svg, [left, top, width], it, &self.gains(suite, &it.name), column == 0.0);
        }
    }

    /// What a policy gains over one attempt in each cell of a suite, the largest gain first.
    fn gains(&self, suite: Suite, name: &str) -> Vec<f64> {
        let of = |result: &CellResult| {
            let entry = result.policies.iter().find(|entry| entry.name == name);
            entry.unwrap_or(&result.oracle).scores.loss()
        };
        let in_suite = |result: &&CellResult| self.plan.cells[result.cell].suite == suite;
        let each = self.results.iter().filter(in_suite);
        let mut gains: Vec<f64> =
            each.map(|result| result.one_attempt.loss() - of(result)).collect();
        gains.sort_by(|one, other| other.total_cmp(one));
        gains
    }
}

fn panel(svg: &mut Svg, [left, top, width]: [f64; 3], it: &Ranking, gains: &[f64], labels: bool) {
    let y =
        |gain: f64| top + PANEL / 2.0 - gain.clamp(-MAX_GAIN, MAX_GAIN) / MAX_GAIN * PANEL / 2.0;
    svg.text((left, top - 20.0), "name", &brief(&it.name, 24));
    let facts = format!(
        "regret {} · load {} · collapses {}",
        points(it.at_risk.mean_regret.value),
        ratio(it.load),
        it.own_collapses
    );
    svg.text((left, top - 5.0), "small dim", &facts);
    for gain in [-MAX_GAIN, -MAX_GAIN / 2.0, MAX_GAIN / 2.0, MAX_GAIN] {
        svg.line((left, y(gain)), (left + width, y(gain)), "rule");
        if labels {
            svg.text((left - 4.0, y(gain) + 4.0), "small dim end", &format!("{:.0}", gain * 100.0));
        }
    }
    let bar = width / gains.len().max(1) as f64;
    let mut draw = |of: fn(f64) -> f64, class: &str| {
        let ends = gains.iter().zip(1..);
        let ends = ends.map(|(gain, number)| (y(of(*gain)), left + bar * f64::from(number)));
        svg.steps(left, ends, Some(y(0.0)), class);
    };
    draw(|gain| gain.max(0.0), "first");
    draw(|gain| gain.min(0.0), "retry");
    svg.line((left, y(0.0)), (left + width, y(0.0)), "steady");
}
