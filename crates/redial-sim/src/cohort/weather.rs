//! What goes wrong, tick by tick.

use redial_core::{NEVER, Nanos};

use crate::Scenario;

/// From when to when, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    start: f64,
    end: f64,
}

impl Span {
    fn new(start: Nanos, duration: Nanos, tick: Nanos) -> Self {
        Self { start: start as f64 / tick as f64, end: (start + duration) as f64 / tick as f64 }
    }

    /// Which share of a tick it covers.
    fn share(&self, tick: u64) -> f64 {
        let tick = tick as f64;
        (self.end.min(tick + 1.0) - self.start.max(tick)).max(0.0)
    }

    fn contains(&self, at: f64) -> bool {
        (self.start..self.end).contains(&at)
    }
}

#[derive(Debug)]
pub(super) struct Weather {
    /// With the share of requests that each of them hits.
    outages: Vec<(Span, f64)>,
    losses: Vec<(Span, f64)>,
    colds: Vec<(Span, f64)>,
    spikes: Vec<(Span, f64)>,
    /// Before this tick no outage begins that has not been looked at.
    clear_until: f64,
}

impl Weather {
    pub(super) fn new(scenario: &Scenario, tick: Nanos) -> Self {
        let span = |start, duration| Span::new(start, duration, tick);
        let outages = scenario.outage.iter().chain(&scenario.brownout);
        let losses = scenario.capacity_loss.iter();
        let colds = scenario.cold_cache.iter();
        let spikes = scenario.spike.iter();
        Self {
            outages: outages.map(|it| (span(it.start, it.duration), it.share)).collect(),
            losses: losses.map(|it| (span(it.start, it.duration), it.share)).collect(),
            colds: colds.map(|it| (span(it.start, it.duration), it.capacity)).collect(),
            spikes: spikes.map(|it| (span(it.start, it.duration), it.factor)).collect(),
            clear_until: 0.0,
        }
    }

    /// Whether an outage touches this tick.
    #[inline]
    pub(super) fn is_bad(&mut self, tick: u64) -> bool {
        if (tick as f64) + 1.0 <= self.clear_until {
            return false;
        }
        let (now, later) = (tick as f64, self.outages.iter());
        let coming = later.filter(|(span, _)| span.end > now).map(|(span, _)| span.start);
        self.clear_until = coming.fold(NEVER as f64, f64::min);
        (tick as f64) + 1.0 > self.clear_until
    }

    /// The probability that the outage with this number hits a request that arrives in this tick, or at this
    /// share of it.
    pub(super) fn hits(&self, outage: usize, tick: u64, at: Option<f64>) -> f64 {
        let (span, share) = &self.outages[outage];
        let covered = match at {
            Some(at) => f64::from(u8::from(span.contains(tick as f64 + at))),
            None => span.share(tick),
        };
        share * covered
    }

    /// So many times as many calls begin.
    pub(super) fn rush(&self, tick: u64) -> f64 {
        let more = |(span, factor): &(Span, f64)| 1.0 + span.share(tick) * (factor - 1.0);
        self.spikes.iter().map(more).product()
    }

    /// How many of so many servers may begin with something in this tick.
    #[inline]
    pub(super) fn servers(&self, all: u64, tick: u64) -> u64 {
        if self.losses.is_empty() {
            return all;
        }
        let now = tick as f64 + 0.5;
        let lost = self.losses.iter().filter(|(span, _)| span.contains(now));
        let lost: f64 = lost.map(|(_, share)| share).sum();
        (all as f64 * (1.0 - lost.min(1.0))).round() as u64
    }

    /// So many times as long does work take that begins in this tick.
    #[inline]
    pub(super) fn slowness(&self, tick: u64) -> f64 {
        let now = tick as f64 + 0.5;
        let cold = self.colds.iter().find(|(span, _)| span.contains(now));
        cold.map_or(1.0, |(span, capacity)| {
            let warmth = (now - span.start) / (span.end - span.start);
            1.0 / (capacity + (1.0 - capacity) * warmth)
        })
    }

    /// The most by which work is slowed down.
    pub(super) fn slowest(&self) -> f64 {
        self.colds.iter().map(|(_, capacity)| 1.0 / capacity).fold(1.0, f64::max)
    }

    /// The fewest of so many servers that there ever are, and how long there is none.
    pub(super) fn fewest(&self, all: u64) -> (u64, f64) {
        let left = |share: f64| (all as f64 * (1.0 - share.min(1.0))).round() as u64;
        let alone = self.losses.iter().map(|(_, share)| left(*share));
        let none = self.losses.iter().filter(|(_, share)| left(*share) == 0);
        (alone.min().unwrap_or(all), none.map(|(span, _)| span.end - span.start).sum())
    }
}
