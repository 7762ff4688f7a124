use std::cmp::Ordering;
use std::fmt;

use redial_live::Lag;
use redial_sim::measure::Summary;
use serde::Serialize;

use super::python::PACKAGES;

/// The tolerated relative difference between a measured and a simulated figure.
const RATIO_BAR: f64 = 0.1;
/// Or, for shares of the calls, this absolute difference. Policies that differ by no more than this are tied.
const SHARE_BAR: f64 = 0.01;
/// Policies that differ by no more than this many standard errors of the difference are tied, too.
const TIED: f64 = 2.0;

/// Every cell.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Requested real runs for each row.
    pub(super) runs: u32,
    /// What loopback and timers add to a call, which the simulator uses as its latency.
    pub(super) round_trip_us: u64,
    pub(super) cells: Vec<CellReport>,
}

/// All policies in one scenario.
#[derive(Debug, Serialize)]
pub(super) struct CellReport {
    pub(super) cell: &'static str,
    pub(super) title: String,
    pub(super) rows: Vec<Row>,
}

/// One policy in one scenario.
#[derive(Debug, Serialize)]
pub(super) struct Row {
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

/// Means over the runs.
#[derive(Debug, Serialize)]
pub(super) struct Means {
    success: f64,
    /// The failed share of the calls that began from the start of the fault to the end of the run.
    loss: f64,
    loss_se: f64,
    /// Attempts per call.
    attempts: f64,
}

impl Means {
    pub(super) fn of(summary: &Summary) -> Self {
        let loss = summary.value("goodput_lost").unwrap_or_default();
        Self {
            success: summary.mean("success"),
            loss: loss.mean,
            loss_se: loss.standard_error,
            attempts: summary.mean("amplification"),
        }
    }

    /// By the loss; ties are equal.
    fn compare(&self, other: &Self) -> Ordering {
        let noise = TIED * self.loss_se.hypot(other.loss_se);
        if (self.loss - other.loss).abs() <= noise.max(SHARE_BAR) {
            return Ordering::Equal;
        }
        self.loss.total_cmp(&other.loss)
    }
}

impl Row {
    fn verdict(&self) -> String {
        let Some(live) = &self.live else { return "no figures".to_owned() };
        let simulated = &self.simulated;
        let far = |live: f64, simulated: f64| (live - simulated).abs() > RATIO_BAR * simulated;
        let far_share = |live: f64, simulated: f64| {
            far(live, simulated) && (live - simulated).abs() > SHARE_BAR
        };
        let all = [
            (far_share(live.success, simulated.success), "success"),
            (far_share(live.loss, simulated.loss), "loss"),
            (far(live.attempts, simulated.attempts), "attempts"),
        ];
        let red: Vec<_> = all.into_iter().filter_map(|(far, name)| far.then_some(name)).collect();
        if red.is_empty() { "agrees".to_owned() } else { format!("RED: {}", red.join(", ")) }
    }
}

/// How the two orders of the policies compare.
#[derive(Debug, Default)]
struct Pairs {
    same: u32,
    /// Tied in one or both of them.
    tied: u32,
    reversed: Vec<String>,
}

impl CellReport {
    fn pairs(&self) -> Pairs {
        let mut pairs = Pairs::default();
        let rows = || self.rows.iter().filter_map(|row| Some((row, row.live.as_ref()?)));
        for (index, (row, live)) in rows().enumerate() {
            for (other, other_live) in rows().skip(index + 1) {
                let real = live.compare(other_live);
                match row.simulated.compare(&other.simulated) {
                    Ordering::Equal => pairs.tied += 1,
                    _ if real == Ordering::Equal => pairs.tied += 1,
                    simulated if simulated == real => pairs.same += 1,
                    _ => pairs.reversed.push(format!("{} and {}", row.way, other.way)),
                }
            }
        }
        pairs
    }

    /// The policies from the least loss to the greatest; `=` joins neighbours that are tied.
    fn order(&self, of: impl Fn(&Row) -> Option<&Means>) -> String {
        let mut rows: Vec<_> =
            self.rows.iter().filter_map(|row| Some((row.way, of(row)?))).collect();
        rows.sort_by(|(_, a), (_, b)| a.loss.total_cmp(&b.loss));
        let mut text = String::new();
        for (index, (way, means)) in rows.iter().enumerate() {
            if let Some((_, before)) = index.checked_sub(1).and_then(|before| rows.get(before)) {
                let tied = before.compare(means) == Ordering::Equal;
                text.push_str(if tied { " = " } else { " < " });
            }
            text.push_str(way);
        }
        text
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cells.iter().try_for_each(|cell| write!(f, "{cell}\n\n"))?;
        let refused: u32 =
            self.cells.iter().flat_map(|cell| &cell.rows).map(|row| row.refused).sum();
        writeln!(
            f,
            "Means of {} real runs on loopback and of as many simulated ones of the same calls (bench/scenarios), ± \
             standard errors; the latency\nof the simulation is that of loopback, {} µs. Loss: failed calls of those that began \
             from the start of the fault to the end of the\nrun. Agrees: within {:.0}%, or {:.0} point of a share. Tied: \
             within {:.0} point or {TIED} standard errors. {refused} runs were refused and repeated:\n1% of the wake-ups \
             of one second more than {} ms late, or an attempt without a connection.\n{}",
            self.runs,
            self.round_trip_us,
            RATIO_BAR * 100.0,
            SHARE_BAR * 100.0,
            SHARE_BAR * 100.0,
            Lag::BOUND / 1_000_000,
            PACKAGES.join(", ")
        )
    }
}

impl fmt::Display for CellReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.cell, self.title)?;
        writeln!(f, "{:16}  {:^15}  {:^25}  {:^13}", "", "success", "loss", "attempts/call")?;
        writeln!(
            f,
            "{:16}  {:>7} {:>7}  {:>12} {:>12}  {:>6} {:>6}  runs",
            "policy", "real", "sim", "real", "sim", "real", "sim"
        )?;
        self.rows.iter().try_for_each(|row| write!(f, "{row}"))?;
        writeln!(f, "real:      {}", self.order(|row| row.live.as_ref()))?;
        writeln!(f, "simulated: {}", self.order(|row| Some(&row.simulated)))?;
        let Pairs { same, tied, reversed } = self.pairs();
        write!(f, "pairs: {same} in the same order, {tied} tied, {} reversed", reversed.len())?;
        if reversed.is_empty() { Ok(()) } else { write!(f, "  RED: {}", reversed.join("; ")) }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let real = |of: fn(&Means) -> f64| self.live.as_ref().map_or(f64::NAN, of);
        let simulated = &self.simulated;
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        let with_error =
            |share: f64, error: f64| format!("{:.1} ±{:.1}%", share * 100.0, error * 100.0);
        write!(f, "{:16}", self.way)?;
        write!(f, "  {:>7} {:>7}", percent(real(|it| it.success)), percent(simulated.success))?;
        write!(f, "  {:>12}", with_error(real(|it| it.loss), real(|it| it.loss_se)))?;
        write!(f, " {:>12}", with_error(simulated.loss, simulated.loss_se))?;
        write!(f, "  {:>6.3} {:>6.3}", real(|it| it.attempts), simulated.attempts)?;
        writeln!(f, "  {:>4}  {}", self.runs, self.verdict())
    }
}
