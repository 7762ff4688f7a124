use serde::ser::{Serialize, SerializeMap, Serializer};

use super::html::Page;
use super::table::collapse;
use super::{SimulationSetup, json};
use crate::measure::{Metric, Summary};
use crate::sweep::{Axis, Sweep};
use crate::{Scenario, Subject};

/// The results of a sweep.
#[derive(Clone, Debug)]
pub struct SweepReport<'a> {
    /// The question.
    pub question: SimulationSetup<'a>,
    /// The scenario before parameters are varied.
    pub scenario: &'a Scenario,
    /// The varied parameters.
    pub sweep: &'a Sweep,
    /// The results of each policy.
    pub cells: Vec<Cells>,
    /// The policies, before parameters are varied.
    pub subjects: Vec<Subject>,
    /// The figures to show.
    pub metrics: Vec<Metric>,
    /// The time that it took.
    pub wall_ms: f64,
}

/// The results of one policy in every cell.
#[derive(Clone, Debug)]
pub struct Cells {
    /// The name of the policy.
    pub policy: String,
    /// Row by row; `None` where the sweep was stopped before.
    pub summaries: Vec<Option<Summary>>,
}

impl SweepReport<'_> {
    /// The figure as a standalone file: maps for two parameters, lines for one.
    pub fn svg(&self) -> String {
        self.figure(true)
    }

    fn figure(&self, alone: bool) -> String {
        match &self.sweep.y {
            Some(y) => self.maps(&self.metrics, y, alone),
            None => self.diagrams(&self.metrics, alone),
        }
    }

    /// The page as a standalone file.
    pub fn html(&self) -> String {
        let mut page = Page::new(&self.question, self.scenario, "cell");
        page.heading("Results");
        let paths: Vec<&str> = self.axes().map(|axis| axis.path.as_str()).collect();
        page.paragraph(&format!("By {}.", paths.join(" and ")));
        self.note().iter().for_each(|note| page.paragraph(note));
        page.figure(&self.figure(false));
        if self.sweep.y.is_none() {
            let (heads, rows) = self.rows();
            page.rows(&heads, &rows);
        }
        page.parameters(&self.question);
        page.policies(self.subjects.iter());
        let all = self.cells.iter().flat_map(|cells| &cells.summaries);
        let made = all.map(|summary| summary.as_ref().map_or(0, |summary| summary.runs)).min();
        page.again(&self.question, made);
        page.finish()
    }

    /// A sweep of one parameter as a table: a row for every value, a column for every policy and figure.
    pub fn rows(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let columns = || {
            let each = |cells| self.metrics.iter().map(move |metric| (cells, *metric));
            self.cells.iter().flat_map(each)
        };
        let head = |(cells, metric): (&Cells, Metric)| match self.metrics.len() {
            1 => cells.policy.clone(),
            _ => format!("{} {metric}", cells.policy),
        };
        let heads = std::iter::once(self.sweep.x.path.clone()).chain(columns().map(head)).collect();
        let row = |(at, value): (usize, &String)| {
            let cell = |(cells, metric): (&Cells, Metric)| match &cells.summaries[at] {
                Some(summary) if metric == Metric::Collapse => collapse(summary),
                _ => self.text(cells, at, metric),
            };
            std::iter::once(value.clone()).chain(columns().map(cell)).collect()
        };
        (heads, self.sweep.x.values.iter().enumerate().map(row).collect())
    }

    /// A figure of a cell as text.
    pub fn text(&self, cells: &Cells, at: usize, metric: Metric) -> String {
        let value = cells.summaries[at].as_ref().and_then(|summary| summary.value(metric));
        value.map_or_else(|| "–".to_owned(), |spread| metric.text(spread.mean))
    }

    /// How many cells are scale models, if any.
    pub fn note(&self) -> Option<String> {
        let all = || self.cells.iter().flat_map(|cells| &cells.summaries).flatten();
        let scales = || all().map(|summary| summary.engine.scale()).filter(|scale| *scale > 1);
        let (least, most) = (scales().min()?, scales().max()?);
        let range = if least == most { String::new() } else { format!("1:{least} to ") };
        let (scaled, count) = (scales().count(), all().count());
        Some(format!("{scaled} of {count} results are of a scale model {range}1:{most}."))
    }

    /// The title of a figure.
    pub(super) fn title(&self) -> String {
        let note = self.note().map(|note| format!(" ({})", note.trim_end_matches('.')));
        format!("{}{}", self.scenario.title, note.unwrap_or_default())
    }

    fn axes(&self) -> impl Iterator<Item = &Axis> {
        std::iter::once(&self.sweep.x).chain(&self.sweep.y)
    }
}

impl Serialize for SweepReport<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        json::question(&mut map, &self.question)?;
        map.serialize_entry("sweep", &Axes(self.sweep))?;
        let results: Vec<_> =
            self.cells.iter().map(|cells| Policy { report: self, cells }).collect();
        map.serialize_entry("results", &results)?;
        let all = self.cells.iter().flat_map(|cells| &cells.summaries).flatten();
        map.serialize_entry("events", &all.map(|summary| summary.events).sum::<u64>())?;
        map.serialize_entry("wall_ms", &self.wall_ms)?;
        map.end()
    }
}

struct Axes<'a>(&'a Sweep);

impl Serialize for Axes<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("x", &self.0.x)?;
        map.serialize_entry("y", &self.0.y)?;
        map.end()
    }
}

struct Policy<'a> {
    report: &'a SweepReport<'a>,
    cells: &'a Cells,
}

impl Serialize for Policy<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("policy", &self.cells.policy)?;
        let wanted = self.report.question.runs;
        let rows = self.cells.summaries.chunks(self.report.sweep.x.values.len());
        let rows: Vec<Vec<_>> =
            rows.map(|row| row.iter().map(|cell| answer(cell, wanted)).collect()).collect();
        map.serialize_entry("cells", &rows)?;
        map.end()
    }
}

fn answer(cell: &Option<Summary>, wanted: u32) -> Option<json::Answer<'_>> {
    let summary = cell.as_ref()?;
    Some(json::Answer { policy: None, sentence: None, summary, wanted, series: false })
}
