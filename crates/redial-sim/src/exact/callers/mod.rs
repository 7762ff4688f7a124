//! The callers. One that waits for its retry takes 16 bytes; everything else follows from its number and from when
//! its call started.

mod endpoints;
mod starts;

use rand_distr::{Distribution as _, Zipf};
use redial_core::decide::Outcome;
use redial_core::{Call, Deadline, Policy, Resting, Span, Time, draw};

use super::edge::Edge;
use super::flight::Target;
use crate::open_loop::OpenLoop;
use crate::random::below;
use crate::scenario::{Clients, Keys, WorkSafety};
use crate::{Scenario, Stream};
use endpoints::Endpoints;

#[derive(Debug)]
pub(in crate::exact) struct Callers<'a> {
    clients: &'a Clients,
    /// No call begins from then on.
    end: Time,
    open_loop: OpenLoop<'a>,
    thinking: Stream,
    /// How many callers have begun, where all of them begin at once.
    begun: u32,
    /// `None` if there is only one.
    endpoints: Option<Endpoints>,
    all: Vec<Caller>,
    free: Vec<u32>,
    instances: u32,
    /// The instance of each caller; computed from the caller's number if the number of callers is fixed.
    of: Option<Vec<u32>>,
    /// What each caller does next; only where restarts, hedges or releases can make an event stale.
    next: Option<Vec<Next>>,
    /// The process that makes the call of each caller; only where processes are replaced.
    processes: Option<Vec<u32>>,
    /// The race of each caller's call; only with hedges.
    races: Option<Vec<Option<u32>>>,
    /// `None` when keys do not matter.
    keys: Option<KeySource>,
    seed: u64,
    /// When each caller first made the call that it has requeued, if it has.
    origins: Option<Vec<Option<Time>>>,
    /// When the call of each caller may come back according to the last hint; only where early ones are banned.
    not_before: Option<Vec<Time>>,
    /// The last drawn wait of each caller; only where the next one depends on it.
    drawn: Option<Vec<Span>>,
    /// The execution of each caller's call; only where work must not be done twice.
    executions: Option<Vec<u32>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(in crate::exact) struct Caller {
    /// When its call began.
    pub(in crate::exact) started: Time,
    pub(in crate::exact) resting: Resting,
}

/// What a caller does next. Any other event of it is stale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::exact) enum Next {
    /// It makes no call.
    #[default]
    Nothing,
    /// It begins a call.
    Begin(Time),
    /// Its call's wait for a retry, or for the time of a hedge, is over.
    Wake(Time),
    /// Its call waits only for a reply.
    Reply,
}

#[derive(Debug)]
enum KeySource {
    Own,
    Uniform(u64),
    Zipf(Zipf<f64>),
}

