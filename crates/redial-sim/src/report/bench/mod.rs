//! The report of a bench: a table of the policies, one of the cells, JSON, a figure and a page.

mod bars;
mod figure;
mod json;
mod page;
mod verdict;

use crate::bench::Measure::{self, AtRisk, WholeRun};
use crate::bench::{
    Cell, CellResult, Family, Figures, OutageFigure, Plan, PolicyScores, Ranking, Suite, rank,
};
use crate::number::{count, milliseconds, ratio};
use crate::report::{Column, TextTable};

pub use verdict::Standing;

/// A bench and its results.
#[derive(Clone, Debug)]
pub struct BenchReport<'a> {
    /// What was run.
    pub plan: Plan<'a>,
    /// The results of the cells that were completed.
    pub results: Vec<CellResult>,
    /// The outages that were completed.
    pub outages: Vec<OutageFigure>,
    /// The command that reproduces the report.
    pub command: &'a str,
    /// The time that it took.
    pub wall_ms: f64,
}

/// With more policies than this the table of cells shows only the best and the worst of them.
const MOST_COLUMNS: usize = 6;

/// A column of the table of the policies.
struct Source {
    name: [&'static str; 2],
    /// The measure whose table has it; `None` if both have it.
    only: Option<Measure>,
    text: Text,
}

/// The first argument names a cell.
type Text = fn(&dyn Fn((f64, usize)) -> String, &Ranking, &Figures) -> String;

const COLUMNS: &[Source] = &[
    Source::new(["", "policy"], None, |_, it, _| it.name.clone()),
    Source::new(["mean", "regret"], None, |_, _, by| {
        format!("{} ±{}", points(by.mean_regret.value), points(by.mean_regret.margin))
    }),
    Source::new(["", "p95"], None, |_, _, by| points(by.p95_regret)),
    Source::new(["", "worst"], None, |_, _, by| points(by.worst_regret.0)),
    Source::new(["worst", "cell"], None, |label, _, by| label(by.worst_regret)),
    Source::new(["", "capture"], Some(AtRisk), |_, it, _| {
        it.mean_capture.map_or("–".to_owned(), |share| format!("{:.0} %", share * 100.0))
    }),
    Source::new(["against one", "attempt"], None, |_, _, by| signed(by.worst_against_one.0)),
    Source::new(["in", "cell"], None, |label, _, by| label(by.worst_against_one)),
    Source::new(["cells", "lost"], None, |_, _, by| by.loses_to_one.to_string()),
    Source::new(["", "load"], Some(AtRisk), |_, it, _| ratio(it.load)),
    Source::new(["worst", "load"], Some(AtRisk), |_, it, _| ratio(it.worst_load)),
    Source::new(["attempts", "per call"], Some(WholeRun), |_, it, _| ratio(it.attempts_per_call)),
    Source::new(["mean", "peak"], Some(WholeRun), |_, it, _| ratio(it.peak)),
    Source::new(["time to", "failure"], Some(WholeRun), |_, it, _| {
        it.failure_ms.map_or("–".to_owned(), milliseconds)
    }),
    Source::new(["calls", "open"], Some(WholeRun), |_, it, _| count(it.open)),
    Source::new(["most", "open"], Some(WholeRun), |_, it, _| count(it.most_open)),
    Source::new(["", "collapse"], Some(WholeRun), |_, it, _| {
        format!("{:.1} %", it.collapse.value * 100.0)
    }),
    Source::new(["own", "collapses"], Some(WholeRun), |_, it, _| it.own_collapses.to_string()),
    Source::new(["done", "twice"], Some(WholeRun), |_, it, _| {
        format!("{:.1} %", it.worst_duplicates * 100.0)
    }),
];

impl Source {
    const fn new(name: [&'static str; 2], only: Option<Measure>, text: Text) -> Self {
        Self { name, only, text }
    }
}

impl BenchReport<'_> {
    /// The suites that were run.
    pub(super) fn suites(&self) -> Vec<Suite> {
        let is_run = |suite: &Suite| self.plan.cells.iter().any(|cell| cell.suite == *suite);
        Suite::ALL.into_iter().filter(is_run).collect()
    }

    /// The policies in the cells of a suite, or in those of a family; the least mean regret by this measure first.
    pub fn ranking(&self, suite: Suite, family: Option<Family>, by: Measure) -> Vec<Ranking> {
        let wanted = |cell: &Cell| {
            cell.suite == suite && family.is_none_or(|family| cell.family() == family)
        };
        rank(self.plan.cells, &self.results, wanted, by)
    }

