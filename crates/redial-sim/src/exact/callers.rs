//! The callers. One that waits for its retry takes 16 bytes; everything else follows from its number and from when
//! its call started.

use rand_distr::{Distribution as _, Zipf};
use redial_core::decide::Outcome;
use redial_core::{Call, NEVER, Nanos, Policy, Resting, draw, nanos};

use super::edge::Edge;
use super::slab::Slab;
use crate::random::below;
use crate::scenario::{Clients, Keys, Work};
use crate::{Scenario, Stream};

#[derive(Debug)]
pub(super) struct Callers {
    all: Vec<Caller>,
    free: Vec<u32>,
    instances: u32,
    /// The instance of each caller; computed from the caller's number if the number of callers is fixed.
    of: Option<Vec<u32>>,
    /// The next event of each caller; only where restarts, hedges or releases can make an event stale.
    next_events: Option<Vec<NextEvent>>,
    /// The process that makes the call of each caller; only where processes are replaced.
    processes: Option<Vec<u32>>,
    /// The race of each caller's call; only with hedges.
    races: Option<Vec<Option<u32>>>,
    /// `None` when keys do not matter.
    keys: Option<KeySource>,
    seed: u64,
    /// When each caller first made the call that it has requeued; [`NEVER`] when it is a new one.
    origins: Option<Vec<Nanos>>,
    /// When the call of each caller may come back according to the last hint; only where early ones are banned.
    not_before: Option<Vec<Nanos>>,
    /// The last drawn wait of each caller; only where the next one depends on it.
    drawn: Option<Vec<Nanos>>,
    /// The executions of each call; only where work must not be done twice.
    pub(super) executions: Option<Executions>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Caller {
    /// When its call began.
    pub(super) started: Nanos,
    pub(super) resting: Resting,
}

/// The next event of a caller. An event at another time is stale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NextEvent {
    pub(super) calls: bool,
    pub(super) at: Nanos,
}

#[derive(Debug)]
enum KeySource {
    Own,
    Uniform(u64),
    Zipf(Zipf<f64>),
}

/// How often the work of each call was executed.
#[derive(Debug, Default)]
pub(super) struct Executions {
    all: Slab<Execution>,
    /// The execution of each caller's call.
    of: Vec<u32>,
    keyed: bool,
}

#[derive(Debug)]
struct Execution {
    /// How many hold it: the call, and its attempts in flight.
    held: u32,
    done: bool,
}

