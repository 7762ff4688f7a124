//! Is our default among the best, in real traffic?

use std::fmt;

use super::OURS;
use super::report::{CellReport, Means, SHARE_BAR};

/// Libraries that succeed for nearly as many calls as the best one are compared by their load.
const NEARLY: f64 = 2.0 * SHARE_BAR;

/// Our default in one cell, beside the libraries that make as many attempts.
pub(super) struct Bars<'a> {
    ours: &'a Means,
    /// The least success, if there is a bar.
    least: Option<f64>,
    /// The library with the highest success.
    best: (&'static str, &'a Means),
    /// The one with the fewest attempts per call among those that succeed for nearly as many calls.
    lightest: (&'static str, &'a Means),
}

impl<'a> Bars<'a> {
    /// `None` without figures.
    pub(super) fn of(cell: &'a CellReport) -> Option<Self> {
        let ours = cell.rows.iter().find(|row| row.way == OURS)?;
        let peers = || {
            let peers = cell.rows.iter().filter(|row| row.way != OURS);
            let peers = peers.filter(|row| row.most_attempts == ours.most_attempts);
            peers.filter_map(|row| Some((row.way, &row.figures.as_ref()?.real)))
        };
        let best = peers().max_by(|(_, a), (_, b)| a.success.total_cmp(&b.success))?;
        let near = peers().filter(|(_, it)| it.success >= best.1.success - NEARLY);
        let lightest = near.min_by(|(_, a), (_, b)| a.attempts.total_cmp(&b.attempts))?;
        Some(Self { ours: &ours.figures.as_ref()?.real, least: cell.bar, best, lightest })
    }
}

impl fmt::Display for Bars<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.2}%", share * 100.0);
        let red = |is_missed: bool| if is_missed { "  RED" } else { "" };
        let Self { ours, least, best: (best, most), lightest: (lightest, light) } = self;
        write!(f, "{OURS}: {}, ", percent(ours.success))?;
        write!(f, "and {best}, the best with as many attempts, {}", percent(most.success))?;
        writeln!(f, "{}", red(ours.success < most.success - SHARE_BAR))?;
        if let Some(least) = *least {
            writeln!(f, "at least {}{}", percent(least), red(ours.success < least))?;
        }
        write!(f, "{:.3} attempts per call, and {lightest} {:.3}", ours.attempts, light.attempts)?;
        write!(f, "{}", red(ours.attempts > light.attempts + SHARE_BAR))
    }
}
