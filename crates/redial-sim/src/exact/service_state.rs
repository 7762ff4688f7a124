//! The state of one service: what it lets in, and the hints that it gives. `servers.rs` has the rest.

use redial_core::admit::{Booking, RateLimit, Slots};
use redial_core::decide::Outcome;
use redial_core::schedule::Hint;
use redial_core::{Deadline, Span, Time};

use super::servers::Shard;
use crate::faults::{Capacity, Failing, Outages};
use crate::random::below;
use crate::scenario::{Discipline, FailureMode, HintGiven, Service, WorkSafety};
use crate::{Scenario, Stream};

/// What happens to a request that has arrived.
#[derive(Debug)]
pub(super) enum Reception {
    /// It is answered at once.
    Answer(Outcome),
    /// It gets no answer.
    Silence,
    /// It is served, and takes this long. Then it fails, if so.
    Serve(Span, Option<Failing>),
    /// It is queued, or shares the servers.
    Wait(Option<Failing>),
}

#[derive(Debug)]
pub(super) struct ServiceState<'a> {
    pub(super) config: &'a Service,
    outages: Outages,
    pub(super) capacity: Capacity,
    /// How many servers of a shard may start work, until `servers_until`.
    pub(super) servers: u32,
    pub(super) servers_until: Deadline,
    pub(super) shards: Vec<Shard>,
    /// How many requests of a shard can be queued, or share its servers.
    most_waiting: u64,
    simple: bool,
    /// Whether only outages and a full queue turn requests away, without hints.
    open: bool,
    /// Requests inside, queued or served.
    pub(super) inside: u32,
    /// Requests that have arrived.
    pub(super) arrived: u64,
    limits: Vec<RateLimit>,
    pub(super) slots: Option<Slots>,
    banned: Vec<Banned>,
    pub(super) stream: Stream,
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
    until: Time,
}

