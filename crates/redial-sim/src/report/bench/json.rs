//! The report as JSON. The same input gives the same bytes, except for `wall_ms`. Losses are shares.

use std::collections::BTreeMap;

use redial_core::Span;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::BenchReport;
use crate::Subject;
use crate::bench::{
    Bar, Bound, Cell, CellResult, Family, Figures, Measure, OutageFigure, Ranking, Scores, Suite,
};

impl Serialize for BenchReport<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("seed", &self.plan.seed)?;
        map.serialize_entry("runs", &self.plan.runs)?;
        let verdicts: Vec<String> = self.standings().into_iter().map(|it| it.verdict).collect();
        map.serialize_entry("verdicts", &verdicts)?;
        for (name, family) in [
            ("policies", None),
            ("policies_deadline", Some(Family::Deadline)),
            ("policies_timeout", Some(Family::Timeout)),
        ] {
            let rows = self.suites().into_iter().flat_map(|suite| {
                let ranking = self.ranking(suite, family, Measure::AtRisk).into_iter();
                ranking.map(move |it| Ranked { suite, it, cells: self.plan.cells })
            });
            map.serialize_entry(name, &rows.collect::<Vec<_>>())?;
        }
        let (policy, bars) = self.bars();
        map.serialize_entry("bars", &bars.iter().map(|it| Kept(policy, it)).collect::<Vec<_>>())?;
        let outages = self.outages.iter().map(|it| Down(it, self.plan.subjects));
        map.serialize_entry("outages", &outages.collect::<Vec<_>>())?;
        let cells = self.results.iter();
        let cells = cells.map(|result| Scored { cell: &self.plan.cells[result.cell], result });
        map.serialize_entry("cells", &cells.collect::<Vec<_>>())?;
        map.serialize_entry("wall_ms", &self.wall_ms)?;
        map.end()
    }
}

struct Ranked<'a> {
    suite: Suite,
    it: Ranking,
    cells: &'a [Cell],
}

impl Serialize for Ranked<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { suite, it, cells } = self;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("suite", suite.name())?;
        map.serialize_entry("policy", &it.name)?;
        map.serialize_entry("cells", &it.cells)?;
        figures(&mut map, "", &it.at_risk, cells)?;
        figures(&mut map, "whole_run_", &it.whole_run, cells)?;
        map.serialize_entry("mean_capture", &it.mean_capture)?;
        map.serialize_entry("load", &it.load)?;
        map.serialize_entry("worst_load", &it.worst_load)?;
        map.serialize_entry("attempts_per_call", &it.attempts_per_call)?;
        map.serialize_entry("peak", &it.peak)?;
        map.serialize_entry("worst_peak", &it.worst_peak)?;
        map.serialize_entry("failure_ms", &it.failure_ms)?;
        map.serialize_entry("open", &it.open)?;
        map.serialize_entry("most_open", &it.most_open)?;
        map.serialize_entry("collapse", &it.collapse.value)?;
        map.serialize_entry("collapse_low", &it.collapse.low)?;
        map.serialize_entry("collapse_high", &it.collapse.high)?;
        map.serialize_entry("own_collapses", &it.own_collapses)?;
        map.serialize_entry("worst_duplicates", &it.worst_duplicates)?;
        map.end()
    }
}

fn figures<M: SerializeMap>(
    map: &mut M,
    prefix: &str,
    it: &Figures,
    cells: &[Cell],
) -> Result<(), M::Error> {
    let key = |name: &str| format!("{prefix}{name}");
    let (regret, against) = (it.worst_regret, it.worst_against_one);
    map.serialize_entry(&key("mean_regret"), &it.mean_regret.value)?;
    map.serialize_entry(&key("mean_regret_margin"), &it.mean_regret.margin)?;
    map.serialize_entry(&key("p95_regret"), &it.p95_regret)?;
    map.serialize_entry(&key("worst_regret"), &regret.0)?;
    map.serialize_entry(&key("worst_regret_cell"), &label(cells, regret.1))?;
    map.serialize_entry(&key("worst_against_one_attempt"), &against.0)?;
    map.serialize_entry(&key("worst_against_one_attempt_cell"), &label(cells, against.1))?;
    map.serialize_entry(&key("cells_lost_to_one_attempt"), &it.loses_to_one)
}

