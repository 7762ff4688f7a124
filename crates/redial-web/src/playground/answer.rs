//! What a simulation shows: curves, capacity, trouble and figures, in the units of the charts.

use redial_core::{Span, Time};
use redial_sim::Scenario;
use redial_sim::measure::{Engine, Metric, Series, Summary};
use redial_sim::report::{Case, Picture, Point};
use serde::Serialize;

use super::policy_choice::toml_of;
use crate::about::about;
use crate::review::Remark;

/// More points than this cannot be told apart.
const MOST_POINTS: usize = 400;
/// Above this share of calls that succeed, a wave of callers counts as served.
const FEW_FAILURES: f64 = 0.99;
/// The share of a run that shows how it ends.
const END: f64 = 0.1;

/// The result of a simulation.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct Answer {
    /// One sentence that says what is seen.
    pub(crate) sentence: String,
    /// The command that computes the same figures.
    pub(crate) command: String,
    /// The time between two points.
    pub(crate) point_ms: f64,
    /// Requests a second that the backend can serve; `None` if it has no limit.
    pub(crate) capacity: Option<f64>,
    /// Calls a second without faults; `None` if all callers begin at once.
    pub(crate) steady: Option<f64>,
    pub(crate) bands: Vec<Band>,
    pub(crate) policies: Vec<PolicyAnswer>,
    /// What is not as the sliders say.
    pub(crate) notes: Vec<String>,
    pub(crate) wall_ms: f64,
}

/// A time of trouble.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct Band {
    pub(crate) from_ms: f64,
    pub(crate) to_ms: f64,
    pub(crate) label: String,
}

/// The result of one policy.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct PolicyAnswer {
    pub(crate) name: String,
    /// What it does, in one line.
    pub(crate) about: String,
    /// `None` if the policy cannot be read.
    pub(crate) result: Option<PolicyResult>,
    /// The policy as a file.
    pub(crate) toml: Option<String>,
    /// What `redial check` finds in the visitor's own policy.
    pub(crate) remarks: Vec<Remark>,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct PolicyResult {
    pub(crate) figures: Figures,
    pub(crate) curves: Curves,
    pub(crate) tone: Tone,
    /// How it was computed: "cohorts · 38 ms".
    pub(crate) caption: String,
    pub(crate) notes: Vec<String>,
}

/// Whether the result of a policy is one to aim at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tone {
    Good,
    Warn,
    Bad,
}

/// The figures of a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct Figures {
    pub(crate) calls: f64,
    pub(crate) attempts: f64,
    pub(crate) amplification: f64,
    pub(crate) success: f64,
    pub(crate) peak_ratio: f64,
    /// The most attempts a second; where all callers begin at once, the most retries.
    pub(crate) peak: f64,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) recover_ms: Option<f64>,
    /// Whether most runs collapsed: at their end, at most half as many calls succeed as usual.
    pub(crate) collapsed: bool,
    pub(crate) runs: u32,
    /// The share of the runs that collapsed, and its 95% confidence interval.
    pub(crate) collapse: [f64; 3],
    /// The share of the calls that succeed before the trouble, and at the end of the run; `None` if no call begins then.
    pub(crate) success_before: Option<f64>,
    pub(crate) success_at_end: Option<f64>,
}

/// Rates a second, by point.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct Curves {
    calls: Vec<f64>,
    attempts: Vec<f64>,
    served: Vec<f64>,
    succeeded: Vec<f64>,
}

impl PolicyAnswer {
    pub(crate) fn of(scenario: &Scenario, case: &Case, points: &[Point], took_ms: f64) -> Self {
        let Case { subject, summary } = case;
        let figures = Figures::of(scenario, summary);
        Self {
            name: subject.name.clone(),
            about: about(&subject.policy),
            result: Some(PolicyResult {
                tone: figures.tone(),
                figures,
                curves: Curves::of(points),
                caption: caption(summary.engine, took_ms),
                notes: summary.notes.clone(),
            }),
            toml: Some(toml_of(&subject.policy)),
            remarks: Vec::new(),
        }
    }
}

/// How a result was computed, and how long that took.
fn caption(engine: Engine, took_ms: f64) -> String {
    let engine = match engine {
        Engine::Exact => "exact".to_owned(),
        Engine::Cohort => "cohorts".to_owned(),
        Engine::Scale(k) => format!("1:{k} model"),
    };
    format!("{engine} · {took_ms:.0} ms")
}

