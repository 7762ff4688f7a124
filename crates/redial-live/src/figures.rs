use std::{error, fmt};

use redial_core::Nanos;

use crate::lag::Late;
use crate::record::{Bucket, Ended, Log};
use crate::setting::{Setting, Window};

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;
/// What a peak is counted over, in buckets of a millisecond.
const PEAK_MS: usize = 100;
/// When nothing has gone wrong for so long, it is over.
const CALM: Nanos = SECOND;

/// What a run comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Calls that began.
    pub calls: u64,
    /// Attempts that arrived.
    pub attempts: u64,
    /// Attempts per call.
    pub amplification: f64,
    /// The share of the calls that are over that succeeded.
    pub success: f64,
    /// Calls that were cut off by the end of the run.
    pub unfinished: u64,
    /// Attempts that arrived in the busiest 100 ms, relative to the calls that 100 ms bring when nothing is wrong.
    pub peak_ratio: f64,
    /// From the end of the trouble until nobody was turned away and no call failed any more; `None` when that did
    /// not come, or not a second before the end.
    pub recover: Option<Nanos>,
    /// Half of the calls that are over took at most so long.
    pub p50: Nanos,
    /// And 99 of 100.
    pub p99: Nanos,
}

/// Why there are no figures: the generator was the limit, so they would be its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It woke too late.
    Late(Late),
    /// So many attempts got no answer for want of a connection.
    Broken(u32),
}

impl Figures {
    pub(crate) fn of(setting: &Setting, log: &Log) -> Self {
        let buckets = log.buckets(MS);
        let (calls, attempts) = (log.begun.len(), log.attempts.len());
        let succeeded = log.ended.iter().filter(|ended| ended.succeeded).count();
        let mut took: Vec<Nanos> = log.ended.iter().map(Ended::took).collect();
        took.sort_unstable();
        Self {
            calls: calls as u64,
            attempts: attempts as u64,
            amplification: ratio(attempts as f64, calls as f64),
            success: ratio(succeeded as f64, log.ended.len() as f64),
            unfinished: (calls - log.ended.len()) as u64,
            peak_ratio: ratio(peak(&buckets), calm_rate(setting, log) * PEAK_MS as f64),
            recover: recover(setting, log),
            p50: percentile(&took, 50),
            p99: percentile(&took, 99),
        }
    }
}

fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

/// Attempts in the busiest window, whichever millisecond it begins with.
fn peak(buckets: &[Bucket]) -> f64 {
    let counts: Vec<u32> = buckets.iter().map(|bucket| bucket.firsts + bucket.retries).collect();
    let windows = counts.windows(PEAK_MS.min(counts.len().max(1)));
    f64::from(windows.map(|window| window.iter().sum::<u32>()).max().unwrap_or(0))
}

/// Calls per millisecond before anything went wrong; over the whole run when it went wrong from the start.
fn calm_rate(setting: &Setting, log: &Log) -> f64 {
    let trouble = setting.trouble().map_or(0, |trouble| trouble.start);
    let last = log.begun.last().copied().unwrap_or(0);
    let until = if trouble == 0 { last } else { trouble.min(last) };
    let calls = log.begun.iter().filter(|begun| **begun <= until).count();
    ratio(calls as f64, until as f64 / MS as f64)
}

fn recover(setting: &Setting, log: &Log) -> Option<Nanos> {
    let end = setting.trouble().map_or(0, Window::end);
    let over = log.attempts.last().map_or(0, |arrived| arrived.at);
    let failed = log.ended.iter().filter(|ended| !ended.succeeded).map(|ended| ended.at);
    let last = failed.chain(log.refused.last().copied()).max().unwrap_or(0).max(end);
    (last.saturating_add(CALM) <= over).then(|| last - end)
}

fn percentile(sorted: &[Nanos], percent: usize) -> Nanos {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the generator was the limit: ")?;
        match self {
            Self::Late(late) => write!(f, "{late}"),
            Self::Broken(count) => write!(f, "{count} attempts found no connection"),
        }
    }
}

impl error::Error for Refusal {}
