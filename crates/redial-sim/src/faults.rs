//! Which faults are in effect at a given time, and what they do to requests, servers and work.
//!
//! The exact engine needs the answer for one request, the cohort engine for all requests of a tick, and
//! `redial-live` for the requests of a real server. The formulas are here and nowhere else.

use crate::scenario::{
    BACKEND, CapacityLoss, ColdCache, FailureMode, Outage, Pause, Period, Slowdown, nearest,
};
use crate::{Scenario, Stream};
use redial_core::{Deadline, Span, Time};

/// What a request gets that is not served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failing {
    /// The answer.
    pub answer: FailureMode,
    /// The work that precedes it, as a share of a service time; none if zero.
    pub cost: f32,
}

/// The outages and brownouts of one service. Queries must not go back in time.
#[derive(Clone, Debug)]
pub struct Outages {
    all: Vec<Outage>,
    /// No outage is active between the last query and this time.
    clear_until: Deadline,
}

impl Outages {
    /// The outages of the service with this name, in the order of the scenario.
    pub fn new(scenario: &Scenario, service: &str) -> Self {
        let all = scenario.outages().filter(|it| it.service() == service).cloned().collect();
        Self { all, clear_until: Time::ZERO.into() }
    }

    /// What a request to this shard or endpoint gets instead of being served, if an outage hits it.
    #[inline]
    pub fn hit(&mut self, shard: u32, now: Time, stream: &mut Stream) -> Option<Failing> {
        if self.clear_until.is_over(now) { self.hit_now(shard, now, stream) } else { None }
    }

    fn hit_now(&mut self, shard: u32, now: Time, stream: &mut Stream) -> Option<Failing> {
        let hits = |it: &&Outage| {
            it.period().contains(now)
                && it.part().is_none_or(|only| only == shard)
                && (it.share >= 1.0 || stream.chance(it.share))
        };
        let hit = self.all.iter().find(hits);
        let failing = hit.map(|it| Failing { answer: it.answer, cost: it.cost as f32 });
        if failing.is_none() {
            self.clear_until = self.next_start(now);
        }
        failing
    }

    /// Whether an outage is active in a part of this period.
    #[inline]
    pub(crate) fn is_active(&mut self, during: Period) -> bool {
        let end = Deadline::from(during.end);
        if end > self.clear_until {
            self.clear_until = self.next_start(during.start);
        }
        end > self.clear_until
    }

    /// When the first of the outages that end after `now` starts.
    fn next_start(&self, now: Time) -> Deadline {
        let later = self.all.iter().map(Outage::period).filter(|it| it.end > now);
        later.map(|it| it.start).min().into()
    }

    /// The probability that the outage with this index hits a request that arrives at a random time in this period.
    pub(crate) fn probability(&self, index: usize, during: Period) -> f64 {
        let outage = &self.all[index];
        outage.share * outage.period().share_of(during)
    }
}

/// How many servers of a service work, and how fast.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    losses: Vec<CapacityLoss>,
    cold_caches: Vec<ColdCache>,
    slowdowns: Vec<Slowdown>,
    /// Ordered by their start.
    pauses: Vec<Pause>,
}

impl Capacity {
    /// Only the backend loses capacity.
    pub fn new(scenario: &Scenario, service: &str) -> Self {
        if service != BACKEND {
            return Self::default();
        }
        let mut pauses = scenario.pause.clone();
        pauses.sort_by_key(|pause| pause.start);
        Self {
            losses: scenario.capacity_loss.clone(),
            cold_caches: scenario.cold_cache.clone(),
            slowdowns: scenario.slowdown.clone(),
            pauses,
        }
    }

    /// How many of `all` servers may start work now: none during a pause.
    pub fn servers(&self, all: u64, now: Time) -> u64 {
        if self.pauses.iter().any(|it| it.period().contains(now)) {
            return 0;
        }
        let losses = self.losses.iter().filter(|it| it.period().contains(now));
        servers_left(all, losses.map(|it| it.share).sum())
    }

    /// The fewest of `all` servers that any loss leaves, and for how long there is none.
    pub(crate) fn fewest_servers(&self, all: u64) -> (u64, Span) {
        let left = || self.losses.iter().map(|it| (servers_left(all, it.share), it.duration));
        let none = left().filter(|(servers, _)| *servers == 0).map(|(_, duration)| duration).sum();
        (left().map(|(servers, _)| servers).min().unwrap_or(all), none)
    }

    /// When the number of servers changes next.
    pub fn next_change(&self, now: Time) -> Deadline {
        let edges = self.periods().flat_map(|it| [it.start, it.end]);
        edges.filter(|edge| *edge > now).min().into()
    }

    /// When servers come back, and can start what is queued.
    pub(crate) fn returns(&self) -> impl Iterator<Item = Time> {
        self.periods().map(|it| it.end)
    }

    fn periods(&self) -> impl Iterator<Item = Period> {
        let losses = self.losses.iter().map(CapacityLoss::period);
        losses.chain(self.pauses.iter().map(Pause::period))
    }

    /// The speed of a server, as a share of the usual one. With a cold cache it grows linearly.
    pub(crate) fn speed(&self, now: Time) -> f64 {
        let cold = self.cold_caches.iter().find(|it| it.period().contains(now));
        let warm = cold.map_or(1.0, |it| {
            let warmth = (now - it.start).ratio_to(it.duration);
            it.capacity + (1.0 - it.capacity) * warmth
        });
        let slowdowns = self.slowdowns.iter().filter(|it| it.period().contains(now));
        slowdowns.fold(warm, |speed, it| speed / it.factor)
    }

    /// A lower limit of the speed.
    pub(crate) fn lowest_speed(&self) -> f64 {
        let cold = self.cold_caches.iter().map(|it| it.capacity).fold(1.0, f64::min);
        self.slowdowns.iter().fold(cold, |speed, it| speed / it.factor.max(1.0))
    }

    /// How long work takes that is started now and usually takes `work`.
    pub fn service_time(&self, work: Span, now: Time) -> Span {
        let steady = self.cold_caches.is_empty() && self.slowdowns.is_empty();
        if steady { work } else { nearest(work.as_nanos_f64() / self.speed(now)) }
    }

    /// When work is done that starts now and takes this long. Pauses come on top.
    #[inline]
    pub fn done(&self, now: Time, work: Span) -> Time {
        self.pauses.iter().fold(now + work, |done, pause| {
            let held_up = (now..=done).contains(&pause.start);
            if held_up { done + pause.duration } else { done }
        })
    }
}

/// Whole servers, after this share of them is lost.
fn servers_left(all: u64, lost: f64) -> u64 {
    (all as f64 * (1.0 - lost.min(1.0))).round() as u64
}
