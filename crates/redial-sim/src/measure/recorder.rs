use hdrhistogram::Histogram;
use redial_core::Nanos;

use super::{Run, Series};
use crate::Scenario;

/// A window slides by a fiftieth of its length.
pub(crate) const STEPS: u64 = 50;
/// Success is evaluated over stretches in which about this many calls begin, and that are at least this long.
const CALLS_PER_STRETCH: f64 = 50.0;
const SHORTEST_STRETCH: Nanos = 100_000_000;
/// The share of the earlier success from which on calls count as recovered.
const RECOVERED: f64 = 0.95;
/// A stretch may be worse than usual by this many standard deviations.
const NOISE: f64 = 3.0;
/// A run has collapsed when at most this share of the earlier success is left at its end.
const COLLAPSED: f64 = 0.5;

/// Records the events of a run. Times must not decrease, except between attempts by less than a window. `n` equal
/// events are recorded with one call.
#[derive(Debug)]
pub struct Recorder {
    clock: Clock,
    steps: Vec<Step>,
    /// Calls by when they began.
    stretch: Nanos,
    stretches_per_nano: f64,
    began: Vec<Began>,
    latency: Histogram<u64>,
    calls: u64,
    attempts: u64,
    succeeded: u64,
    failed: u64,
    duplicates: u64,
    /// The number of waits before retries, their sum and the sum of their squares, in milliseconds.
    waits: (f64, f64, f64),
    waiting: u64,
    waiting_max: u64,
    retried: Option<(Nanos, Nanos)>,
    last_end: Nanos,
    window: Nanos,
    duration: Nanos,
    rate: Option<f64>,
    /// Callers that begin at once, and how many of their first attempts have not arrived.
    callers: u64,
    to_open: u64,
    faults: Option<(Nanos, Nanos)>,
}

/// The calls that began in a stretch.
#[derive(Clone, Copy, Debug, Default)]
struct Began {
    calls: u64,
    succeeded: u64,
    /// Calls that ended before the last call began, and how many of them succeeded. Later ones come from a backend
    /// without load, and do not show whether it has recovered.
    over: u64,
    good: u64,
}

impl Began {
    /// Whether fewer calls succeeded than this share of them explains.
    fn is_bad(&self, usual: f64) -> bool {
        let over = self.over as f64;
        let noise = NOISE * (over * usual * (1.0 - usual)).sqrt();
        (self.good as f64) < RECOVERED * usual * over - noise
    }
}

/// The events in a fiftieth of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    calls: u64,
    firsts: u64,
    /// First attempts of callers that begin at once.
    opening: u64,
    retries: u64,
    served: u64,
    succeeded: u64,
    failed: u64,
}

/// Maps times to steps. Consecutive times are nearly always in the same step, and then nothing is divided.
#[derive(Debug)]
struct Clock {
    length: Nanos,
    from: Nanos,
    index: usize,
}

impl Clock {
    #[inline]
    fn index(&mut self, now: Nanos) -> usize {
        if now.wrapping_sub(self.from) >= self.length {
            self.set(now);
        }
        self.index
    }

    #[cold]
    fn set(&mut self, now: Nanos) {
        self.index = (now / self.length) as usize;
        self.from = self.index as Nanos * self.length;
    }
}

impl Recorder {
    /// For a run of this scenario.
    pub fn new(scenario: &Scenario) -> Self {
        let rate = scenario.rate();
        let at_once = scenario.clients.arrivals.callers().filter(|_| rate.is_none());
        let callers = at_once.map_or(0, u64::from);
        let length = (scenario.window / STEPS).max(1);
        let calls = rate.map_or(0.0, |rate| CALLS_PER_STRETCH * 1e9 / rate) as Nanos;
        let stretch = calls.max(SHORTEST_STRETCH).min(scenario.duration);
        Self {
            clock: Clock { length, from: 0, index: 0 },
            steps: vec![Step::default(); (scenario.duration / length) as usize + 1],
            stretch,
            stretches_per_nano: 1.0 / stretch as f64,
            began: Vec::new(),
            // Three digits of any value from a microsecond to three weeks; it grows as needed.
            latency: Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are allowed")),
            calls: 0,
            attempts: 0,
            succeeded: 0,
            failed: 0,
            duplicates: 0,
            waits: (0.0, 0.0, 0.0),
            waiting: 0,
            waiting_max: 0,
            retried: None,
            last_end: 0,
            window: scenario.window,
            duration: scenario.duration,
            rate,
            callers,
            to_open: callers,
            faults: scenario.fault_span(),
        }
    }

