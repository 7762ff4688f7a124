//! What a default should keep, and what every policy costs a backend that is down.

use super::BenchReport;
use crate::Subject;
use crate::bench::{Bar, Family, Measure, Suite, Unit, bars, judged};
use crate::report::number::ratio;
use crate::report::{Column, Table};

const COLUMNS: [[&str; 2]; 5] =
    [["", "bar"], ["", "value"], ["", "at most"], ["", "kept"], ["calls", "at risk"]];

impl BenchReport<'_> {
    /// The policy that is judged, and its bars; none if it is not clear which policy is meant.
    pub fn bars(&self) -> (&str, Vec<Bar>) {
        let Some(place) = judged(self.plan.subjects) else { return ("", Vec::new()) };
        let name = &self.plan.subjects[place].name;
        let of_family = |family| {
            let suites = self.suites().into_iter().filter(|suite| *suite != Suite::HighTraffic);
            suites.flat_map(move |suite| {
                let rankings = self.ranking(suite, Some(family), Measure::WholeRun);
                bars(family, &rankings, name)
            })
        };
        let outages = self.outages.iter().filter_map(|outage| outage.bar(place));
        (name, Family::ALL.into_iter().flat_map(of_family).chain(outages).collect())
    }

    /// The bars as a table, with a title.
    pub fn bar_table(&self) -> Option<(String, Table)> {
        let (name, bars) = self.bars();
        let row = |bar: &Bar| {
            let text = |value: f64| match bar.unit {
                Unit::Share => format!("{:.1} %", value * 100.0),
                Unit::Points => format!("{:.2}", value * 100.0),
                Unit::Cells => format!("{value:.0}"),
                Unit::Attempts => format!("{value:.3}"),
            };
            let optional = |value: Option<f64>| value.map_or("–".to_owned(), text);
            let kept = bar.is_kept().map_or("–", |kept| if kept { "yes" } else { "no" });
            vec![
                format!("{}: {}", bar.group, bar.what),
                text(bar.value),
                optional(bar.limit),
                kept.to_owned(),
                optional(bar.at_risk),
            ]
        };
        (!bars.is_empty()).then(|| {
            let columns = COLUMNS.map(|name| Column { name }).to_vec();
            let rows = bars.iter().map(row).collect();
            (format!("What a default should keep: {name}"), Table { columns, rows })
        })
    }

    /// The meaning of the bars.
    pub fn reading_bars() -> &'static str {
        "A default should keep these bars, so that users need not choose. Losses are in points of all calls of a run, with \
         those of the calls at risk beside them. Deadline: only the deadline ends an attempt. Timeout: the user has set a \
         timeout of attempts. Outage: 1,000 calls a second, divided among the clients, meet a backend that is down for 30 s, \
         answers 503 or refuses connections. The exit status does not depend on the bars."
    }

    pub(super) fn outage_table(&self) -> Option<Table> {
        let heads = self.outages.iter().map(|it| Column { name: [it.answer, it.clients_text] });
        let row = |(place, subject): (usize, &Subject)| {
            let attempts = self.outages.iter().filter_map(|it| it.attempts_per_call.get(place));
            [subject.name.clone()].into_iter().chain(attempts.map(|it| ratio(*it))).collect()
        };
        (!self.outages.is_empty()).then(|| Table {
            columns: [Column { name: ["", "policy"] }].into_iter().chain(heads).collect(),
            rows: self.plan.subjects.iter().enumerate().map(row).collect(),
        })
    }
}
