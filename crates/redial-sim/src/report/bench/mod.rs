//! The report of a bench: a table of the policies, one of the cells, JSON, a figure and a page.

mod figure;
mod json;
mod page;

use crate::bench::{Cell, CellResult, Entry, Family, Plan, Ranking, rank};
use crate::report::number::ratio;
use crate::report::{Column, Table};

/// A bench and its results.
#[derive(Clone, Debug)]
pub struct BenchReport<'a> {
    /// What was run.
    pub plan: Plan<'a>,
    /// The results of the cells that were completed.
    pub results: Vec<CellResult>,
    /// The command that reproduces the report.
    pub command: &'a str,
    /// The time that it took.
    pub wall_ms: f64,
}

/// With more policies than this the table of cells shows only the best and the worst of them.
const MOST_COLUMNS: usize = 6;

const COLUMNS: [[&str; 2]; 14] = [
    ["", "policy"],
    ["mean", "regret"],
    ["", "p95"],
    ["", "worst"],
    ["worst", "cell"],
    ["", "capture"],
    ["against one", "attempt"],
    ["cells", "lost"],
    ["", "load"],
    ["worst", "load"],
    ["", "collapse"],
    ["own", "collapses"],
    ["done", "twice"],
    ["whole-run", "regret"],
];

impl BenchReport<'_> {
    /// The policies in the cells of a family, or in all cells; the least mean regret first.
    pub fn ranking(&self, family: Option<Family>) -> Vec<Ranking> {
        rank(self.plan.cells, &self.results, family)
    }

    /// The table of the policies. Losses are in points.
    pub fn table(&self, family: Option<Family>) -> Table {
        let rows = self.ranking(family).into_iter().map(|it| {
            vec![
                it.name,
                format!("{} ±{}", points(it.mean_regret.value), points(it.mean_regret.margin)),
                points(it.p95_regret),
                points(it.worst_regret.0),
                self.label(it.worst_regret),
                it.mean_capture.map_or("–".to_owned(), |share| format!("{:.0} %", share * 100.0)),
                signed(it.worst_against_one.0),
                it.loses_to_one.to_string(),
                ratio(it.load),
                ratio(it.worst_load),
                format!("{:.1} %", it.collapse.value * 100.0),
                it.own_collapses.to_string(),
                format!("{:.1} %", it.worst_duplicates * 100.0),
                points(it.mean_regret_whole_run),
            ]
        });
        Table {
            columns: COLUMNS.iter().map(|name| Column { name: *name }).collect(),
            rows: rows.collect(),
        }
    }

    /// The name of a cell with a regret.
    fn label(&self, (regret, cell): (f64, usize)) -> String {
        let cell = self.plan.cells.get(cell).filter(|_| regret > 0.0005);
        cell.map_or("–".to_owned(), |cell| format!("{}, {}", cell.name, cell.family().name()))
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
        let collapsed = |entry: &Entry| if entry.scores.collapses() { " ✗" } else { "" };
        let loss = |entry: &Entry| format!("{}{}", points(entry.scores.loss()), collapsed(entry));
        if each {
            row.extend(result.policies.iter().map(loss));
        } else {
            let by_loss = |a: &&Entry, b: &&Entry| a.scores.loss().total_cmp(&b.scores.loss());
            let named = |entry: &Entry| format!("{} {}", loss(entry), entry.name);
            row.push(result.policies.iter().min_by(by_loss).map_or_else(String::new, named));
            row.push(result.policies.iter().max_by(by_loss).map_or_else(String::new, named));
        }
        row.push(result.oracle.name.clone());
        row
    }

    /// The meaning of the columns.
    pub fn reading() -> &'static str {
        "Losses are shares of the calls at risk: those that begin between the start of the trouble and the time when a \
         single attempt has recovered from it. Regret, in points: the loss above that of the better comparator (one \
         attempt, or the oracle, the best of many policies for the cell). Capture: the gain over one attempt, as a share \
         of the oracle's. Against one attempt: the most that the policy loses more than one attempt; cells lost: how often \
         that is more than a point. Load: attempts ÷ calls in trouble. Own collapses: cells in which it collapses and one \
         attempt does not. Done twice: the highest share of calls of any cell whose work was repeated although it must not be. Whole-run regret: by all calls of a run."
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
