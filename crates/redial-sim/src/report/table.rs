use super::number::{count, milliseconds, percent, ratio};
use super::{Case, Report};
use crate::measure::{Share, Spread, Summary};
use crate::simulate::Engine;

/// The most important figures as text: a row for every policy with at least one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What is in the columns.
    pub columns: Vec<Column>,
    /// The rows, with a text for each column.
    pub rows: Vec<Vec<String>>,
}

/// The heading of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Two lines; the first may be empty.
    pub name: [&'static str; 2],
}

struct Source {
    name: [&'static str; 2],
    text: fn(&Case) -> String,
}

const COLUMNS: [Source; 14] = [
    Source { name: ["", "policy"], text: |case| case.subject.name.clone() },
    Source { name: ["", "calls"], text: |case| mean(case, "calls", count) },
    Source { name: ["", "attempts"], text: |case| mean(case, "attempts", count) },
    Source { name: ["ampli-", "fication"], text: |case| spread(case, "amplification", ratio) },
    Source { name: ["", "success"], text: success },
    Source { name: ["own", "success"], text: |case| mean(case, "own_success", percent) },
    Source { name: ["peak", "ratio"], text: |case| spread(case, "peak_ratio", ratio) },
    Source { name: ["time to", "recover"], text: recover },
    Source { name: ["goodput", "lost"], text: |case| mean(case, "goodput_lost", percent) },
    Source { name: ["healthy", "lost"], text: |case| mean(case, "healthy_lost", percent) },
    Source { name: ["", "p50"], text: |case| time(case, "p50_ms") },
    Source { name: ["", "p99"], text: |case| time(case, "p99_ms") },
    Source { name: ["dupli-", "cates"], text: |case| mean(case, "duplicates", count) },
    Source { name: ["collapse", "(95\u{a0}%)"], text: |case| collapse(&case.summary) },
];

impl Report<'_> {
    /// The most important figures. Duplicates, losses of healthy shards, the success of the callers under test,
    /// recovery and collapse are only shown where they apply.
    pub fn table(&self) -> Table {
        let ran: Vec<&Case> = self.cases.iter().filter(|case| case.summary.runs > 0).collect();
        let twice = ran.iter().any(|case| case.summary.mean("duplicates") > 0.0);
        let has = |name: &str| ran.iter().any(|case| case.summary.value(name).is_some());
        let shown = |source: &&Source| match source.name[0] {
            "dupli-" => twice,
            "healthy" => has("healthy_lost"),
            "own" => has("own_success"),
            "collapse" => self.tells_collapse(),
            "time to" => self.can_recover(),
            _ => true,
        };
        let sources: Vec<&Source> = COLUMNS.iter().filter(shown).collect();
        Table {
            columns: sources.iter().map(|source| Column { name: source.name }).collect(),
            rows: ran
                .iter()
                .map(|case| sources.iter().map(|source| (source.text)(case)).collect())
                .collect(),
        }
    }

    /// Whether the share of collapses is known: never from a single run.
    pub fn tells_collapse(&self) -> bool {
        let many = self.cases.iter().any(|case| case.summary.runs > 1);
        let any = self.cases.iter().any(|case| case.summary.collapse.value > 0.0);
        many && (any || self.can_recover())
    }

    /// Whether there is a fault that ends, with calls that begin after it.
    fn can_recover(&self) -> bool {
        let scenario = self.scenario;
        let is_over = scenario.fault_span().is_some_and(|(_, end)| end < scenario.duration);
        is_over && scenario.rate().is_some()
    }
}

impl Column {
    /// The heading in one line.
    pub fn title(&self) -> String {
        match self.name {
            ["", name] => name.to_owned(),
            [first, second] => match first.strip_suffix('-') {
                Some(half) => format!("{half}{second}"),
                None => format!("{first} {second}"),
            },
        }
    }
}

fn mean(case: &Case, name: &str, text: fn(f64) -> String) -> String {
    case.summary.value(name).map_or_else(none, |spread| text(spread.mean))
}

/// With the standard error of the mean, where it is visible.
fn spread(case: &Case, name: &str, text: fn(f64) -> String) -> String {
    let Some(Spread { mean, standard_error, .. }) = case.summary.value(name) else { return none() };
    let shown = text(mean);
    // With as many decimal places as the mean.
    let number = shown.split(' ').next().unwrap_or_default();
    let places = number.split_once('.').map_or(0, |(_, places)| places.len());
    let error = if shown.ends_with('%') { standard_error * 100.0 } else { standard_error };
    let error = format!("{error:.places$}");
    let is_visible = case.summary.runs > 1 && error.contains(|c: char| ('1'..='9').contains(&c));
    match shown.strip_suffix(" %") {
        _ if !is_visible => shown,
        Some(share) => format!("{share} ±{error} %"),
        None => format!("{shown} ±{error}"),
    }
}

fn success(case: &Case) -> String {
    // There is no share of zero calls.
    if case.summary.mean("calls") == 0.0 { none() } else { spread(case, "success", percent) }
}

fn time(case: &Case, name: &str) -> String {
    match case.summary.mean(name) {
        // Without successful calls there is no latency.
        _ if case.summary.mean("success") == 0.0 => none(),
        ms => milliseconds(ms),
    }
}

fn recover(case: &Case) -> String {
    let summary = &case.summary;
    match summary.value("recover_ms") {
        Some(spread) if summary.recovered < summary.runs => {
            format!("{} or never", milliseconds(spread.mean))
        }
        Some(spread) => milliseconds(spread.mean),
        // Cohorts cannot determine it.
        None if summary.engine == Engine::Cohort && summary.collapse.value == 0.0 => none(),
        None => "never".to_owned(),
    }
}

/// The share, and its 95% confidence interval.
pub(super) fn collapse(summary: &Summary) -> String {
    let Share { value, low, high } = summary.collapse;
    let whole = |share: f64| format!("{:.0}", share * 100.0);
    format!("{} % ({}–{})", whole(value), whole(low), whole(high))
}

fn none() -> String {
    "–".to_owned()
}