impl Figures {
    pub(crate) fn of(scenario: &Scenario, summary: &Summary) -> Self {
        let mean = |metric| summary.value(metric).map(|spread| spread.mean);
        let of = |metric| mean(metric).unwrap_or_default();
        let series = &summary.series;
        // Where all callers begin at once, what counts is the wave that comes back.
        let row = if scenario.rate().is_some() { &series.attempts } else { &series.retries };
        let most = row.iter().copied().fold(0.0, f64::max);
        let end = scenario.duration.as_millis_f64();
        let before =
            scenario.fault_span().map_or(end, |(start, _)| start.since_zero().as_millis_f64());
        let part = |from, to| {
            let rate = scenario.rate();
            rate.and_then(|_| success_between(series, from, to))
        };
        Self {
            calls: of(Metric::Calls),
            attempts: of(Metric::Attempts),
            amplification: of(Metric::Amplification),
            success: of(Metric::Success),
            peak_ratio: of(Metric::PeakRatio),
            peak: most * 1e3 / series.window_ms.max(1e-9),
            p99_ms: mean(Metric::P99Ms).filter(|_| of(Metric::Success) > 0.0),
            recover_ms: mean(Metric::RecoverMs),
            collapsed: summary.collapse.value > 0.5,
            runs: summary.runs,
            collapse: [summary.collapse.value, summary.collapse.low, summary.collapse.high],
            success_before: part(0.0, before),
            success_at_end: part(end * (1.0 - END), end),
        }
    }
}

impl Figures {
    fn tone(&self) -> Tone {
        match self.success_at_end {
            _ if self.collapsed => Tone::Bad,
            // All callers begin at once: there is no steady state to return to.
            None if self.success <= FEW_FAILURES => Tone::Warn,
            _ => Tone::Good,
        }
    }
}

/// Calls that succeeded in a time, as a share of those that began in it.
fn success_between(series: &Series, from_ms: f64, to_ms: f64) -> Option<f64> {
    let at = |ms: f64| (ms / series.window_ms).round() as usize;
    let sum = |row: &[f64]| {
        row.get(at(from_ms)..at(to_ms).min(row.len())).map(|row| row.iter().sum::<f64>())
    };
    let calls = sum(&series.calls).filter(|calls| *calls > 0.0)?;
    Some((sum(&series.succeeded)? / calls).min(1.0))
}

impl Curves {
    fn of(points: &[Point]) -> Self {
        let row = |of: fn(&Point) -> f64| points.iter().map(|point| short(of(point))).collect();
        Self {
            calls: row(|point| point.calls),
            attempts: row(Point::attempts),
            served: row(|point| point.served),
            succeeded: row(|point| point.succeeded),
        }
    }
}

/// Four digits, which is more than a chart shows.
fn short(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let unit = 10f64.powf(value.abs().log10().floor() - 3.0);
    // Whole units, so that the text is as short as the number.
    if unit >= 1.0 {
        (value / unit).round() * unit
    } else {
        (value / unit).round() / (1.0 / unit).round()
    }
}

/// The curves on a common scale of time. They end with the calls: what comes after is a backend without load.
pub(crate) fn picture(scenario: &Scenario, cases: &[Case]) -> Picture {
    let mut picture = Picture::of(scenario, cases, MOST_POINTS);
    if scenario.rate().is_some() {
        let length = (scenario.duration.as_millis_f64() / picture.point_ms).ceil() as usize;
        picture.rows.iter_mut().for_each(|row| row.truncate(length));
    }
    picture
}

/// What is wrong when.
pub(crate) fn bands(scenario: &Scenario) -> Vec<Band> {
    let band = |start: Time, duration: Span, label: String| Band {
        from_ms: start.since_zero().as_millis_f64(),
        to_ms: (start + duration).since_zero().as_millis_f64(),
        label,
    };
    let outages = scenario.outages().map(|it| {
        let label = if it.share < 1.0 {
            format!("{:.0} % fail", it.share * 100.0)
        } else {
            "down".to_owned()
        };
        band(it.start, it.duration, label)
    });
    let losses = scenario.capacity_loss.iter().map(|it| {
        band(it.start, it.duration, format!("{:.0} % of the servers lost", it.share * 100.0))
    });
    outages.chain(losses).collect()
}

/// Requests a second that the backend can serve, if it has a limit.
pub(crate) fn capacity(scenario: &Scenario) -> Option<f64> {
    Some(scenario.backend.capacity()).filter(|capacity| capacity.is_finite())
}

/// A policy that has no result.
pub(crate) fn without_result(name: &str, remarks: Vec<Remark>) -> PolicyAnswer {
    PolicyAnswer { name: name.to_owned(), about: String::new(), result: None, toml: None, remarks }
}
