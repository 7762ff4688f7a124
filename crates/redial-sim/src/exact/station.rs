//! A service: what it can do at once, what waits, and what it says to those that it turns away.

use std::collections::VecDeque;
use std::time::Duration;

use redial_core::Nanos;
use redial_core::admit::{RateLimit, Refusal, Slots};
use redial_core::decide::{Class, Failure, Outcome};
use redial_core::schedule::Hint;

use super::sky::Sky;
use crate::Stream;
use crate::random::below;
use crate::scenario::{Answer, HintGiven, Service};

/// What becomes of a request that has arrived.
#[derive(Debug)]
pub(super) enum Reception {
    /// It is answered at once.
    Answer(Outcome),
    /// It is never answered.
    Silence,
    /// It is worked on for so long.
    Serve(Nanos),
    /// It waits for a server.
    Wait,
}

#[derive(Debug)]
pub(super) struct Station<'a> {
    pub(super) service: &'a Service,
    pub(super) sky: Sky<'a>,
    shards: Vec<Shard>,
    simple: bool,
    /// Whether it turns nobody away but for outages and a full queue, and hints at nothing.
    open: bool,
    /// Requests that are in it, wherever.
    inside: u32,
    /// Requests that arrived.
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
    /// Requests in the queue for which nobody waits, and which will not be worked on.
    dropped: u32,
}

/// Who sends a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) instance: u32,
    /// Whether it is the first attempt of a call.
    pub(super) first: bool,
    /// Whether its call was told to come later.
    pub(super) early: bool,
    /// Whether its work has been done already, and the key says so.
    pub(super) recognised: bool,
}

/// How often an instance has come too early, and until when nobody talks to it.
#[derive(Clone, Copy, Debug, Default)]
struct Banned {
    ignored: u32,
    until: Nanos,
}

impl<'a> Station<'a> {
    pub(super) fn new(
        service: &'a Service,
        sky: Sky<'a>,
        instances: u32,
        stream: Stream,
        tracked: bool,
    ) -> Self {
        let limits = service.limit.map_or(Vec::new(), |limit| {
            let count = if limit.each_instance { instances } else { 1 };
            (0..count).map(|_| RateLimit::new(&limit.rule())).collect()
        });
        let places = service.servers.map_or(0, |servers| servers.0.saturating_mul(service.shards));
        Self {
            service,
            sky,
            shards: (0..service.shards).map(|_| Shard::default()).collect(),
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
        }
    }

    pub(super) fn shard_of(&self, key: u64) -> u32 {
        match self.service.shards {
            1 => 0,
            shards => below(redial_core::draw(key, 7), shards.into()) as u32,
        }
    }

    /// A request arrives. Whatever is served or waits has to [`leave`](Self::leave).
    #[inline]
    pub(super) fn receive(&mut self, shard: u32, from: Sender, now: Nanos) -> Reception {
        self.arrived += 1;
        if self.open && !from.recognised {
            return match self.sky.outage(shard, now, &mut self.stream) {
                None => self.take_in(shard, now),
                Some(answer) => answer.outcome().map_or(Reception::Silence, Reception::Answer),
            };
        }
        self.receive_warily(shard, from, now)
    }

