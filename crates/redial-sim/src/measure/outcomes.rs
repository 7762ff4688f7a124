//! How calls ended, by when they began, and what follows from it: when a run recovered, whether it collapsed, and how
//! many of the calls that were at risk failed.

use redial_core::{Span, Time};

use crate::Scenario;
use crate::scenario::Arrivals;

/// Success is evaluated over stretches in which about this many calls begin, and that are at least this long.
const CALLS_PER_STRETCH: f64 = 50.0;
const SHORTEST_STRETCH: Span = Span::from_millis(100);
/// The grid on which calls at risk are counted.
const STARTS_PER_STRETCH: u64 = 16;
/// The share of the usual success from which on calls count as recovered.
const RECOVERED: f64 = 0.95;
/// A stretch may be worse than usual by this many standard deviations.
const NOISE: f64 = 3.0;
/// A run has collapsed when at most this share of the usual success is left at its end.
const COLLAPSED: f64 = 0.5;

/// What one attempt achieves when nothing is wrong: the measure of recovery and collapse. By default every call
/// succeeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usual {
    /// The share of the calls that succeed.
    pub success: f64,
    /// Calls that succeed in a second. It is what counts in a closed loop, in which callers that wait make no calls.
    pub goodput: f64,
}

impl Default for Usual {
    fn default() -> Self {
        Self { success: 1.0, goodput: 0.0 }
    }
}

/// The calls of a part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AtRisk {
    /// Calls that began.
    pub calls: u64,
    /// How many of them succeeded, at any time.
    pub succeeded: u64,
    /// How long the part is, in seconds.
    pub seconds: f64,
}

/// How calls ended, by when they began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcomes {
    stretch: Span,
    stretches_per_nano: f64,
    stretches: Vec<Stretch>,
    starts: Starts,
    duration: Span,
    /// From the start of the first fault to the end of the last.
    faults: Option<(Time, Time)>,
    /// Whether calls begin throughout the run.
    continues: bool,
    closed: bool,
    /// Calls in progress, and the most of them at the same time.
    open: u64,
    most_open: u64,
    /// Calls that failed, and how long they took in all, in milliseconds.
    failed: u64,
    failing_ms: f64,
    /// How many calls each counted one stands for.
    scale: u32,
}

/// The calls that began in a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Stretch {
    calls: u64,
    succeeded: u64,
    /// Calls that ended before the last call began, and how many of them succeeded. Later ones come from a backend
    /// without load, and do not show whether it has recovered.
    over: u64,
    good: u64,
    /// Calls that succeeded in this stretch, whenever they began.
    completed: u64,
}

/// Calls by when they began, on a finer grid than that of the stretches. A fault starts at one of its lines.
#[derive(Clone, Debug, Default, PartialEq)]
struct Starts {
    length: Span,
    /// How much the grid is shifted.
    offset: Span,
    per_nano: f64,
    all: Vec<Start>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Start {
    calls: u64,
    succeeded: u64,
}

impl Starts {
    fn new(stretch: Span, fault: Time) -> Self {
        let length = (stretch / STARTS_PER_STRETCH).max(Span::from_nanos(1));
        let offset = length - fault.since_zero() % length;
        Self { length, offset, per_nano: 1.0 / length.as_nanos_f64(), all: Vec::new() }
    }

    /// How far into the grid this time is.
    #[inline]
    fn place(&self, at: Time) -> Span {
        at.since_zero() + self.offset
    }

    #[inline]
    fn at(&mut self, started: Time) -> &mut Start {
        let index = (self.place(started).as_nanos_f64() * self.per_nano) as usize;
        if index >= self.all.len() {
            self.all.resize(index + 1, Start::default());
        }
        &mut self.all[index]
    }

    fn between(&self, start: Time, end: Time) -> &[Start] {
        let length = self.length;
        if length.is_zero() {
            return &[];
        }
        let first = (self.place(start).round_up(length) / length) as usize;
        let first = first.min(self.all.len());
        let last = (self.place(end) / length) as usize;
        &self.all[first..last.clamp((first + 1).min(self.all.len()), self.all.len())]
    }