impl<'a> Callers<'a> {
    /// `keyed` is whether keys matter.
    pub(in crate::exact) fn new(
        scenario: &'a Scenario,
        edges: &[Edge<'_>],
        keyed: bool,
        seed: u64,
    ) -> Self {
        let clients = &scenario.clients;
        let parks = edges.iter().any(|edge| edge.policy.parks());
        let hedges = edges.iter().any(|edge| edge.most_hedges > 0);
        let remembers = edges.iter().any(|edge| edge.policy.backoff().remembers());
        let fixed = clients.arrivals.callers();
        let count = fixed.unwrap_or(0) as usize;
        let restarts = !scenario.restart.is_empty();
        let is_tracked = clients.work == WorkSafety::Unsafe;
        let streams = Stream::new(seed);
        Self {
            clients,
            end: scenario.end(),
            open_loop: OpenLoop::new(scenario, seed),
            thinking: streams.of(5),
            begun: 0,
            endpoints: Endpoints::new(scenario, streams.of(6)),
            all: vec![Caller::default(); count],
            free: Vec::new(),
            instances: clients.instances,
            of: fixed.is_none().then(Vec::new),
            next: (restarts || hedges || parks).then(|| vec![Next::Nothing; count]),
            processes: (restarts || clients.lifetime.is_some()).then(|| vec![0; count]),
            races: hedges.then(|| vec![None; count]),
            keys: keyed.then(|| KeySource::new(clients)),
            seed: streams.of(2).bits(),
            origins: clients.requeue.map(|_| vec![None; count]),
            drawn: remembers.then(|| vec![Span::ZERO; count]),
            not_before: scenario.backend.ban.map(|_| vec![Time::ZERO; count]),
            executions: is_tracked.then(|| vec![0; count]),
        }
    }

    /// Loads these callers into the cache together. Each is elsewhere in memory, and would otherwise be waited for
    /// in turn.
    #[inline]
    pub(in crate::exact) fn prefetch(&self, numbers: impl Iterator<Item = u32>) {
        // The whole struct: one in four crosses a cache line.
        numbers.for_each(|number| {
            std::hint::black_box(self.all[number as usize]);
        });
    }

    /// Adds a caller for a call of an open loop that begins now.
    pub(in crate::exact) fn add(&mut self, instance: u32, now: Time) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Caller::default());
            self.next.iter_mut().for_each(|all| all.push(Next::Nothing));
            self.processes.iter_mut().for_each(|all| all.push(0));
            self.races.iter_mut().for_each(|all| all.push(None));
            self.executions.iter_mut().for_each(|all| all.push(0));
            self.of.iter_mut().for_each(|of| of.push(0));
            self.not_before.iter_mut().for_each(|not_before| not_before.push(Time::ZERO));
            self.drawn.iter_mut().for_each(|drawn| drawn.push(Span::ZERO));
            self.origins.iter_mut().for_each(|origins| origins.push(None));
            self.all.len() as u32 - 1
        });
        if let Some(of) = &mut self.of {
            of[number as usize] = instance;
        }
        self.set_next(number, Next::Begin(now));
        number
    }

    /// Its call is over. Returns whether the caller stays, to call again.
    fn release(&mut self, number: u32) -> bool {
        if self.of.is_some() {
            self.free.push(number);
        }
        self.of.is_none()
    }

    #[inline]
    pub(in crate::exact) fn get(&mut self, number: u32) -> &mut Caller {
        &mut self.all[number as usize]
    }

    /// Its call starts to wait for its retry.
    #[inline]
    pub(in crate::exact) fn rest(&mut self, number: u32, resting: Resting, drawn: Span) {
        self.all[number as usize].resting = resting;
        if let Some(all) = &mut self.drawn {
            all[number as usize] = drawn;
        }
    }

    /// Its call, after the wait.
    #[inline]
    pub(in crate::exact) fn call(&self, number: u32, policy: &Policy) -> Call {
        let Caller { started, resting } = self.all[number as usize];
        let drawn = self.drawn.as_ref().map_or(Span::ZERO, |all| all[number as usize]);
        Call::wake(resting, drawn, policy, started, Deadline::NONE)
    }

    #[inline]
    pub(in crate::exact) fn started(&self, number: u32) -> Time {
        self.all[number as usize].started
    }

    /// When its call first began.
    pub(in crate::exact) fn origin(&self, number: u32) -> Time {
        let origin = self.origins.as_ref().and_then(|origins| origins[number as usize]);
        origin.unwrap_or_else(|| self.started(number))
    }

    /// Sets whether its next call is the same one again.
    fn set_requeued(&mut self, number: u32, again: bool) {
        let origin = again.then(|| self.origin(number));
        if let Some(origins) = &mut self.origins {
            origins[number as usize] = origin;
        }
    }

    /// Whether its call was requeued.
    pub(in crate::exact) fn is_requeued(&self, number: u32) -> bool {
        self.origins.as_ref().is_some_and(|origins| origins[number as usize].is_some())
    }

    pub(in crate::exact) fn len(&self) -> u32 {
        self.all.len() as u32
    }

    #[inline]
    pub(in crate::exact) fn instance(&self, number: u32) -> u32 {
        match &self.of {
            Some(of) => of[number as usize],
            None => number % self.instances,
        }
    }

    /// The process that makes its call, where processes are replaced.
    #[inline]
    pub(in crate::exact) fn process(&self, number: u32) -> Option<u32> {
        self.processes.as_ref().map(|all| all[number as usize])
    }

    #[inline]
    pub(in crate::exact) fn set_process(&mut self, number: u32, process: u32) {
        if let Some(all) = &mut self.processes {
            all[number as usize] = process;
        }
    }

    /// The endpoint of its next attempt, if there are several.
    #[inline(always)]
    pub(in crate::exact) fn choose_endpoint(
        &mut self,
        number: u32,
        instance: u32,
        is_first: bool,
    ) -> Option<u32> {
        self.endpoints.as_mut().map(|endpoints| endpoints.choose(number, instance, is_first))
    }

    /// The endpoint where its call stays, if calls do.
    pub(in crate::exact) fn endpoint(&self, number: u32) -> Option<u32> {
        self.endpoints.as_ref().and_then(|endpoints| endpoints.of(number))
    }

    /// An attempt is sent.
    #[inline]
    pub(in crate::exact) fn sent(&mut self, target: &Target) {
        if let Some(endpoints) = &mut self.endpoints {
            endpoints.sent(target);
        }
    }

    /// No one waits for an attempt any longer.
    #[inline]
    pub(in crate::exact) fn landed(&mut self, target: &Target) {
        if let Some(endpoints) = &mut self.endpoints {
            endpoints.landed(target);
        }
    }

    /// The execution of its call, where executions are tracked.
    #[inline]
    pub(in crate::exact) fn execution(&self, number: u32) -> u32 {
        self.executions.as_ref().map_or(0, |all| all[number as usize])
    }

    pub(in crate::exact) fn set_execution(&mut self, number: u32, execution: u32) {
        if let Some(all) = &mut self.executions {
            all[number as usize] = execution;
        }
    }

    /// The race of its call, if attempts of it are in flight and can be hedged.
    #[inline]
    pub(in crate::exact) fn race(&self, number: u32) -> Option<u32> {
        self.races.as_ref().and_then(|all| all[number as usize])
    }

    pub(in crate::exact) fn set_race(&mut self, number: u32, race: Option<u32>) {
        if let Some(all) = &mut self.races {
            all[number as usize] = race;
        }
    }

    /// The seed of its call.
    #[inline]
    pub(in crate::exact) fn seed(&self, number: u32) -> u64 {
        self.seed_since(self.started(number), number)
    }

    /// The key of its call; 0 when keys do not matter.
    #[inline]
    pub(in crate::exact) fn key(&self, number: u32) -> u64 {
        match &self.keys {
            None => 0,
            Some(keys) => keys.key(self.seed_since(self.origin(number), number)),
        }
    }

    #[inline]
    fn seed_since(&self, began: Time, number: u32) -> u64 {
        draw(self.seed ^ began.as_nanos(), u64::from(number))
    }

    /// Sets what it does next.
    #[inline]
    pub(in crate::exact) fn set_next(&mut self, number: u32, next: Next) {
        if let Some(all) = &mut self.next {
            all[number as usize] = next;
        }
    }

    /// Whether an event is what it does next, and not stale.
    #[inline]
    pub(in crate::exact) fn is_next(&self, number: u32, event: Next) -> bool {
        self.next.as_ref().is_none_or(|all| all[number as usize] == event)
    }

    /// Whether a call of it is under way.
    pub(in crate::exact) fn calls(&self, number: u32) -> bool {
        let next = self.next.as_ref().map(|all| all[number as usize]);
        matches!(next, Some(Next::Wake(_) | Next::Reply))
    }

    /// Stores when the hint of a response allows the call to come back.
    #[inline]
    pub(in crate::exact) fn set_hint(&mut self, number: u32, outcome: &Outcome, now: Time) {
        if let Some(not_before) = &mut self.not_before {
            not_before[number as usize] =
                now + outcome.hint().map_or(Span::ZERO, |hint| hint.after().into());
        }
    }

    /// Whether the call came back earlier than its last hint allowed.
    #[inline]
    pub(in crate::exact) fn is_early(&self, number: u32, now: Time) -> bool {
        self.not_before.as_ref().is_some_and(|not_before| now < not_before[number as usize])
    }

    /// Whether its call waits for a retry. A call in a race does not, although a hedge may be scheduled.
    pub(in crate::exact) fn rests(&self, number: u32) -> bool {
        let next = self.next.as_ref().map(|all| all[number as usize]);
        matches!(next, Some(Next::Wake(_)))
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
