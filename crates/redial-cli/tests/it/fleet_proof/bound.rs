//! Checks the bound of `redial_core::fleet` against the numbers that processes print once a second.
//!
//! Between two lines of an instance its numbers are unknown. So that the bound is not missed because of them,
//! retries count from the first line within a period to the last one, and calls from the last line before it to the
//! first one after it.

use super::instances::Line;

pub(crate) const RATIO: f64 = 0.1;
pub(crate) const FLOOR: f64 = 10.0;
pub(crate) const TTL: f64 = 10.0;
/// The longest time from the charge of a retry to its attempt: the cap of the backoff.
const CAP: f64 = 1.0;

/// The largest ratio of retries to the bound, over all periods between lines.
pub(super) fn worst(lines: &[Vec<Line>], begin: f64) -> f64 {
    let end = lines.iter().flatten().map(|line| line.at).fold(begin, f64::max);
    let seconds = (end - begin).ceil() as usize;
    let at = |second: usize| begin + second as f64;
    let counts: Vec<[u64; 4]> = (0..=seconds).map(|second| counts(lines, at(second))).collect();
    let mut worst: f64 = 0.0;
    for from in 0..seconds {
        // What can be spent was earned in the last ttl, or since the beginning.
        let earned_from = from as f64 - TTL - CAP;
        let calls_from = if earned_from > 0.0 { counts[earned_from as usize][0] } else { 0 };
        for to in from + 1..=seconds {
            let retries = counts[to][2].saturating_sub(counts[from][3]);
            let calls = counts[to][1] - calls_from;
            let most = RATIO * calls as f64 + FLOOR * ((to - from) as f64 + TTL);
            worst = worst.max(retries as f64 / most);
        }
    }
    worst
}

/// Calls until the last line before the time, and until the first line after it; and the same for retries.
fn counts(lines: &[Vec<Line>], at: f64) -> [u64; 4] {
    let mut counts = [0; 4];
    for lines in lines {
        let next = lines.partition_point(|line| line.at <= at);
        let before = if next == 0 { Line::default() } else { lines[next - 1] };
        // After the last line of a killed instance nothing is known.
        let after = lines.get(next).copied().unwrap_or(before);
        for (count, more) in
            counts.iter_mut().zip([before.calls, after.calls, before.retries, after.retries])
        {
            *count += more;
        }
    }
    counts
}

/// The calls and retries of each second from `begin`. The numbers of an instance between two of its lines are
/// spread evenly.
pub(super) fn rates(lines: &[Vec<Line>], begin: f64, seconds: usize) -> Vec<(f64, f64)> {
    let mut rates = vec![(0.0, 0.0); seconds];
    let born = |lines: &[Line]| Line { at: lines[0].at - 1.0, ..Line::default() };
    for lines in lines.iter().filter(|lines| !lines.is_empty()) {
        let all: Vec<Line> = [&[born(lines)], lines.as_slice()].concat();
        for pair in all.windows(2) {
            let (from, to) =
                (pair[0].at - begin, (pair[1].at - begin).max(pair[0].at - begin + 1e-3));
            let (calls, retries) =
                (pair[1].calls - pair[0].calls, pair[1].retries - pair[0].retries);
            for (second, rate) in rates.iter_mut().enumerate() {
                let within = to.min(second as f64 + 1.0) - from.max(second as f64);
                let share = within.max(0.0) / (to - from);
                rate.0 += calls as f64 * share;
                rate.1 += retries as f64 * share;
            }
        }
    }
    rates
}
