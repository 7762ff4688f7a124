use std::cmp::Ordering;
use std::fmt;

use redial_live::Lag;
use redial_sim::measure::{Run, Spread};
use serde::Serialize;

use super::bars::Bars;
use super::python::PACKAGES;

/// The tolerated relative difference between a measured and a simulated figure.
const RATIO_BAR: f64 = 0.1;
/// Or, for shares of the calls, this absolute difference. Policies that differ by no more than this are tied.
pub(super) const SHARE_BAR: f64 = 0.01;
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
    /// The least success of our default.
    pub(super) bar: Option<f64>,
    pub(super) rows: Vec<Row>,
}

/// One policy in one scenario.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) way: &'static str,
    /// The most attempts of a call.
    pub(super) most_attempts: u32,
    /// Real runs that count.
    pub(super) runs: u32,
    /// Refused runs, in addition to these.
    pub(super) refused: u32,
    /// Why the last one was refused.
    pub(super) refusal: Option<String>,
    /// `None` when all were refused.
    pub(super) figures: Option<Figures>,
}

/// Means over the real runs, and over simulated runs with the same seeds.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) real: Means,
    simulated: Means,
    /// By how much the real loss is above the simulated one, and the standard error of that.
    more: f64,
    more_se: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Means {
    pub(super) success: f64,
    /// The failed share of the calls that began from the start of the fault to the end of the run.
    loss: f64,
    loss_se: f64,
    /// Attempts per call.
    pub(super) attempts: f64,
}

impl Means {
    fn of(runs: &[Run]) -> Self {
        let of = |figure: fn(&Run) -> f64| Spread::of(runs.iter().map(figure));
        let loss = of(|run| run.goodput_lost);
        Self {
            success: of(|run| run.success).mean,
            loss: loss.mean,
            loss_se: loss.standard_error,
            attempts: of(|run| run.amplification).mean,
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

impl Figures {
    /// Of runs in pairs.
    pub(super) fn of(real: &[Run], simulated: &[Run]) -> Option<Self> {
        let pairs = real.iter().zip(simulated);
        let more = Spread::of(pairs.map(|(real, it)| real.goodput_lost - it.goodput_lost));
        (!real.is_empty()).then(|| Self {
            real: Means::of(real),
            simulated: Means::of(simulated),
            more: more.mean,
            more_se: more.standard_error,
        })
    }

    /// The figures that differ by more than tolerated.
    fn verdict(&self) -> String {
        let Self { real, simulated, .. } = self;
        let far = |real: f64, simulated: f64| (real - simulated).abs() > RATIO_BAR * simulated;
        let far_share = |real: f64, simulated: f64| {
            far(real, simulated) && (real - simulated).abs() > SHARE_BAR
        };
        let all = [
            (far_share(real.success, simulated.success), "success"),
            (far_share(real.loss, simulated.loss), "loss"),
            (far(real.attempts, simulated.attempts), "attempts"),
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
        let rows = || self.rows.iter().filter_map(|row| Some((row.way, row.figures.as_ref()?)));
        for (index, (way, figures)) in rows().enumerate() {
            for (other_way, other) in rows().skip(index + 1) {
                let real = figures.real.compare(&other.real);
                let simulated = figures.simulated.compare(&other.simulated);
                if real == Ordering::Equal || simulated == Ordering::Equal {
                    pairs.tied += 1;
                } else if real == simulated {
                    pairs.same += 1;
                } else {
                    pairs.reversed.push(format!("{way} and {other_way}"));
                }
            }
        }
        pairs
    }

    /// The policies from the least loss to the greatest; `=` joins neighbours that are tied.
    fn order(&self, of: impl Fn(&Figures) -> &Means) -> String {
        let rows = self.rows.iter();
        let mut rows: Vec<_> =
            rows.filter_map(|row| Some((row.way, of(row.figures.as_ref()?)))).collect();
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
            Lag::TOLERATED.as_millis(),
            PACKAGES.join(", ")
        )
    }
}

impl fmt::Display for CellReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.cell, self.title)?;
        writeln!(f, "{:16}  {:^15}  {:^37}  {:^13}", "", "success", "loss", "attempts/call")?;
        writeln!(
            f,
            "{:16}  {:>7} {:>7}  {:>12} {:>12}  {:>10}  {:>6} {:>6}  runs",
            "policy", "real", "sim", "real", "sim", "difference", "real", "sim"
        )?;
        self.rows.iter().try_for_each(|row| write!(f, "{row}"))?;
        writeln!(f, "real:      {}", self.order(|it| &it.real))?;
        writeln!(f, "simulated: {}", self.order(|it| &it.simulated))?;
        let Pairs { same, tied, reversed } = self.pairs();
        write!(f, "pairs: {same} in the same order, {tied} tied, {} reversed", reversed.len())?;
        if !reversed.is_empty() {
            write!(f, "  RED: {}", reversed.join("; "))?;
        }
        match Bars::of(self) {
            Some(bars) => write!(f, "\n{bars}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:16}", self.way)?;
        let Some(figures) = &self.figures else {
            return writeln!(f, "  no figures: {}", self.refusal.as_deref().unwrap_or_default());
        };
        let Figures { real, simulated, more, more_se } = figures;
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        let loss = |it: &Means| format!("{:.1} ±{:.1}%", it.loss * 100.0, it.loss_se * 100.0);
        write!(f, "  {:>7} {:>7}", percent(real.success), percent(simulated.success))?;
        write!(f, "  {:>12} {:>12}", loss(real), loss(simulated))?;
        write!(f, "  {:>+5.1} ±{:.1}", more * 100.0, more_se * 100.0)?;
        write!(f, "  {:>6.3} {:>6.3}", real.attempts, simulated.attempts)?;
        writeln!(f, "  {:>4}  {}", self.runs, figures.verdict())
    }
}