impl<'a> ServiceState<'a> {
    pub(super) fn new(scenario: &'a Scenario, name: &str, stream: Stream) -> Option<Self> {
        let service = scenario.service(name)?;
        let instances = scenario.clients.instances;
        let limits = service.limit.map_or(Vec::new(), |limit| {
            let count = if limit.each_instance { instances } else { 1 };
            (0..count).map(|_| RateLimit::new(&limit.rule())).collect()
        });
        let sharing = match (service.discipline, service.servers) {
            (Discipline::ProcessorSharing, Some(servers)) => servers.0.into(),
            _ => 0,
        };
        // Executions are tracked if work must not be done twice.
        let is_tracked = scenario.clients.work == WorkSafety::Unsafe;
        let places = service.servers.map_or(0, |servers| servers.0.saturating_mul(service.parts()));
        Some(Self {
            config: service,
            outages: Outages::new(scenario, name),
            capacity: Capacity::new(scenario, name),
            servers: 0,
            servers_until: Time::ZERO.into(),
            shards: (0..service.parts()).map(|_| Shard::default()).collect(),
            most_waiting: u64::from(service.queue) + sharing,
            simple: service.servers.is_none()
                && service.calls.is_empty()
                && service.lost_replies == 0.0
                && !is_tracked,
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
    pub(super) fn receive(&mut self, shard: u32, from: Sender, now: Time) -> Reception {
        self.arrived += 1;
        if self.open && !from.recognised {
            return match self.outages.hit(shard, now, &mut self.stream) {
                None => self.take_in(shard, None, now),
                Some(failing) => self.fail(shard, failing, now),
            };
        }
        self.receive_checked(shard, from, now)
    }

    #[inline(never)]
    fn receive_checked(&mut self, shard: u32, from: Sender, now: Time) -> Reception {
        if let Some(slots) = &mut self.slots {
            slots.arrived(f64::from(u8::from(from.first)), now);
        }
        if self.is_banned(&from, now) {
            return self.reject(shard, FailureMode::FORBIDDEN, now);
        }
        if let Some(failing) = self.outages.hit(shard, now, &mut self.stream) {
            return self.fail(shard, failing, now);
        }
        if let Some(answer) = self.refuse(from.instance, now) {
            return self.reject(shard, answer, now);
        }
        let Service { errors, error_cost, .. } = *self.config;
        if errors > 0.0 && self.stream.chance(errors) {
            let failing = Failing { answer: FailureMode::UNAVAILABLE, cost: error_cost as f32 };
            return self.fail(shard, failing, now);
        }
        if from.recognised {
            return Reception::Answer(Outcome::Success);
        }
        self.take_in(shard, None, now)
    }

    /// The answer to a request that limits do not let in.
    #[inline]
    fn refuse(&mut self, from: u32, now: Time) -> Option<FailureMode> {
        let limit = match self.limits.len() {
            0 => None,
            1 => self.limits.first(),
            _ => self.limits.get(from as usize),
        };
        if limit.is_some_and(|limit| limit.take(now).is_err()) {
            return Some(FailureMode::LIMITED);
        }
        let full = self.config.connections.is_some_and(|most| self.inside >= most.0);
        full.then_some(FailureMode::Connect)
    }

    /// A request fails, at once or after its work.
    #[inline]
    fn fail(&mut self, shard: u32, failing: Failing, now: Time) -> Reception {
        if failing.cost > 0.0 {
            return self.take_in(shard, Some(failing), now);
        }
        self.answer(failing.answer, now).map_or(Reception::Silence, Reception::Answer)
    }

    /// A request is turned away at once, which still costs work.
    fn reject(&mut self, shard: u32, answer: FailureMode, now: Time) -> Reception {
        if self.config.reject_cost > 0.0 {
            if self.is_shared() {
                self.progress(shard, now);
                let work = self.rejection_work(shard, now);
                self.shards[shard as usize].sharing.add_rejection(work);
            } else {
                self.shards[shard as usize].rejected += 1;
            }
        }
        self.answer(answer, now).map_or(Reception::Silence, Reception::Answer)
    }

    /// The outcome of a request that is not served, with a hint; `None` if there is no answer.
    #[inline(always)]
    pub(super) fn answer(&mut self, answer: FailureMode, now: Time) -> Option<Outcome> {
        let outcome = answer.outcome()?;
        Some(if self.config.hint == HintGiven::None { outcome } else { self.hint(outcome, now) })
    }

    fn take_in(&mut self, shard: u32, failing: Option<Failing>, now: Time) -> Reception {
        let servers = self.servers(now);
        let is_shared = self.is_shared();
        let it = &mut self.shards[shard as usize];
        if it.busy < servers && !is_shared {
            it.busy += 1;
            self.inside += 1;
            return Reception::Serve(self.work(shard, failing, now), failing);
        }
        if it.waiting() < self.most_waiting {
            self.inside += 1;
            return Reception::Wait(failing);
        }
        self.reject(shard, self.config.when_full, now)
    }

    /// Counts a request that was queued before the start.
    pub(super) fn adopt(&mut self) {
        self.inside += 1;
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
    fn hint(&mut self, outcome: Outcome, now: Time) -> Outcome {
        if !HintGiven::applies_to(&outcome) {
            return outcome;
        }
        let hint = match self.config.hint {
            HintGiven::None => return outcome,
            HintGiven::Fixed(after) => Hint::AtLeast(after.into()),
            HintGiven::Jittered { from, to } => {
                Hint::AtLeast(self.stream.span_between(from, to).into())
            }
            HintGiven::Slots => match self.slots.as_mut().map(|slots| slots.book(now)) {
                Some(Booking::Slot(after)) => Hint::Slot(after.into()),
                Some(Booking::Full(after)) => Hint::AtLeast(after.into()),
                None => return outcome,
            },
        };
        outcome.with_hint(hint)
    }

    /// Whether the instance is banned, counting this request.
    fn is_banned(&mut self, from: &Sender, now: Time) -> bool {
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