impl Callers {
    /// `keyed` is whether keys matter.
    pub(super) fn new(scenario: &Scenario, edges: &[Edge<'_>], keyed: bool, seed: u64) -> Self {
        let clients = &scenario.clients;
        let parks = edges.iter().any(|edge| edge.policy.parks());
        let hedges = edges.iter().any(|edge| edge.most_hedges > 0);
        let remembers = edges.iter().any(|edge| edge.policy.backoff().remembers());
        let fixed = clients.arrivals.callers();
        let count = fixed.unwrap_or(0) as usize;
        let restarts = !scenario.restart.is_empty();
        let track = clients.work == Work::Unsafe;
        Self {
            all: vec![Caller::default(); count],
            free: Vec::new(),
            instances: clients.instances,
            of: fixed.is_none().then(Vec::new),
            next_events: (restarts || hedges || parks).then(|| vec![NextEvent::default(); count]),
            processes: (restarts || clients.lifetime.is_some()).then(|| vec![0; count]),
            races: hedges.then(|| vec![None; count]),
            keys: keyed.then(|| KeySource::new(clients)),
            seed: Stream::new(seed).of(2).bits(),
            origins: clients.requeue.map(|_| vec![NEVER; count]),
            drawn: remembers.then(|| vec![0; count]),
            not_before: scenario.backend.ban.map(|_| vec![0; count]),
            executions: track.then(|| Executions {
                of: vec![0; count],
                keyed: clients.keyed,
                ..Executions::default()
            }),
        }
    }

    /// Loads these callers into the cache together. Each is elsewhere in memory, and would otherwise be waited for
    /// in turn.
    #[inline]
    pub(super) fn prefetch(&self, numbers: impl Iterator<Item = u32>) {
        // The whole struct: one in four crosses a cache line.
        numbers.for_each(|number| {
            std::hint::black_box(self.all[number as usize]);
        });
    }

    /// Adds a caller for a call of an open loop.
    pub(super) fn add(&mut self, instance: u32) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Caller::default());
            self.next_events.iter_mut().for_each(|all| all.push(NextEvent::default()));
            self.processes.iter_mut().for_each(|all| all.push(0));
            self.races.iter_mut().for_each(|all| all.push(None));
            self.executions.iter_mut().for_each(|executions| executions.of.push(0));
            self.of.iter_mut().for_each(|of| of.push(0));
            self.not_before.iter_mut().for_each(|not_before| not_before.push(0));
            self.drawn.iter_mut().for_each(|drawn| drawn.push(0));
            self.origins.iter_mut().for_each(|origins| origins.push(NEVER));
            self.all.len() as u32 - 1
        });
        if let Some(of) = &mut self.of {
            of[number as usize] = instance;
        }
        number
    }

    /// Its call is over. Returns whether the caller stays, to call again.
    pub(super) fn release(&mut self, number: u32) -> bool {
        if self.of.is_some() {
            self.free.push(number);
        }
        self.of.is_none()
    }

    #[inline]
    pub(super) fn get(&mut self, number: u32) -> &mut Caller {
        &mut self.all[number as usize]
    }

    /// Its call starts to wait for its retry.
    #[inline]
    pub(super) fn rest(&mut self, number: u32, resting: Resting, drawn: Nanos) {
        self.all[number as usize].resting = resting;
        if let Some(all) = &mut self.drawn {
            all[number as usize] = drawn;
        }
    }

    /// Its call, after the wait.
    #[inline]
    pub(super) fn call(&self, number: u32, policy: &Policy) -> Call {
        let Caller { started, resting } = self.all[number as usize];
        let drawn = self.drawn.as_ref().map_or(0, |all| all[number as usize]);
        Call::wake(resting, drawn, policy, started, NEVER)
    }

    #[inline]
    pub(super) fn started(&self, number: u32) -> Nanos {
        self.all[number as usize].started
    }

    /// When its call first began.
    pub(super) fn origin(&self, number: u32) -> Nanos {
        let origin = self.origins.as_ref().map(|origins| origins[number as usize]);
        origin.filter(|origin| *origin != NEVER).unwrap_or_else(|| self.started(number))
    }

    /// Sets whether its next call is the same one again.
    pub(super) fn set_requeued(&mut self, number: u32, again: bool) {
        let origin = if again { self.origin(number) } else { NEVER };
        if let Some(origins) = &mut self.origins {
            origins[number as usize] = origin;
        }
    }

    /// Whether its call was requeued.
    pub(super) fn is_requeued(&self, number: u32) -> bool {
        self.origins.as_ref().is_some_and(|origins| origins[number as usize] != NEVER)
    }

    pub(super) fn len(&self) -> u32 {
        self.all.len() as u32
    }

    #[inline]
    pub(super) fn instance(&self, number: u32) -> u32 {
        match &self.of {
            Some(of) => of[number as usize],
            None => number % self.instances,
        }
    }

    /// The process that makes its call, where processes are replaced.
    #[inline]
    pub(super) fn process(&self, number: u32) -> Option<u32> {
        self.processes.as_ref().map(|all| all[number as usize])
    }

    #[inline]
    pub(super) fn set_process(&mut self, number: u32, process: u32) {
        if let Some(all) = &mut self.processes {
            all[number as usize] = process;
        }
    }

    /// The race of its call, if attempts of it are in flight and can be hedged.
    #[inline]
    pub(super) fn race(&self, number: u32) -> Option<u32> {
        self.races.as_ref().and_then(|all| all[number as usize])
    }

    pub(super) fn set_race(&mut self, number: u32, race: Option<u32>) {
        if let Some(all) = &mut self.races {
            all[number as usize] = race;
        }
    }

    /// The seed of its call.
    #[inline]
    pub(super) fn seed(&self, number: u32) -> u64 {
        draw(self.seed ^ self.started(number), u64::from(number))
    }

    /// The key of its call; 0 when keys do not matter.
    #[inline]
    pub(super) fn key(&self, number: u32) -> u64 {
        match &self.keys {
            None => 0,
            Some(keys) => keys.key(draw(self.seed ^ self.origin(number), u64::from(number))),
        }
    }

    /// Sets its next event. `calls` is whether a call is under way.
    #[inline]
    pub(super) fn schedule(&mut self, number: u32, calls: bool, at: Nanos) {
        if let Some(all) = &mut self.next_events {
            all[number as usize] = NextEvent { calls, at };
        }
    }

    /// Whether an event is not stale: the end of a wait if `calls`, else the start of a call.
    #[inline]
    pub(super) fn is_due(&self, number: u32, calls: bool, now: Nanos) -> bool {
        let event = NextEvent { calls, at: now };
        self.next_events.as_ref().is_none_or(|all| all[number as usize] == event)
    }

    pub(super) fn calls(&self, number: u32) -> bool {
        self.next_events.as_ref().is_some_and(|all| all[number as usize].calls)
    }

    /// Stores when the hint of a response allows the call to come back.
    #[inline]
    pub(super) fn set_hint(&mut self, number: u32, outcome: &Outcome, now: Nanos) {
        if let Some(not_before) = &mut self.not_before {
            not_before[number as usize] =
                now + outcome.hint().map_or(0, |hint| nanos(hint.after()));
        }
    }

    /// Whether the call came back earlier than its last hint allowed.
    #[inline]
    pub(super) fn is_early(&self, number: u32, now: Nanos) -> bool {
        self.not_before.as_ref().is_some_and(|not_before| now < not_before[number as usize])
    }

    /// Whether its call waits for a retry. A call in a race does not, although a hedge may be scheduled.
    pub(super) fn rests(&self, number: u32) -> bool {
        let next = self.next_events.as_ref().map(|all| all[number as usize]);
        next.is_some_and(|next| next.calls && next.at != NEVER)
    }

    /// It waits only for a reply.
    #[inline]
    pub(super) fn await_reply(&mut self, number: u32) {
        self.schedule(number, true, NEVER);
    }
}

