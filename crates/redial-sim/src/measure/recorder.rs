use hdrhistogram::Histogram;
use redial_core::{Span, Time};

use super::{Outcomes, Run, Series, Usual};
use crate::Scenario;
use crate::scenario::STEPS;

/// Records the events of a run. Times must not decrease, except between attempts by less than a window. `n` equal
/// events are recorded with one call.
#[derive(Debug)]
pub struct Recorder {
    clock: Clock,
    steps: Vec<Step>,
    outcomes: Outcomes,
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
    retried: Option<(Time, Time)>,
    last_end: Time,
    window: Span,
    rate: Option<f64>,
    /// Callers that begin at once, and how many of their first attempts have not arrived.
    callers: u64,
    to_open: u64,
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
    length: Span,
    from: Time,
    index: usize,
}

impl Clock {
    #[inline]
    fn index(&mut self, now: Time) -> usize {
        if now.checked_since(self.from).is_none_or(|since| since >= self.length) {
            self.set(now);
        }
        self.index
    }

    #[cold]
    fn set(&mut self, now: Time) {
        let index = now.since_zero() / self.length;
        (self.index, self.from) = (index as usize, Time::at(index * self.length));
    }
}

impl Recorder {
    /// For a run of this scenario.
    pub fn new(scenario: &Scenario) -> Self {
        let rate = scenario.rate();
        let at_once = scenario.clients.arrivals.callers().filter(|_| rate.is_none());
        let callers = at_once.map_or(0, u64::from);
        let length = scenario.step();
        Self {
            clock: Clock { length, from: Time::ZERO, index: 0 },
            steps: vec![Step::default(); (scenario.duration / length) as usize + 1],
            outcomes: Outcomes::new(scenario),
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
            last_end: Time::ZERO,
            window: scenario.window,
            rate,
            callers,
            to_open: callers,
        }
    }

    #[inline(always)]
    fn step(&mut self, now: Time) -> &mut Step {
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

    /// Calls began.
    #[inline]
    pub fn calls(&mut self, now: Time, n: u64) {
        self.calls += n;
        self.step(now).calls += n;
        self.outcomes.began(now, n);
    }

    /// How many attempts have arrived so far.
    pub(crate) fn attempts_so_far(&self) -> u64 {
        self.attempts
    }

    /// Attempts with this number arrived at the backend.
    #[inline]
    pub fn attempts(&mut self, now: Time, number: u32, n: u64) {
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
    pub fn served(&mut self, now: Time, n: u64) {
        self.step(now).served += n;
    }

    /// Calls are over.
    #[inline]
    pub fn ended(&mut self, started: Time, now: Time, succeeded: bool, n: u64) {
        self.last_end = self.last_end.max(now);
        self.outcomes.ended(started, now, succeeded, n);
        if succeeded {
            self.succeeded += n;
            self.step(now).succeeded += n;
            // In microseconds. A histogram that may grow accepts any value.
            let _ = self.latency.record_n((now - started).as_micros(), n);
        } else {
            self.failed += n;
            self.step(now).failed += n;
        }
    }

    /// Calls start to wait this long for a retry.
    #[inline]
    pub fn waits(&mut self, delay: Span, n: u64) {
        let (delay, count) = (delay.as_millis_f64(), n as f64);
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
        let window = self.window.as_nanos_f64();
        let usual = self.rate.map_or(self.callers as f64, |rate| rate * window / 1e9);
        let usual = usual.max(1.0);
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
            recover_ms: None,
            goodput_lost: self.outcomes.lost_since_fault(),
            p50_ms: percentile(0.5),
            p99_ms: percentile(0.99),
            duplicates: self.duplicates,
            collapsed: false,
            completion_ms: self.last_end.since_zero().as_millis_f64(),
            delay_sd_ms: variance.max(0.0).sqrt(),
            waiting_max: self.waiting_max,
            healthy_lost: None,
            own_success: None,
            retries: self.steps.iter().map(|step| step.retries).sum(),
            smear_ms: self.retried.map_or(0.0, |(first, last)| (last - first).as_millis_f64()),
            series: self.series(),
            outcomes: self.outcomes,
            events,
        }
        .compared(&Usual::default())
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

    fn series(&self) -> Series {
        let windows = self.steps.chunks(STEPS as usize);
        let row = |of: fn(&Step) -> u64| {
            windows.clone().map(|steps| steps.iter().map(of).sum::<u64>() as f64).collect()
        };
        Series {
            window_ms: (self.clock.length * STEPS).as_millis_f64(),
            calls: row(|step| step.calls),
            attempts: row(|step| step.firsts + step.retries),
            retries: row(|step| step.retries),
            served: row(|step| step.served),
            succeeded: row(|step| step.succeeded),
            failed: row(|step| step.failed),
        }
    }
}

impl Step {
    fn total(&self) -> u64 {
        self.calls + self.firsts + self.retries + self.served + self.succeeded + self.failed
    }
}