fn label(cells: &[Cell], place: usize) -> Option<String> {
    cells.get(place).map(|cell| format!("{} ({})", cell.name, cell.family().name()))
}

struct Kept<'a>(&'a str, &'a Bar);

impl Serialize for Kept<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(policy, bar) = self;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("policy", policy)?;
        map.serialize_entry("group", &bar.group)?;
        map.serialize_entry("what", &bar.what)?;
        map.serialize_entry("unit", bar.unit.name())?;
        map.serialize_entry("value", &bar.value)?;
        map.serialize_entry("at_risk", &bar.at_risk)?;
        map.serialize_entry("bound", &bar.bound.map(Bound::name))?;
        map.serialize_entry("limit", &bar.bound.map(Bound::value))?;
        map.serialize_entry("kept", &bar.is_kept())?;
        map.end()
    }
}

struct Down<'a>(&'a OutageFigure, &'a [Subject]);

impl Serialize for Down<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(outage, subjects) = self;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("what", &outage.what)?;
        map.serialize_entry("unit", outage.unit.name())?;
        let names = subjects.iter().map(|subject| &subject.name);
        let each: BTreeMap<_, _> = names.zip(&outage.values).collect();
        map.serialize_entry("values", &each)?;
        map.end()
    }
}

struct Scored<'a> {
    cell: &'a Cell,
    result: &'a CellResult,
}

impl Serialize for Scored<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { cell, result } = self;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("cell", &cell.name)?;
        map.serialize_entry("kind", cell.kind)?;
        map.serialize_entry("suite", cell.suite.name())?;
        map.serialize_entry("family", cell.family().name())?;
        map.serialize_entry("deadline_ms", &Span::from(cell.deadline).as_millis_f64())?;
        let timeout = cell.timeout.map(|timeout| Span::from(timeout).as_millis_f64());
        map.serialize_entry("timeout_ms", &timeout)?;
        map.serialize_entry("scale", &cell.scale())?;
        let one = Answer { name: "one attempt", scores: &result.one_attempt, result };
        map.serialize_entry("one_attempt", &one)?;
        let oracle = &result.oracle;
        map.serialize_entry(
            "oracle",
            &Answer { name: &oracle.name, scores: &oracle.scores, result },
        )?;
        let entries = result.policies.iter();
        let entries = entries.map(|it| Answer { name: &it.name, scores: &it.scores, result });
        map.serialize_entry("policies", &entries.collect::<Vec<_>>())?;
        map.serialize_entry("scenario", &cell.text)?;
        map.end()
    }
}

struct Answer<'a> {
    name: &'a str,
    scores: &'a Scores,
    result: &'a CellResult,
}

impl Serialize for Answer<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { name, scores, result } = self;
        let above = scores.loss_above(&result.one_attempt);
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("policy", name)?;
        map.serialize_entry("loss", &scores.loss())?;
        map.serialize_entry("above_one_attempt", &above.value)?;
        map.serialize_entry("above_one_attempt_margin", &above.margin)?;
        map.serialize_entry("regret", &result.regret(Measure::AtRisk, scores))?;
        map.serialize_entry("whole_run_regret", &result.regret(Measure::WholeRun, scores))?;
        map.serialize_entry("capture", &result.capture(scores))?;
        map.serialize_entry("load", &scores.load())?;
        map.serialize_entry("attempts_per_call", &scores.attempts_per_call())?;
        map.serialize_entry("peak", &scores.peak())?;
        map.serialize_entry("failure_ms", &scores.failure_ms())?;
        map.serialize_entry("open", &scores.open())?;
        map.serialize_entry("p99_ms", &scores.p99_ms())?;
        map.serialize_entry("collapse", &scores.collapse().value)?;
        map.serialize_entry("duplicates", &scores.duplicates())?;
        map.serialize_entry("failed", &scores.failed())?;
        map.end()
    }
}
