use redial_core::Time;

use super::Case;
use crate::Scenario;
use crate::measure::Series;

/// The curves of all policies on a common scale.
///
/// A point is a window. If there are more windows than points, a point is the window with the most attempts among
/// several, because a mean would hide the storm.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The points of each policy, the same number for all.
    pub rows: Vec<Vec<Point>>,
    /// The length of a window.
    pub window_ms: f64,
    /// The length of a point.
    pub point_ms: f64,
    /// The highest rate of any point, per second.
    pub most: f64,
    /// Calls that begin in a second without faults; `None` when all callers begin at once. First attempts are left
    /// out then, because that one window would dwarf everything else.
    pub steady: Option<f64>,
    /// From the start of the first fault to the end of the last.
    pub fault_ms: Option<(f64, f64)>,
}

/// A window, as rates per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Calls that began.
    pub calls: f64,
    /// First attempts that arrived.
    pub firsts: f64,
    /// Retries that arrived.
    pub retries: f64,
    /// Attempts that were served.
    pub served: f64,
    /// Calls that succeeded.
    pub succeeded: f64,
}

impl Point {
    /// First attempts and retries.
    pub fn attempts(&self) -> f64 {
        self.firsts + self.retries
    }

    fn most(&self) -> f64 {
        self.attempts().max(self.served).max(self.succeeded)
    }
}

impl Picture {
    /// Of these policies, with at most `points` points.
    pub fn of(scenario: &Scenario, cases: &[Case], points: usize) -> Self {
        let steady = scenario.rate();
        let window_ms = scenario.window.as_millis_f64();
        let lasts = (scenario.duration.round_up(scenario.window) / scenario.window) as usize;
        let used = cases.iter().map(|case| used(&case.summary.series)).max().unwrap_or(0);
        let windows = lasts.max(used).max(1);
        let group = windows.div_ceil(points.max(1));
        let rows: Vec<Vec<Point>> = cases
            .iter()
            .map(|case| {
                let all = (0..windows)
                    .map(|at| point(&case.summary.series, at, window_ms, steady.is_some()));
                let all: Vec<Point> = all.collect();
                all.chunks(group).map(busiest).collect()
            })
            .collect();
        let most = rows.iter().flatten().map(Point::most).fold(steady.unwrap_or(0.0), f64::max);
        let ms = |at: Time| at.since_zero().as_millis_f64();
        Self {
            rows,
            window_ms,
            point_ms: window_ms * group as f64,
            most,
            steady,
            fault_ms: scenario.fault_span().map(|(start, end)| (ms(start), ms(end))),
        }
    }

    /// The length of the curves.
    pub fn length_ms(&self) -> f64 {
        self.point_ms * self.rows.first().map_or(0, Vec::len) as f64
    }
}

/// How many windows are not empty.
fn used(series: &Series) -> usize {
    let rows = series.rows();
    let last = rows.iter().filter_map(|(_, row)| row.iter().rposition(|value| *value > 0.0)).max();
    last.map_or(0, |last| last + 1)
}

fn point(series: &Series, at: usize, window_ms: f64, with_firsts: bool) -> Point {
    let of = |row: &[f64]| row.get(at).map_or(0.0, |value| value * 1e3 / window_ms);
    let retries = of(&series.retries);
    let firsts = if with_firsts { of(&series.attempts) - retries } else { 0.0 };
    let calls = if with_firsts { of(&series.calls) } else { 0.0 };
    Point { calls, firsts, retries, served: of(&series.served), succeeded: of(&series.succeeded) }
}

fn busiest(windows: &[Point]) -> Point {
    let most = windows.iter().max_by(|a, b| a.attempts().total_cmp(&b.attempts()));
    most.copied().unwrap_or_default()
}
