//! A simulator is believed when it says what happens in fact. Two thousand callers with the real runners, over TCP,
//! against a server with a real capacity: a blip, in which it is down for 200 ms, and a brownout, in which it fails three
//! requests in ten. Peers take part as they are.

mod peers;

use std::fmt;

use redial::admit::budget::Budget;
use redial::{Policy, Preset};
use redial_live::{
    Brownout, Error, Figures, Lag, Live, Load, Naive, Once, Redial, Refusal, Setting, Time, Window,
    run,
};
use serde::Serialize;

use peers::{Backon, Tower};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A name, and what runs under it.
type Way = (&'static str, fn(Setting) -> Result<Live, Error>);

const WAYS: [Way; 7] = [
    ("no retry", |setting| run(setting, |_| Once)),
    ("naive: 100 ms, 10 attempts", |setting| run(setting, |_| Naive::SEED)),
    ("redial standard", |setting| run(setting, |_| Redial::new(Policy::standard()))),
    ("redial without a budget", |setting| run(setting, |_| Redial::new(unbudgeted()))),
    ("backon, its defaults", |setting| run(setting, |_| Backon::by_default())),
    ("backon, like ours", |setting| run(setting, |_| Backon::like_ours())),
    ("tower, its budget and backoff", |setting| run(setting, |_| Tower::standard())),
];

/// Every row of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    runs: u32,
    rows: Vec<Row>,
}

/// One way of retrying in one scenario.
#[derive(Debug, Serialize)]
struct Row {
    scenario: &'static str,
    way: &'static str,
    /// Runs whose figures were refused, on top of those that count.
    refused: u32,
    /// `None` when too many were.
    live: Option<Means>,
    /// Why the last one was.
    refusal: Option<String>,
}

/// Means over the runs.
#[derive(Debug, Serialize)]
struct Means {
    calls: f64,
    amplification: f64,
    success: f64,
    peak_ratio: f64,
    p50_ms: f64,
    p99_ms: f64,
}

pub(crate) fn measure(runs: u32) -> Result<Report, String> {
    let mut rows = Vec::new();
    for (scenario, setting) in [("blip", blip()), ("brownout", brownout())] {
        for way in WAYS {
            rows.push(row(scenario, &setting, way, runs).map_err(|error| error.to_string())?);
        }
    }
    Ok(Report { runs, rows })
}

/// A load of 0.8, with nothing wrong.
fn calm() -> Setting {
    Setting {
        load: Load::Closed { callers: 2_000, think: Time::Exponential(1_990 * MS) },
        instances: 20,
        servers: 10,
        service: Time::Constant(8 * MS),
        queue: 500,
        duration: 5 * SECOND,
        // The longest that anybody here takes over a call.
        drain: 10 * SECOND,
        ..Setting::default()
    }
}

fn blip() -> Setting {
    Setting { outage: Some(Window { start: 2 * SECOND, duration: 200 * MS }), ..calm() }
}

fn brownout() -> Setting {
    let window = Window { start: SECOND, duration: 4 * SECOND };
    Setting { brownout: Some(Brownout { window, share: 0.3 }), ..calm() }
}

fn unbudgeted() -> Policy {
    let draft = Preset::Standard.draft().budget(Budget::None);
    draft.build().expect("the preset is valid without its budget")
}

/// As many runs as are asked for, with as many again to make up for those that are refused.
fn row(scenario: &'static str, setting: &Setting, way: Way, runs: u32) -> Result<Row, Error> {
    let (name, live) = way;
    let mut figures = Vec::new();
    let mut last: Option<Refusal> = None;
    let mut refused = 0;
    for seed in 1..=2 * u64::from(runs) {
        if figures.len() == runs as usize {
            break;
        }
        match live(Setting { seed, ..setting.clone() })?.figures() {
            Ok(got) => figures.push(got),
            Err(refusal) => {
                last = Some(refusal);
                refused += 1;
            }
        }
    }
    let enough = figures.len() == runs as usize;
    let refusal = last.map(|refusal| refusal.to_string());
    Ok(Row { scenario, way: name, refused, live: enough.then(|| Means::of(&figures)), refusal })
}

impl Means {
    fn of(figures: &[Figures]) -> Self {
        let mean = |of: fn(&Figures) -> f64| {
            figures.iter().map(of).sum::<f64>() / figures.len().max(1) as f64
        };
        Self {
            calls: mean(|figures| figures.calls as f64),
            amplification: mean(|figures| figures.amplification),
            success: mean(|figures| figures.success),
            peak_ratio: mean(|figures| figures.peak_ratio),
            p50_ms: mean(|figures| figures.p50 as f64 / MS as f64),
            p99_ms: mean(|figures| figures.p99 as f64 / MS as f64),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "scenario  way                             calls  amplification  success  peak ratio  p50 ms  p99 ms"
        )?;
        for Row { scenario, way, live, refusal, .. } in &self.rows {
            write!(f, "{scenario:8}  {way:30}")?;
            match live {
                Some(Means { calls, amplification, success, peak_ratio, p50_ms, p99_ms }) => {
                    let success = success * 100.0;
                    writeln!(
                        f,
                        "  {calls:5.0}  {amplification:13.3}  {success:6.2}%  {peak_ratio:10.2}  {p50_ms:6.1}  {p99_ms:6.0}"
                    )?;
                }
                None => writeln!(f, "  {}", refusal.as_deref().unwrap_or("no runs"))?,
            }
        }
        let refused: u32 = self.rows.iter().map(|row| row.refused).sum();
        writeln!(
            f,
            "Means of {} runs of 5 s on loopback; a load of 0.8. Blip: everybody gets a 503 for 200 ms. Brownout: 30%",
            self.runs
        )?;
        writeln!(
            f,
            "do, for 4 s. Peak ratio: arrivals in the busiest 100 ms, relative to those before. Refused runs: {refused}"
        )?;
        writeln!(
            f,
            "(1% of the wake-ups of one second more than {} ms late, or an attempt without a connection).",
            Lag::BOUND / MS
        )
    }
}
