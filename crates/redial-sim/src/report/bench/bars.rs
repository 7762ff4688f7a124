//! What a default should keep, and what every policy costs a backend that is down.

use super::BenchReport;
use crate::Subject;
use crate::bench::{Bar, Bound, Family, Measure, Unit, bars, judged};
use crate::number::{milliseconds, percent};
use crate::report::{Column, TextTable};

const COLUMNS: [[&str; 2]; 5] =
    [["", "bar"], ["", "value"], ["", "limit"], ["", "kept"], ["calls", "at risk"]];

impl BenchReport<'_> {
    /// The policy that is judged, and its bars; none if it is not clear which policy is meant.
    pub fn bars(&self) -> (&str, Vec<Bar>) {
        let Some(place) = judged(self.plan.subjects) else { return ("", Vec::new()) };
        let name = &self.plan.subjects[place].name;
        let families = [Some(Family::Deadline), Some(Family::Timeout), None];
        let of_suite = |suite| {
            families.into_iter().flat_map(move |family| {
                bars(suite, family, &self.ranking(suite, family, Measure::WholeRun), name)
            })
        };
        let outages = self.outages.iter().filter_map(|outage| outage.bar(place));
        (name, self.suites().into_iter().flat_map(of_suite).chain(outages).collect())
    }

    /// The bars as a table, with a title.
    pub fn bar_table(&self) -> Option<(String, TextTable)> {
        let (name, bars) = self.bars();
        let row = |bar: &Bar| {
            let text = |value: f64| text(bar.unit, value);
            let none = || "–".to_owned();
            let limit = |bound: Bound| match bound {
                Bound::AtMost(value) => format!("≤ {}", text(value)),
                Bound::AtLeast(value) => format!("≥ {}", text(value)),
            };
            let kept = bar.is_kept().map_or("–", |kept| if kept { "yes" } else { "no" });
            vec![
                format!("{}: {}", bar.group, bar.what),
                text(bar.value),
                bar.bound.map_or_else(none, limit),
                kept.to_owned(),
                bar.at_risk.map_or_else(none, text),
            ]
        };
        (!bars.is_empty()).then(|| {
            let columns = COLUMNS.map(|name| Column { name }).to_vec();
            let rows = bars.iter().map(row).collect();
            (format!("What a default should keep: {name}"), TextTable { columns, rows })
        })
    }

    /// The meaning of the bars.
    pub fn reading_bars() -> &'static str {
        "A default should keep these bars, so that users need not choose. Losses are in points of all calls of a run, with \
         those of the calls at risk beside them. Deadline: only the deadline ends an attempt. Timeout: the user has set a \
         timeout of attempts. Outage: 1,000 calls a second, divided among the clients, meet a backend that is down for 30 s: it \
         answers 503, refuses connections, or hangs (attempts have a timeout of 500 ms); new processes make their first calls \
         while it is down. Time to failure: of ten processes with 100 calls a second each and a deadline of 10 s. Small clients \
         make 0.2 calls a second each. The exit status does not depend on the bars."
    }

    /// The outages by what is measured in them, each with a title.
    pub(super) fn outage_tables(&self) -> Vec<(String, TextTable)> {
        let titles = [
            ("A total outage: attempts per call, by the number of clients", Unit::Attempts),
            ("A total outage: mean time to failure", Unit::Milliseconds),
            ("Short trouble: the share of the calls that succeed", Unit::Success),
        ];
        let titled = |(title, unit)| Some((String::from(title), self.outage_table(unit)?));
        titles.into_iter().filter_map(titled).collect()
    }

    fn outage_table(&self, unit: Unit) -> Option<TextTable> {
        let all: Vec<_> = self.outages.iter().filter(|it| it.unit == unit).collect();
        let heads = all.iter().map(|it| Column { name: it.column });
        let row = |(place, subject): (usize, &Subject)| {
            let values = all.iter().filter_map(|it| it.values.get(place));
            [subject.name.clone()].into_iter().chain(values.map(|it| text(unit, *it))).collect()
        };
        (!all.is_empty()).then(|| TextTable {
            columns: [Column { name: ["", "policy"] }].into_iter().chain(heads).collect(),
            rows: self.plan.subjects.iter().enumerate().map(row).collect(),
        })
    }
}

fn text(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Share => format!("{:.1} %", value * 100.0),
        Unit::Points => format!("{:.2}", value * 100.0),
        Unit::Cells => format!("{value:.0}"),
        Unit::Attempts => format!("{value:.3}"),
        Unit::Milliseconds => milliseconds(value),
        Unit::Success => percent(value),
    }
}