impl KeySource {
    fn new(clients: &Clients) -> Self {
        match clients.keys {
            Keys::Own => Self::Own,
            Keys::Uniform { keys } => Self::Uniform(keys.into()),
            Keys::Zipf { keys, exponent } => match Zipf::new(f64::from(keys), exponent) {
                Ok(zipf) => Self::Zipf(zipf),
                Err(_) => Self::Own,
            },
        }
    }
}

impl KeySource {
    /// Never 0.
    #[inline(never)]
    fn key(&self, seed: u64) -> u64 {
        match self {
            Self::Own => draw(seed, 1) | 1,
            Self::Uniform(keys) => 1 + below(draw(seed, 1), *keys),
            Self::Zipf(zipf) => zipf.sample(&mut Stream::new(seed)) as u64,
        }
    }
}

impl Executions {
    /// Starts a call.
    pub(super) fn begin(&mut self, caller: u32) {
        let execution = self.without_caller();
        self.of[caller as usize] = execution;
    }

    /// For a request without a caller.
    pub(super) fn without_caller(&mut self) -> u32 {
        self.all.add(Execution { held: 1, done: false })
    }

    pub(super) fn of(&self, caller: u32) -> u32 {
        self.of[caller as usize]
    }

    pub(super) fn hold(&mut self, execution: u32) {
        self.all.get(execution).held += 1;
    }

    pub(super) fn release(&mut self, execution: u32) {
        let it = self.all.get(execution);
        it.held -= 1;
        if it.held == 0 {
            self.all.remove(execution);
        }
    }

    /// Whether the backend recognises the request's key as one that it has served.
    pub(super) fn is_recognised(&mut self, execution: u32) -> bool {
        self.keyed && self.all.get(execution).done
    }

    /// Executes the work. Returns whether that made a duplicate.
    pub(super) fn perform(&mut self, execution: u32) -> bool {
        let it = self.all.get(execution);
        std::mem::replace(&mut it.done, true) && !self.keyed
    }
}