    /// The tables of the policies, each with a title. Losses are in points.
    pub fn tables(&self) -> Vec<(String, TextTable)> {
        let families = [
            ("Only the deadline ends an attempt", Some(Family::Deadline)),
            ("The user has set a timeout of attempts", Some(Family::Timeout)),
            ("All cells", None),
        ];
        let measures = [("all calls of a run", WholeRun), ("calls at risk", AtRisk)];
        let of_suite = |suite: Suite| {
            let title_of = move |title: &str, of: &str| match suite {
                Suite::HighTraffic => format!("High traffic. {title}: in points of {of}"),
                _ => format!("{title}: in points of {of}"),
            };
            families.into_iter().flat_map(move |(title, family)| {
                measures.map(|(of, by)| (title_of(title, of), self.table(suite, family, by)))
            })
        };
        let each = self.suites().into_iter().flat_map(of_suite);
        each.chain(self.outage_tables()).collect()
    }

    /// The policies by this measure.
    pub fn table(&self, suite: Suite, family: Option<Family>, by: Measure) -> TextTable {
        let sources = || COLUMNS.iter().filter(|it| it.only.is_none_or(|only| only == by));
        let label = |(above, cell): (f64, usize)| match (self.plan.cells.get(cell), family) {
            (Some(cell), Some(_)) if above > 0.0005 => cell.name.clone(),
            (Some(cell), None) if above > 0.0005 => {
                format!("{}, {}", cell.name, cell.family().name())
            }
            _ => "–".to_owned(),
        };
        let row = |it: &Ranking| -> Vec<String> {
            sources().map(|source| (source.text)(&label, it, it.by(by))).collect()
        };
        TextTable {
            columns: sources().map(|source| Column { name: source.name }).collect(),
            rows: self.ranking(suite, family, by).iter().map(row).collect(),
        }
    }

    /// The table of the cells: its headings and rows. Losses are in percent of the calls at risk.
    pub fn cells(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let each = self.plan.subjects.len() <= MOST_COLUMNS;
        let fixed = ["cell", "patience", "one attempt", "oracle"].map(str::to_owned);
        let names: Vec<String> = if each {
            self.plan.subjects.iter().map(|subject| subject.name.clone()).collect()
        } else {
            ["best", "worst"].map(str::to_owned).to_vec()
        };
        let last = "the oracle is".to_owned();
        let heads = fixed.into_iter().chain(names).chain([last]).collect();
        let rows = self.results.iter().map(|result| self.cell_row(result, each));
        (heads, rows.collect())
    }

    fn cell_row(&self, result: &CellResult, each: bool) -> Vec<String> {
        let cell: &Cell = &self.plan.cells[result.cell];
        let mut row = vec![
            match cell.scale() {
                1 => cell.name.clone(),
                k => format!("{} (1:{k})", cell.name),
            },
            cell.patience(),
            points(result.one_attempt.loss()),
            points(result.oracle.scores.loss()),
        ];
        let collapsed = |entry: &PolicyScores| if entry.scores.collapses() { " ✗" } else { "" };
        let loss =
            |entry: &PolicyScores| format!("{}{}", points(entry.scores.loss()), collapsed(entry));
        if each {
            row.extend(result.policies.iter().map(loss));
        } else {
            let by_loss =
                |a: &&PolicyScores, b: &&PolicyScores| a.scores.loss().total_cmp(&b.scores.loss());
            let named = |entry: &PolicyScores| format!("{} {}", loss(entry), entry.name);
            row.push(result.policies.iter().min_by(by_loss).map_or_else(String::new, named));
            row.push(result.policies.iter().max_by(by_loss).map_or_else(String::new, named));
        }
        row.push(result.oracle.name.clone());
        row
    }

    /// The meaning of the columns.
    pub fn reading() -> &'static str {
        "Calls at risk are those that begin between the start of the trouble and the time when a single attempt has \
         recovered from it; a loss of them is not diluted by the rest of the run. Regret, in points: the share of the calls \
         that is lost above that of the better comparator (one attempt, or the oracle, the best of many policies for the \
         cell). Capture: the gain over one attempt, as a share of the oracle's. Against one attempt: the most that the policy \
         loses more than one attempt; cells lost: how often that is more than a point. Load: attempts ÷ calls in trouble. \
         Attempts per call: those of the whole run. Peak: the most attempts in a window, as a multiple of the usual number. \
         Time to failure: how long calls that fail take. Calls open: the most calls in progress at the same time, the mean over \
         the cells; most open: in any cell. Own collapses: cells in which it collapses and one attempt does not. Done \
         twice: the highest share of calls of any cell whose work was repeated although it must not be."
    }
}

/// A share in points, with one place.
pub(super) fn points(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    if text == "-0.0" { "0.0".to_owned() } else { text }
}

fn signed(share: f64) -> String {
    let text = points(share);
    if text.starts_with('-') || text == "0.0" { text } else { format!("+{text}") }
}