    #[inline(always)]
    fn step(&mut self, now: Nanos) -> &mut Step {
        let index = self.clock.index(now);
        if index >= self.steps.len() {
            self.lengthen(index);
        }
        &mut self.steps[index]
    }

    #[cold]
    fn lengthen(&mut self, index: usize) {
        self.steps.resize(index + index / 8 + 1, Step::default());
    }

    #[inline]
    fn stretch(&mut self, started: Nanos) -> &mut Began {
        let index = (started as f64 * self.stretches_per_nano) as usize;
        if index >= self.began.len() {
            self.began.resize(index + 1, Began::default());
        }
        &mut self.began[index]
    }

    /// Calls began.
    #[inline]
    pub fn calls(&mut self, now: Nanos, n: u64) {
        self.calls += n;
        self.step(now).calls += n;
        self.stretch(now).calls += n;
    }

    /// Attempts with this number arrived at the backend.
    #[inline]
    pub fn attempts(&mut self, now: Nanos, number: u32, n: u64) {
        self.attempts += n;
        if number == 1 {
            let opening = n.min(self.to_open);
            self.to_open -= opening;
            let step = self.step(now);
            step.firsts += n;
            step.opening += opening;
        } else {
            self.step(now).retries += n;
            let (_, last) = self.retried.get_or_insert((now, now));
            *last = now.max(*last);
        }
    }

    /// The backend has served attempts, with or without a waiting caller.
    #[inline]
    pub fn served(&mut self, now: Nanos, n: u64) {
        self.step(now).served += n;
    }

    /// Calls are over.
    #[inline]
    pub fn ended(&mut self, started: Nanos, now: Nanos, succeeded: bool, n: u64) {
        self.last_end = self.last_end.max(now);
        let good = if succeeded { n } else { 0 };
        let in_time = now < self.duration;
        let began = self.stretch(started);
        began.succeeded += good;
        if in_time {
            began.over += n;
            began.good += good;
        }
        if succeeded {
            self.succeeded += n;
            self.step(now).succeeded += n;
            // In microseconds. A histogram that may grow accepts any value.
            let _ = self.latency.record_n((now - started) / 1_000, n);
        } else {
            self.failed += n;
            self.step(now).failed += n;
        }
    }

    /// Calls start to wait this long for a retry.
    #[inline]
    pub fn waits(&mut self, delay: Nanos, n: u64) {
        let (delay, count) = (delay as f64 / 1e6, n as f64);
        self.waits.0 += count;
        self.waits.1 += delay * count;
        self.waits.2 += delay * delay * count;
        self.waiting += n;
        self.waiting_max = self.waiting_max.max(self.waiting);
    }

    /// Calls stop waiting, with or without a retry.
    #[inline]
    pub fn woke(&mut self, n: u64) {
        self.waiting -= n;
    }

    /// Work that must not be done twice was repeated.
    pub fn duplicates(&mut self, n: u64) {
        self.duplicates += n;
    }

    /// How many calls are over.
    pub(crate) fn over(&self) -> u64 {
        self.succeeded + self.failed
    }

    /// How many calls began.
    pub fn count(&self) -> u64 {
        self.calls
    }

