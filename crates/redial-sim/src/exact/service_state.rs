//! The state of one service: servers, queues, limits, and the hints that it gives.

use std::collections::VecDeque;
use std::time::Duration;

use redial_core::Nanos;
use redial_core::admit::{RateLimit, Refusal, Slots};
use redial_core::decide::Outcome;
use redial_core::schedule::Hint;

use crate::faults::{Capacity, Outages};
use crate::random::below;
use crate::scenario::{Answer, HintGiven, Service};
use crate::{Scenario, Stream};

/// What happens to a request that has arrived.
#[derive(Debug)]
pub(super) enum Reception {
    /// It is answered at once.
    Answer(Outcome),
    /// It gets no answer.
    Silence,
    /// It is served, and takes this long.
    Serve(Nanos),
    /// It is queued.
    Wait,
}

#[derive(Debug)]
pub(super) struct ServiceState<'a> {
    pub(super) config: &'a Service,
    outages: Outages,
    pub(super) capacity: Capacity,
    /// How many servers of a shard may start work, until `servers_until`.
    servers: u32,
    servers_until: Nanos,
    shards: Vec<Shard>,
    simple: bool,
    /// Whether only outages and a full queue turn requests away, without hints.
    open: bool,
    /// Requests inside, queued or served.
    inside: u32,
    /// Requests that have arrived.
    pub(super) arrived: u64,
    limits: Vec<RateLimit>,
    slots: Option<Slots>,
    banned: Vec<Banned>,
    stream: Stream,
}

#[derive(Debug, Default)]
struct Shard {
    busy: u32,
    queue: VecDeque<u32>,
    /// Requests in the queue that will not be served.
    dropped: u32,
}

/// The sender of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) instance: u32,
    /// Whether it is the first attempt of its call.
    pub(super) first: bool,
    /// Whether its call came back before its hint allowed.
    pub(super) early: bool,
    /// Whether its key shows that its work is already done.
    pub(super) recognised: bool,
}

/// How many hints an instance has ignored, and until when it is banned.
#[derive(Clone, Copy, Debug, Default)]
struct Banned {
    ignored: u32,
    until: Nanos,
}

