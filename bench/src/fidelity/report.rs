use std::fmt;

use redial_live::Lag;
use redial_sim::measure::{Metric, Spread, Summary};
use serde::Serialize;

/// The tolerated relative difference between measured and simulated peak ratio or amplification.
const RATIO_BAR: f64 = 0.1;
/// The tolerated difference in success, as a share of the calls.
const SUCCESS_BAR: f64 = 0.01;

/// Every row of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Requested real runs for each row.
    pub(super) runs: u32,
    pub(super) simulated_runs: u32,
    /// What loopback and timers add to a call, which the simulator uses as its latency.
    pub(super) round_trip_us: u64,
    pub(super) rows: Vec<Row>,
}

/// One way of retrying in one scenario.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) scenario: &'static str,
    pub(super) way: &'static str,
    /// Real runs that count.
    pub(super) runs: u32,
    /// Refused runs, in addition to these.
    pub(super) refused: u32,
    /// Why the last one was refused.
    pub(super) refusal: Option<String>,
    /// `None` when all were refused.
    pub(super) live: Option<Means>,
    pub(super) simulated: Means,
}

/// Means over the runs, with the standard error of each.
#[derive(Debug, Serialize)]
pub(super) struct Means {
    calls: f64,
    amplification: f64,
    amplification_se: f64,
    success: f64,
    success_se: f64,
    peak_ratio: f64,
    peak_ratio_se: f64,
    p50_ms: f64,
    p99_ms: f64,
}

impl Means {
    pub(super) fn of(summary: &Summary) -> Self {
        let of = |metric| summary.value(metric).unwrap_or_default();
        let [amplification, success, peak_ratio]: [Spread; 3] =
            [Metric::Amplification, Metric::Success, Metric::PeakRatio].map(of);
        Self {
            calls: summary.mean(Metric::Calls),
            amplification: amplification.mean,
            amplification_se: amplification.standard_error,
            success: success.mean,
            success_se: success.standard_error,
            peak_ratio: peak_ratio.mean,
            peak_ratio_se: peak_ratio.standard_error,
            p50_ms: summary.mean(Metric::P50Ms),
            p99_ms: summary.mean(Metric::P99Ms),
        }
    }
}

impl Row {
    /// The figures that differ from the simulation by more than tolerated.
    fn differs(&self, live: &Means) -> Vec<&'static str> {
        let simulated = &self.simulated;
        let far = |live: f64, simulated: f64| (live / simulated - 1.0).abs() > RATIO_BAR;
        let success = (live.success - simulated.success).abs() > SUCCESS_BAR;
        let all = [
            (far(live.peak_ratio, simulated.peak_ratio), "peak"),
            (far(live.amplification, simulated.amplification), "amplification"),
            (success, "success"),
        ];
        all.into_iter().filter_map(|(differs, name)| differs.then_some(name)).collect()
    }

    fn verdict(&self) -> String {
        match &self.live {
            None => "no figures".to_owned(),
            Some(live) => match self.differs(live).as_slice() {
                [] => "agrees".to_owned(),
                differs => format!("RED: {}", differs.join(", ")),
            },
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:40}  {:^13}  {:^13}  {:^15}  {:^11}",
            "", "peak ratio", "amplification", "success", "p99 ms"
        )?;
        writeln!(
            f,
            "{:8}  {:30}  {:>6} {:>6}  {:>6} {:>6}  {:>7} {:>7}  {:>5} {:>5}  runs",
            "scenario", "way", "real", "sim", "real", "sim", "real", "sim", "real", "sim"
        )?;
        self.rows.iter().try_for_each(|row| write!(f, "{row}"))?;
        let refused: u32 = self.rows.iter().map(|row| row.refused).sum();
        write!(
            f,
            "
Means of {} real runs of 4 s on loopback and of {} simulated ones of the same file (bench/scenarios), to which only
the time that loopback and timers add to a call was added: {} µs. Callers wait with tokio's timer, which rounds up to a
millisecond; the shortest waits here are 100 ms, or drawn from below that. Agrees: peak ratio and amplification
within {:.0}%, success within {:.0} point. {refused} runs were refused and repeated: 1% of the wake-ups of one second
more than {} ms late, or an attempt without a connection.
The simulator runs policies of ours. backon's and tower's waits are the same in them; tower's budget counts in ten
steps where ours slides, and its jitter is the same for all calls of an instance, where ours is drawn for each.
",
            self.runs,
            self.simulated_runs,
            self.round_trip_us,
            RATIO_BAR * 100.0,
            SUCCESS_BAR * 100.0,
            Lag::TOLERATED.as_millis()
        )
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, way, simulated, .. } = self;
        write!(f, "{scenario:8}  {way:30}")?;
        let real = |of: fn(&Means) -> f64| self.live.as_ref().map_or(f64::NAN, of);
        write!(f, "  {:>6.2} {:>6.2}", real(|it| it.peak_ratio), simulated.peak_ratio)?;
        write!(f, "  {:>6.3} {:>6.3}", real(|it| it.amplification), simulated.amplification)?;
        let percent = |share: f64| share * 100.0;
        let success = percent(real(|it| it.success));
        write!(f, "  {success:>6.2}% {:>6.2}%", percent(simulated.success))?;
        write!(f, "  {:>5.0} {:>5.0}", real(|it| it.p99_ms), simulated.p99_ms)?;
        writeln!(f, "  {:>4}  {}", self.runs, self.verdict())
    }
}