    /// The end of the last part with calls that failed.
    fn last_failure(&self, start: Time, end: Time) -> Option<Time> {
        let part = self.between(start, end);
        let last = part.iter().rposition(|it| it.succeeded < it.calls)? as u64;
        let first = self.place(start).round_up(self.length);
        Some(Time::at(first + (last + 1) * self.length - self.offset))
    }
}

impl Outcomes {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let rate = scenario.rate();
        let calls = rate.map_or(0.0, |rate| CALLS_PER_STRETCH * 1e9 / rate);
        let stretch = Span::from_nanos_f64(calls).max(SHORTEST_STRETCH).min(scenario.duration);
        let faults = scenario.fault_span();
        Self {
            stretch,
            stretches_per_nano: 1.0 / stretch.as_nanos_f64(),
            stretches: Vec::new(),
            starts: Starts::new(stretch, faults.unwrap_or_default().0),
            duration: scenario.duration,
            faults,
            continues: rate.is_some(),
            closed: matches!(scenario.clients.arrivals, Arrivals::Closed { .. }),
            open: 0,
            most_open: 0,
            failed: 0,
            failing_ms: 0.0,
            scale: 1,
        }
    }

    /// Of a model in which a call stands for this many. What chance explains follows from the counted ones.
    #[must_use]
    pub(crate) fn of_model(self, scale: u32) -> Self {
        Self { scale, ..self }
    }

    /// The end of the run.
    fn end(&self) -> Time {
        Time::at(self.duration)
    }

    #[inline]
    fn at(&mut self, started: Time) -> &mut Stretch {
        let index = (started.since_zero().as_nanos_f64() * self.stretches_per_nano) as usize;
        if index >= self.stretches.len() {
            self.stretches.resize(index + 1, Stretch::default());
        }
        &mut self.stretches[index]
    }

    #[inline]
    pub(super) fn began(&mut self, now: Time, n: u64) {
        self.at(now).calls += n;
        self.starts.at(now).calls += n;
        self.open += n;
        self.most_open = self.most_open.max(self.open);
    }

    #[inline]
    pub(super) fn ended(&mut self, started: Time, now: Time, succeeded: bool, n: u64) {
        self.open = self.open.saturating_sub(n);
        if !succeeded {
            self.failed += n;
            self.failing_ms += (now - started).as_millis_f64() * n as f64;
        }
        let in_time = now < self.end();
        let good = if succeeded { n } else { 0 };
        self.starts.at(started).succeeded += good;
        let began = self.at(started);
        began.succeeded += good;
        if in_time {
            began.over += n;
            began.good += good;
            self.at(now).completed += good;
        }
    }

    /// What is usual, measured by this run: one of a single attempt, without faults. The first tenth is left out,
    /// because the backend is empty at first.
    pub fn usual(&self) -> Usual {
        let known = self.known();
        let settled = &known[known.len() / 10..];
        let seconds = self.seconds(settled.len().max(1));
        let goodput = completed(settled) as f64 * f64::from(self.scale) / seconds;
        Usual { success: share_of(settled).unwrap_or(1.0), goodput }
    }

    /// The calls that began from `start` until before `end`. A part of the grid that is only partly in that time is left
    /// out: calls before a trouble would dilute its loss.
    pub fn at_risk(&self, start: Time, end: Time) -> AtRisk {
        let end = end.min(self.end()).max(start);
        let part = self.starts.between(start, end);
        AtRisk {
            calls: part.iter().map(|it| it.calls).sum::<u64>() * u64::from(self.scale),
            succeeded: part.iter().map(|it| it.succeeded).sum::<u64>() * u64::from(self.scale),
            seconds: (end - start).as_secs_f64(),
        }
    }

    /// The most calls that were in progress at the same time.
    pub fn most_open(&self) -> u64 {
        self.most_open * u64::from(self.scale)
    }

    /// How long calls that failed took on average, in milliseconds; `None` if none failed.
    pub fn failure_ms(&self) -> Option<f64> {
        (self.failed > 0).then(|| self.failing_ms / self.failed as f64)
    }

