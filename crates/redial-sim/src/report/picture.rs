use super::Case;
use crate::Scenario;
use crate::measure::Series;

/// The curves of all policies on one scale: what one policy does shows only beside the others.
///
/// A point is a window. Where there are more windows than points fit, a point is the one of its windows in which
/// the most attempts arrived, because a mean would hide the storm.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The points of each policy, all of them as many.
    pub rows: Vec<Vec<Point>>,
    /// How long a window is.
    pub window_ms: f64,
    /// How long a point is.
    pub point_ms: f64,
    /// The most that any point has of anything, a second.
    pub most: f64,
    /// How many calls a second begin as long as nothing is wrong; `None` when everybody calls at once. First
    /// attempts are left out then, because next to that one window nothing else would be seen.
    pub steady: Option<f64>,
    /// From when to when something is wrong.
    pub fault_ms: Option<(f64, f64)>,
}

/// What happened in a window, as a rate a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
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
    /// All that arrived.
    pub fn attempts(&self) -> f64 {
        self.firsts + self.retries
    }

    fn most(&self) -> f64 {
        self.attempts().max(self.served).max(self.succeeded)
    }
}

impl Picture {
    /// Of these policies, with at most so many points.
    pub fn of(scenario: &Scenario, cases: &[Case], points: usize) -> Self {
        let steady = scenario.rate();
        let window_ms = scenario.window as f64 / 1e6;
        let lasts = scenario.duration.div_ceil(scenario.window) as usize;
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
        let ms = |nanos| nanos as f64 / 1e6;
        Self {
            rows,
            window_ms,
            point_ms: window_ms * group as f64,
            most,
            steady,
            fault_ms: scenario.fault_span().map(|(start, end)| (ms(start), ms(end))),
        }
    }

    /// How long the longest of them is.
    pub fn length_ms(&self) -> f64 {
        self.point_ms * self.rows.first().map_or(0, Vec::len) as f64
    }
}

/// How many windows have something in them.
fn used(series: &Series) -> usize {
    let rows = series.rows();
    let last = rows.iter().filter_map(|(_, row)| row.iter().rposition(|value| *value > 0.0)).max();
    last.map_or(0, |last| last + 1)
}

fn point(series: &Series, at: usize, window_ms: f64, with_firsts: bool) -> Point {
    let of = |row: &[f64]| row.get(at).map_or(0.0, |value| value * 1e3 / window_ms);
    let retries = of(&series.retries);
    let firsts = if with_firsts { of(&series.attempts) - retries } else { 0.0 };
    Point { firsts, retries, served: of(&series.served), succeeded: of(&series.succeeded) }
}

fn busiest(windows: &[Point]) -> Point {
    let most = windows.iter().max_by(|a, b| a.attempts().total_cmp(&b.attempts()));
    most.copied().unwrap_or_default()
}
