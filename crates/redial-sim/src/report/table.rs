use super::{Case, Report};
use crate::measure::{Engine, Metric, Share, Spread, Summary};
use crate::number::{count, milliseconds, percent, ratio};

/// The most important figures as text: a row for every policy with at least one run.
#[derive(Clone, Debug, PartialEq)]
pub struct TextTable {
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
    Source { name: ["", "calls"], text: |case| mean(case, Metric::Calls, count) },
    Source { name: ["", "attempts"], text: |case| mean(case, Metric::Attempts, count) },
    Source {
        name: ["ampli-", "fication"],
        text: |case| spread(case, Metric::Amplification, ratio),
    },
    Source { name: ["", "success"], text: success },
    Source { name: ["own", "success"], text: |case| mean(case, Metric::OwnSuccess, percent) },
    Source { name: ["peak", "ratio"], text: |case| spread(case, Metric::PeakRatio, ratio) },
    Source { name: ["time to", "recover"], text: recover },
    Source { name: ["goodput", "lost"], text: |case| mean(case, Metric::GoodputLost, percent) },
    Source { name: ["healthy", "lost"], text: |case| mean(case, Metric::HealthyLost, percent) },
    Source { name: ["", "p50"], text: |case| time(case, Metric::P50Ms) },
    Source { name: ["", "p99"], text: |case| time(case, Metric::P99Ms) },
    Source { name: ["dupli-", "cates"], text: |case| mean(case, Metric::Duplicates, count) },
    Source { name: ["collapse", "(95\u{a0}%)"], text: |case| collapse(&case.summary) },
];

impl Report<'_> {
    /// The most important figures. Duplicates, losses of healthy shards, the success of the callers under test,
    /// recovery and collapse are only shown where they apply.
    pub fn table(&self) -> TextTable {
        let ran: Vec<&Case> = self.cases.iter().filter(|case| case.summary.runs > 0).collect();
        let twice = ran.iter().any(|case| case.summary.mean(Metric::Duplicates) > 0.0);
        let has = |metric: Metric| ran.iter().any(|case| case.summary.value(metric).is_some());
        let shown = |source: &&Source| match source.name[0] {
            "dupli-" => twice,
            "healthy" => has(Metric::HealthyLost),
            "own" => has(Metric::OwnSuccess),
            "collapse" => self.tells_collapse(),
            "time to" => self.can_recover(),
            _ => true,
        };
        let sources: Vec<&Source> = COLUMNS.iter().filter(shown).collect();
        TextTable {
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
        let is_over = scenario.fault_span().is_some_and(|(_, end)| end < scenario.end());
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

fn mean(case: &Case, metric: Metric, text: fn(f64) -> String) -> String {
    case.summary.value(metric).map_or_else(none, |spread| text(spread.mean))
}

/// With the standard error of the mean, where it is visible.
fn spread(case: &Case, metric: Metric, text: fn(f64) -> String) -> String {
    let Some(Spread { mean, standard_error, .. }) = case.summary.value(metric) else {
        return none();
    };
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
    if case.summary.mean(Metric::Calls) == 0.0 {
        none()
    } else {
        spread(case, Metric::Success, percent)
    }
}

fn time(case: &Case, metric: Metric) -> String {
    match case.summary.mean(metric) {
        // Without successful calls there is no latency.
        _ if case.summary.mean(Metric::Success) == 0.0 => none(),
        ms => milliseconds(ms),
    }
}

fn recover(case: &Case) -> String {
    let summary = &case.summary;
    match summary.value(Metric::RecoverMs) {
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