impl<'a> ServiceState<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        name: &str,
        stream: Stream,
        tracked: bool,
    ) -> Option<Self> {
        let service = scenario.service(name)?;
        let instances = scenario.clients.instances;
        let limits = service.limit.map_or(Vec::new(), |limit| {
            let count = if limit.each_instance { instances } else { 1 };
            (0..count).map(|_| RateLimit::new(&limit.rule())).collect()
        });
        let places = service.servers.map_or(0, |servers| servers.0.saturating_mul(service.parts()));
        Some(Self {
            config: service,
            outages: Outages::new(scenario, name),
            capacity: Capacity::new(scenario, name),
            servers: 0,
            servers_until: 0,
            shards: (0..service.parts()).map(|_| Shard::default()).collect(),
            simple: service.servers.is_none()
                && service.calls.is_empty()
                && service.lost_replies == 0.0
                && !tracked,
            open: service.limit.is_none()
                && service.ban.is_none()
                && service.hint == HintGiven::None
                && service.connections.is_none()
                && service.errors == 0.0,
            inside: 0,
            arrived: 0,
            limits,
            slots: (service.hint == HintGiven::Slots)
                .then(|| Slots::new(places, Slots::MIN_SHARE, Slots::HORIZON)),
            banned: vec![Banned::default(); service.ban.map_or(0, |_| instances as usize)],
            stream,
        })
    }

    pub(super) fn shard_of(&self, key: u64) -> u32 {
        match self.config.shards {
            1 => 0,
            shards => below(redial_core::draw(key, 7), shards.into()) as u32,
        }
    }

    /// A request arrives. Every request that is served or queued must [`leave`](Self::leave).
    #[inline]
    pub(super) fn receive(&mut self, shard: u32, from: Sender, now: Nanos) -> Reception {
        self.arrived += 1;
        if self.open && !from.recognised {
            return match self.outages.hit(shard, now, &mut self.stream) {
                None => self.take_in(shard, now),
                Some(answer) => answer.outcome().map_or(Reception::Silence, Reception::Answer),
            };
        }
        self.receive_checked(shard, from, now)
    }

    #[inline(never)]
    fn receive_checked(&mut self, shard: u32, from: Sender, now: Nanos) -> Reception {
        if let Some(slots) = &mut self.slots {
            slots.arrived(f64::from(u8::from(from.first)), now);
        }
        if self.is_banned(&from, now) {
            return Reception::Answer(Outcome::of_status(403));
        }
        if let Some(answer) = self.refuse(shard, from.instance, now) {
            return match answer.outcome() {
                Some(outcome) => Reception::Answer(self.hint(outcome, now)),
                None => Reception::Silence,
            };
        }
        if from.recognised {
            return Reception::Answer(Outcome::Success);
        }
        self.take_in(shard, now)
    }

    #[inline]
    fn refuse(&mut self, shard: u32, from: u32, now: Nanos) -> Option<Answer> {
        if let Some(answer) = self.outages.hit(shard, now, &mut self.stream) {
            return Some(answer);
        }
        let limit = match self.limits.len() {
            0 => None,
            1 => self.limits.first(),
            _ => self.limits.get(from as usize),
        };
        if limit.is_some_and(|limit| limit.take(now).is_err()) {
            return Some(Answer::LIMITED);
        }
        if self.config.connections.is_some_and(|most| self.inside >= most.0) {
            return Some(Answer::Connect);
        }
        let errors = self.config.errors;
        (errors > 0.0 && self.stream.chance(errors)).then_some(Answer::UNAVAILABLE)
    }

    /// How many servers of a shard may start work now.
    #[inline]
    fn servers(&mut self, now: Nanos) -> u32 {
        if now >= self.servers_until {
            self.count_servers(now);
        }
        self.servers
    }

    #[cold]
    fn count_servers(&mut self, now: Nanos) {
        let all = self.config.servers.map_or(u32::MAX, |servers| servers.0);
        self.servers = self.capacity.servers(all.into(), now) as u32;
        self.servers_until = self.capacity.next_change(now);
    }

    fn take_in(&mut self, shard: u32, now: Nanos) -> Reception {
        let servers = self.servers(now);
        let it = &mut self.shards[shard as usize];
        if it.busy < servers {
            it.busy += 1;
            self.inside += 1;
            return Reception::Serve(self.work(now));
        }
        if it.queue.len() as u64 - u64::from(it.dropped) < u64::from(self.config.queue) {
            self.inside += 1;
            return Reception::Wait;
        }
        match self.config.when_full.outcome() {
            Some(outcome) => Reception::Answer(self.hint(outcome, now)),
            None => Reception::Silence,
        }
    }

    /// How long a server takes for a request that it starts now.
    fn work(&mut self, now: Nanos) -> Nanos {
        self.capacity.service_time(self.config.service.draw(&mut self.stream), now)
    }

    /// Counts a request that was queued before the start.
    pub(super) fn adopt(&mut self) {
        self.inside += 1;
    }

    /// Puts a request at the end of the queue.
    pub(super) fn enqueue(&mut self, shard: u32, request: u32) {
        self.shards[shard as usize].queue.push_back(request);
    }

    /// Drops a request from the queue: it will not be served.
    pub(super) fn drop_queued(&mut self, shard: u32) {
        self.shards[shard as usize].dropped += 1;
        self.inside -= 1;
    }

    /// A dropped request has reached the front.
    pub(super) fn skip(&mut self, shard: u32) {
        self.shards[shard as usize].dropped -= 1;
    }

    /// A server has finished work that it started at `began`.
    pub(super) fn free(&mut self, shard: u32, began: Nanos, now: Nanos) {
        self.shards[shard as usize].busy -= 1;
        if let Some(slots) = &mut self.slots {
            slots.held(began, now);
        }
    }

    /// The next queued request that a server can start. It may have been dropped.
    pub(super) fn next(&mut self, shard: u32, now: Nanos) -> Option<u32> {
        let servers = self.servers(now);
        let it = &mut self.shards[shard as usize];
        if it.busy >= servers { None } else { it.queue.pop_front() }
    }

    pub(super) fn begin(&mut self, shard: u32, now: Nanos) -> Nanos {
        self.shards[shard as usize].busy += 1;
        self.work(now)
    }

    /// A request leaves.
    pub(super) fn leave(&mut self) {
        self.inside -= 1;
    }

    /// Whether it has no server limit, no inner calls and no lost replies: a request that takes no time then needs
    /// no state.
    #[inline]
    pub(super) fn is_simple(&self) -> bool {
        self.simple
    }

    #[inline]
    pub(super) fn always_replies(&self) -> bool {
        self.config.lost_replies == 0.0
    }

    /// A request that takes no time is done.
    #[inline]
    pub(super) fn serve_at_once(&mut self, shard: u32) {
        self.shards[shard as usize].busy -= 1;
        self.inside -= 1;
    }

    pub(super) fn reply_is_lost(&mut self) -> bool {
        let share = self.config.lost_replies;
        share > 0.0 && self.stream.chance(share)
    }

    /// Adds a hint to an outcome.
    fn hint(&mut self, outcome: Outcome, now: Nanos) -> Outcome {
        if !HintGiven::applies_to(&outcome) {
            return outcome;
        }
        let hint = match self.config.hint {
            HintGiven::None => return outcome,
            HintGiven::Fixed(after) => Hint::AtLeast(Duration::from_nanos(after)),
            HintGiven::Jittered { from, to } => {
                Hint::AtLeast(Duration::from_nanos(self.stream.between(from, to)))
            }
            HintGiven::Slots => match self.slots.as_mut().map(|slots| slots.book(now)) {
                Some(Refusal::Slot(after)) => Hint::Slot(Duration::from_nanos(after)),
                Some(Refusal::Full(after)) => Hint::AtLeast(Duration::from_nanos(after)),
                None => return outcome,
            },
        };
        outcome.with_hint(hint)
    }

    /// Whether the instance is banned, counting this request.
    fn is_banned(&mut self, from: &Sender, now: Nanos) -> bool {
        let (Some(ban), Some(it)) = (self.config.ban, self.banned.get_mut(from.instance as usize))
        else {
            return false;
        };
        it.ignored += u32::from(from.early && now >= it.until);
        if it.ignored >= ban.after {
            *it = Banned { ignored: 0, until: now + ban.duration };
        }
        now < it.until
    }
}