    /// The share of the calls begun since the first fault that did not succeed.
    pub(super) fn lost_since_fault(&self) -> f64 {
        let first = self.faults.map_or(0, |(start, _)| start.since_zero() / self.stretch);
        let since = &self.stretches[(first as usize).min(self.stretches.len())..];
        let calls: u64 = since.iter().map(|it| it.calls).sum();
        let succeeded: u64 = since.iter().map(|it| it.succeeded).sum();
        if calls == 0 { 0.0 } else { 1.0 - succeeded as f64 / calls as f64 }
    }

    /// When the trouble was over: the end of the faults, or the start of the last call that failed because of them;
    /// `None` if it was not over by the end.
    pub fn trouble_end(&self, usual: &Usual) -> Option<Time> {
        let (_, end) = self.faults?;
        self.recovery(usual).0?;
        let bad = self.known().iter().rposition(|it| self.is_bad(it, usual));
        let failed = bad.and_then(|last| {
            let start = Time::at(last as u64 * self.stretch);
            self.starts.last_failure(start, start + self.stretch)
        });
        Some(failed.unwrap_or_default().max(end))
    }

    /// How long the recovery took, and whether the run collapsed.
    pub(super) fn recovery(&self, usual: &Usual) -> (Option<f64>, bool) {
        let (start, end) = self.faults.unwrap_or_default();
        if !self.continues || end >= self.end() {
            return (None, false);
        }
        let known = self.known();
        let first = (start.since_zero() / self.stretch) as usize;
        let after = (end.since_zero().round_up(self.stretch) / self.stretch) as usize;
        if known.len() <= after && self.end() - end > self.duration / 10 {
            return (None, true);
        }
        let tail = &known[after.max(known.len() - known.len().div_ceil(10)).min(known.len())..];
        let collapsed = !tail.is_empty() && self.success_of(tail, usual) <= COLLAPSED;
        if self.faults.is_none() {
            return (None, collapsed);
        }
        let bad = known.iter().rposition(|it| self.is_bad(it, usual));
        let Some(last) = bad.filter(|last| *last >= first) else { return (Some(0.0), collapsed) };
        let again = Time::at((last as u64 + 1) * self.stretch);
        // One good stretch at the end is not a recovery.
        let settled = known.len() - last > (known.len() - after.min(known.len())).div_ceil(10);
        let taken = (again - end).as_millis_f64();
        ((settled && !collapsed).then_some(taken), collapsed)
    }

    /// The stretches that show what happened. In an open loop, up to the last one with calls that ended before the last
    /// call began; in a closed loop all whole ones.
    fn known(&self) -> &[Stretch] {
        let known = if self.closed {
            self.stretches.len().min((self.duration / self.stretch) as usize)
        } else {
            self.stretches.iter().rposition(|it| it.over > 0).map_or(0, |last| last + 1)
        };
        &self.stretches[..known]
    }

    fn seconds(&self, stretches: usize) -> f64 {
        stretches as f64 * self.stretch.as_nanos_f64() / 1e9
    }

    /// The usual number of counted calls that succeed in a second.
    fn goodput(&self, usual: &Usual) -> f64 {
        usual.goodput / f64::from(self.scale)
    }

    /// The success of these stretches, as a share of what is usual.
    fn success_of(&self, part: &[Stretch], usual: &Usual) -> f64 {
        if self.closed && usual.goodput > 0.0 {
            return completed(part) as f64 / (self.goodput(usual) * self.seconds(part.len()));
        }
        share_of(part).map_or(1.0, |share| share / usual.success.max(f64::MIN_POSITIVE))
    }

    /// Whether fewer calls succeeded than chance explains.
    fn is_bad(&self, it: &Stretch, usual: &Usual) -> bool {
        let (good, expected, failing) = if self.closed && usual.goodput > 0.0 {
            (it.completed, self.goodput(usual) * self.seconds(1), 1.0)
        } else {
            (it.good, usual.success * it.over as f64, 1.0 - usual.success)
        };
        (good as f64) < RECOVERED * expected - NOISE * (expected * failing).sqrt()
    }
}

fn completed(part: &[Stretch]) -> u64 {
    part.iter().map(|it| it.completed).sum()
}

/// The share of these calls that succeeded; `None` without calls.
fn share_of(part: &[Stretch]) -> Option<f64> {
    let (over, good) =
        part.iter().fold((0, 0), |(over, good), it| (over + it.over, good + it.good));
    (over > 0).then(|| good as f64 / over as f64)
}
