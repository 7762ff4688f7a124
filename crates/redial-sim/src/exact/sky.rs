//! What goes wrong with a service, and when.

use redial_core::{NEVER, Nanos};

use crate::Stream;
use crate::scenario::{Answer, BACKEND, CapacityLoss, ColdCache, Outage, Pause, Scenario, nearest};

/// The troubles of one service. Times are asked in order.
#[derive(Debug)]
pub(super) struct Sky<'a> {
    outages: Vec<&'a Outage>,
    losses: &'a [CapacityLoss],
    colds: &'a [ColdCache],
    /// In their order.
    pauses: Vec<&'a Pause>,
    /// Servers of a shard, when nothing is wrong.
    servers: u32,
    /// How many there are until `servers_until`.
    servers_now: u32,
    servers_until: Nanos,
    /// Before this no outage begins that has not been looked at.
    clear_until: Nanos,
}

impl<'a> Sky<'a> {
    pub(super) fn new(scenario: &'a Scenario, name: &str) -> Self {
        let all = scenario.outage.iter().chain(&scenario.brownout);
        let here = |it: &&Outage| it.service.as_deref().unwrap_or(BACKEND) == name;
        let is_backend = name == BACKEND;
        let mut pauses: Vec<_> = scenario.pause.iter().filter(|_| is_backend).collect();
        pauses.sort_by_key(|pause| pause.start);
        let servers = scenario.service(name).and_then(|service| service.servers);
        Self {
            outages: all.filter(here).collect(),
            losses: if is_backend { &scenario.capacity_loss } else { &[] },
            colds: if is_backend { &scenario.cold_cache } else { &[] },
            pauses,
            servers: servers.map_or(u32::MAX, |servers| servers.0),
            servers_now: 0,
            servers_until: 0,
            clear_until: 0,
        }
    }

    /// Those times at which servers may have to begin with what waits.
    pub(super) fn changes(&self) -> impl Iterator<Item = Nanos> {
        let losses = self.losses.iter().map(|it| it.start + it.duration);
        losses.chain(self.pauses.iter().map(|it| it.start + it.duration))
    }

    /// What this request gets because of an outage.
    #[inline]
    pub(super) fn outage(&mut self, shard: u32, now: Nanos, stream: &mut Stream) -> Option<Answer> {
        if now < self.clear_until {
            return None;
        }
        self.outage_now(shard, now, stream)
    }

    fn outage_now(&mut self, shard: u32, now: Nanos, stream: &mut Stream) -> Option<Answer> {
        let mut clear_until = NEVER;
        for it in &self.outages {
            let end = it.start + it.duration;
            if now < it.start {
                clear_until = clear_until.min(it.start);
            } else if now < end {
                clear_until = 0;
                let hits = it.shard.is_none_or(|only| only == shard)
                    && (it.share >= 1.0 || stream.chance(it.share));
                if hits {
                    return Some(it.answer);
                }
            }
        }
        self.clear_until = clear_until;
        None
    }

    /// How many servers of a shard may work now; none in a pause.
    #[inline]
    pub(super) fn servers(&mut self, now: Nanos) -> u32 {
        if now >= self.servers_until {
            self.count_servers(now);
        }
        self.servers_now
    }

    #[cold]
    fn count_servers(&mut self, now: Nanos) {
        let spans = self.losses.iter().map(|it| (it.start, it.start + it.duration));
        let spans = spans.chain(self.pauses.iter().map(|it| (it.start, it.start + it.duration)));
        let edges = spans.flat_map(|(start, end)| [start, end]).filter(|edge| *edge > now);
        self.servers_until = edges.min().unwrap_or(NEVER);
        let lost: f64 = self
            .losses
            .iter()
            .filter(|it| within(now, it.start, it.duration))
            .map(|it| it.share)
            .sum();
        let left = f64::from(self.servers) * (1.0 - lost.min(1.0));
        self.servers_now = if self.paused(now) { 0 } else { left.round() as u32 };
    }

    fn paused(&self, now: Nanos) -> bool {
        self.pauses.iter().any(|it| within(now, it.start, it.duration))
    }

    /// How long work takes that would take so long if everything were warm.
    pub(super) fn slowed(&self, work: Nanos, now: Nanos) -> Nanos {
        let cold = self.colds.iter().find(|it| within(now, it.start, it.duration));
        let Some(cold) = cold else { return work };
        let warmth = (now - cold.start) as f64 / cold.duration as f64;
        nearest(work as f64 / (cold.capacity + (1.0 - cold.capacity) * warmth))
    }

    /// When work is done that begins now and takes so long: pauses come on top.
    #[inline]
    pub(super) fn done(&self, now: Nanos, work: Nanos) -> Nanos {
        self.pauses.iter().fold(now + work, |done, pause| {
            let held_up = (now..=done).contains(&pause.start);
            if held_up { done + pause.duration } else { done }
        })
    }
}

fn within(now: Nanos, start: Nanos, duration: Nanos) -> bool {
    (start..start + duration).contains(&now)
}