    /// Computes the figures. `amplification` replaces that of the attempts.
    pub fn finish(mut self, amplification: Option<f64>, events: u64) -> Run {
        let used = self.steps.iter().rposition(|step| step.total() > 0).map_or(0, |last| last + 1);
        self.steps.truncate(used);
        let calls = self.calls.max(1) as f64;
        // With few calls a second, a window holds one or none.
        let usual = self.rate.map_or(self.callers as f64, |rate| rate * self.window as f64 / 1e9);
        let usual = usual.max(1.0);
        let (recover_ms, collapsed) = self.recovery();
        let percentile = |share: f64| self.latency.value_at_quantile(share) as f64 / 1e3;
        let (count, sum, squares) = self.waits;
        let variance = (squares - sum * sum / count.max(1.0)) / (count - 1.0).max(1.0);
        Run {
            calls: self.calls,
            attempts: self.attempts,
            amplification: amplification.unwrap_or(self.attempts as f64 / calls),
            success: self.succeeded as f64 / calls,
            peak_ratio: self.peak(|step| step.firsts - step.opening + step.retries) / usual,
            served_peak_ratio: self.peak(|step| step.served) / usual,
            recover_ms,
            goodput_lost: self.lost(),
            p50_ms: percentile(0.5),
            p99_ms: percentile(0.99),
            duplicates: self.duplicates,
            collapsed,
            completion_ms: self.last_end as f64 / 1e6,
            delay_sd_ms: variance.max(0.0).sqrt(),
            waiting_max: self.waiting_max,
            healthy_lost: None,
            retries: self.steps.iter().map(|step| step.retries).sum(),
            smear_ms: self.retried.map_or(0.0, |(first, last)| (last - first) as f64 / 1e6),
            series: self.series(),
            events,
        }
    }

    /// The maximum over all windows.
    fn peak(&self, of: impl Fn(&Step) -> u64) -> f64 {
        let (mut sum, mut most) = (0, 0);
        for (index, step) in self.steps.iter().enumerate() {
            sum += of(step);
            if let Some(left) = index.checked_sub(STEPS as usize) {
                sum -= of(&self.steps[left]);
            }
            most = most.max(sum);
        }
        most as f64
    }

    /// How long the recovery took, and whether the run collapsed.
    fn recovery(&self) -> (Option<f64>, bool) {
        let Some((start, end)) = self.faults else { return (None, false) };
        if self.rate.is_none() || end >= self.duration {
            return (None, false);
        }
        let first = (start / self.stretch) as usize;
        let known = self.began.iter().rposition(|it| it.over > 0).map_or(0, |last| last + 1);
        let began = &self.began[..known];
        let after = end.div_ceil(self.stretch) as usize;
        if known <= after && self.duration - end > self.duration / 10 {
            return (None, true);
        }
        let usual = share_of(&began[..first.min(known)]).unwrap_or(1.0);
        let bad = began.iter().rposition(|it| it.is_bad(usual));
        let Some(last) = bad.filter(|last| *last >= first) else { return (Some(0.0), false) };
        let tail = &began[after.max(known - known.div_ceil(10)).min(known)..];
        let collapsed = share_of(tail).is_some_and(|share| share <= COLLAPSED * usual);
        let again = (last as Nanos + 1) * self.stretch;
        // One good stretch at the end is not a recovery.
        let recovered = known - last > (known - after.min(known)).div_ceil(10) && !collapsed;
        (recovered.then(|| again.saturating_sub(end) as f64 / 1e6), collapsed)
    }

    fn lost(&self) -> f64 {
        let start = self.faults.map_or(0, |(start, _)| start);
        let since = self.began.iter().skip((start / self.stretch) as usize);
        let (calls, good) =
            since.fold((0, 0), |(calls, good), it| (calls + it.calls, good + it.succeeded));
        if calls == 0 { 0.0 } else { 1.0 - good as f64 / calls as f64 }
    }

    fn series(&self) -> Series {
        let windows = self.steps.chunks(STEPS as usize);
        let row = |of: fn(&Step) -> u64| {
            windows.clone().map(|steps| steps.iter().map(of).sum::<u64>() as f64).collect()
        };
        Series {
            window_ms: (self.clock.length * STEPS) as f64 / 1e6,
            calls: row(|step| step.calls),
            attempts: row(|step| step.firsts + step.retries),
            retries: row(|step| step.retries),
            served: row(|step| step.served),
            succeeded: row(|step| step.succeeded),
            failed: row(|step| step.failed),
        }
    }
}

/// The share of these calls that succeeded; `None` without calls.
fn share_of(began: &[Began]) -> Option<f64> {
    let (over, good) =
        began.iter().fold((0, 0), |(over, good), it| (over + it.over, good + it.good));
    (over > 0).then(|| good as f64 / over as f64)
}

impl Step {
    fn total(&self) -> u64 {
        self.calls + self.firsts + self.retries + self.served + self.succeeded + self.failed
    }
}