    #[inline(never)]
    fn receive_warily(&mut self, shard: u32, from: Sender, now: Nanos) -> Reception {
        if let Some(slots) = &mut self.slots {
            slots.arrived(f64::from(u8::from(from.first)), now);
        }
        if self.is_banned(&from, now) {
            return Reception::Answer(Outcome::of_status(403));
        }
        if let Some(answer) = self.turned_away(shard, from.instance, now) {
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
    fn turned_away(&mut self, shard: u32, from: u32, now: Nanos) -> Option<Answer> {
        if let Some(answer) = self.sky.outage(shard, now, &mut self.stream) {
            return Some(answer);
        }
        let limit = match self.limits.len() {
            0 => None,
            1 => self.limits.first(),
            _ => self.limits.get(from as usize),
        };
        if limit.is_some_and(|limit| limit.take(now).is_err()) {
            return Some(Answer::Status(429));
        }
        if self.service.connections.is_some_and(|most| self.inside >= most.0) {
            return Some(Answer::Connect);
        }
        let errors = self.service.errors;
        (errors > 0.0 && self.stream.chance(errors)).then_some(Answer::Status(503))
    }

    fn take_in(&mut self, shard: u32, now: Nanos) -> Reception {
        let servers = self.sky.servers(now);
        let it = &mut self.shards[shard as usize];
        if it.busy < servers {
            it.busy += 1;
            self.inside += 1;
            return Reception::Serve(self.work(now));
        }
        if it.queue.len() as u64 - u64::from(it.dropped) < u64::from(self.service.queue) {
            self.inside += 1;
            return Reception::Wait;
        }
        match self.service.when_full.outcome() {
            Some(outcome) => Reception::Answer(self.hint(outcome, now)),
            None => Reception::Silence,
        }
    }

    /// How long a server works on a request that it begins now.
    fn work(&mut self, now: Nanos) -> Nanos {
        self.sky.slowed(self.service.service.draw(&mut self.stream), now)
    }

    /// A request that was there before anything began.
    pub(super) fn adopt(&mut self) {
        self.inside += 1;
    }

    /// Puts a request at the end of the queue.
    pub(super) fn enqueue(&mut self, shard: u32, request: u32) {
        self.shards[shard as usize].queue.push_back(request);
    }

    /// Nobody waits for a request in the queue any more, and it will not be worked on.
    pub(super) fn drop_queued(&mut self, shard: u32) {
        self.shards[shard as usize].dropped += 1;
        self.inside -= 1;
    }

    /// One that was dropped has come up.
    pub(super) fn skip(&mut self, shard: u32) {
        self.shards[shard as usize].dropped -= 1;
    }

    /// A server has done its work, which it began then.
    pub(super) fn free(&mut self, shard: u32, began: Nanos, now: Nanos) {
        self.shards[shard as usize].busy -= 1;
        if let Some(slots) = &mut self.slots {
            slots.held(began, now);
        }
    }

    /// The next request that a server can begin, and how long it will take. The caller looks whether anybody
    /// still wants it.
    pub(super) fn next(&mut self, shard: u32, now: Nanos) -> Option<u32> {
        let servers = self.sky.servers(now);
        let it = &mut self.shards[shard as usize];
        if it.busy >= servers { None } else { it.queue.pop_front() }
    }

    pub(super) fn begin(&mut self, shard: u32, now: Nanos) -> Nanos {
        self.shards[shard as usize].busy += 1;
        self.work(now)
    }

    /// A request is over here.
    pub(super) fn leave(&mut self) {
        self.inside -= 1;
    }

    /// Whether it has no limit, calls nobody and loses nothing: what takes no time leaves no trace then.
    #[inline]
    pub(super) fn is_simple(&self) -> bool {
        self.simple
    }

    #[inline]
    pub(super) fn always_replies(&self) -> bool {
        self.service.lost_replies == 0.0
    }

    /// A request that takes no time is over.
    #[inline]
    pub(super) fn serve_at_once(&mut self, shard: u32) {
        self.shards[shard as usize].busy -= 1;
        self.inside -= 1;
    }

    pub(super) fn reply_is_lost(&mut self) -> bool {
        let share = self.service.lost_replies;
        share > 0.0 && self.stream.chance(share)
    }

    /// What it says about when to come back.
    fn hint(&mut self, outcome: Outcome, now: Nanos) -> Outcome {
        if !matches!(
            outcome,
            Outcome::Failure(Failure { class: Class::Throttled | Class::Overloaded, .. })
        ) {
            return outcome;
        }
        let hint = match self.service.hint {
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

    /// Whether the instance has ignored too many hints, this time included.
    fn is_banned(&mut self, from: &Sender, now: Nanos) -> bool {
        let (Some(ban), Some(it)) = (self.service.ban, self.banned.get_mut(from.instance as usize))
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
