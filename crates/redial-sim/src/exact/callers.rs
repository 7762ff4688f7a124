//! Those who call. A caller that waits for its retry is 16 bytes; what else there is to know about it follows
//! from its number and from when its call started.

use rand_distr::{Distribution as _, Zipf};
use redial_core::decide::Outcome;
use redial_core::{Call, NEVER, Nanos, Policy, Resting, draw, nanos};

use super::slab::Slab;
use crate::random::below;
use crate::scenario::{Clients, Keys, Work};
use crate::{Scenario, Stream};

#[derive(Debug)]
pub(super) struct Callers {
    all: Vec<Caller>,
    free: Vec<u32>,
    instances: u32,
    /// The instance of each caller; where there is a fixed number of callers it follows from theirs.
    of: Option<Vec<u32>>,
    /// What each of them does, if that can be cut short.
    watched: Option<Vec<Doing>>,
    /// How often each instance was restarted; empty when none ever is.
    generations: Vec<u32>,
    /// `None` when nothing goes by it.
    keys: Option<KeyMaker>,
    seed: u64,
    /// When each caller first made the call that it makes again and again; [`NEVER`] when it is a new one.
    origins: Option<Vec<Nanos>>,
    /// When the call of each caller was told to come back, if somebody minds.
    told: Option<Vec<Nanos>>,
    /// The last drawn wait of each caller, if the next one builds on it.
    drawn: Option<Vec<Nanos>>,
    /// What was done for each call, if it must not be done twice.
    pub(super) deeds: Option<Deeds>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Caller {
    /// When its call began.
    pub(super) started: Nanos,
    pub(super) resting: Resting,
}

/// What a caller does, and when that ends; an event for another time is of an earlier life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Doing {
    pub(super) calls: bool,
    pub(super) due: Nanos,
}

#[derive(Debug)]
enum KeyMaker {
    Own,
    Uniform(u64),
    Zipf(Zipf<f64>),
}

/// How often the work of a call was done.
#[derive(Debug, Default)]
pub(super) struct Deeds {
    all: Slab<Deed>,
    /// Of each caller's call.
    of: Vec<u32>,
    keyed: bool,
}

#[derive(Debug)]
struct Deed {
    /// The call, and attempts of it that are on their way.
    held: u32,
    done: bool,
}

impl Callers {
    /// `keyed` says whether it matters what calls are about.
    pub(super) fn new(scenario: &Scenario, policy: &Policy, keyed: bool, seed: u64) -> Self {
        let clients = &scenario.clients;
        let fixed = clients.arrivals.callers();
        let count = fixed.unwrap_or(0) as usize;
        let restarts = !scenario.restart.is_empty();
        let track = clients.work == Work::Unsafe;
        Self {
            all: vec![Caller::default(); count],
            free: Vec::new(),
            instances: clients.instances,
            of: fixed.is_none().then(Vec::new),
            watched: restarts.then(|| vec![Doing::default(); count]),
            generations: vec![0; if restarts { clients.instances as usize } else { 0 }],
            keys: keyed.then(|| KeyMaker::new(clients)),
            seed: Stream::new(seed).of(2).bits(),
            origins: clients.requeue.map(|_| vec![NEVER; count]),
            drawn: policy.backoff().remembers().then(|| vec![0; count]),
            told: scenario.backend.ban.map(|_| vec![0; count]),
            deeds: track.then(|| Deeds {
                of: vec![0; count],
                keyed: clients.keyed,
                ..Deeds::default()
            }),
        }
    }

    /// Has these at hand. Each of them is somewhere else in memory: one after the other, every one of them would be
    /// waited for.
    #[inline]
    pub(super) fn fetch(&self, numbers: impl Iterator<Item = u32>) {
        // All of it: one in four lies across two lines.
        numbers.for_each(|number| {
            std::hint::black_box(self.all[number as usize]);
        });
    }

    /// A caller for a call that nobody was waiting to make.
    pub(super) fn hire(&mut self, instance: u32) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Caller::default());
            self.watched.iter_mut().for_each(|all| all.push(Doing::default()));
            self.deeds.iter_mut().for_each(|deeds| deeds.of.push(0));
            self.of.iter_mut().for_each(|of| of.push(0));
            self.told.iter_mut().for_each(|told| told.push(0));
            self.drawn.iter_mut().for_each(|drawn| drawn.push(0));
            self.origins.iter_mut().for_each(|origins| origins.push(NEVER));
            self.all.len() as u32 - 1
        });
        if let Some(of) = &mut self.of {
            of[number as usize] = instance;
        }
        number
    }

    /// Its call is over. Says whether it stays, to call again.
    pub(super) fn dismiss(&mut self, number: u32) -> bool {
        if self.of.is_some() {
            self.free.push(number);
        }
        self.of.is_none()
    }

    #[inline]
    pub(super) fn get(&mut self, number: u32) -> &mut Caller {
        &mut self.all[number as usize]
    }

    /// Its call waits for its retry.
    #[inline]
    pub(super) fn rest(&mut self, number: u32, resting: Resting, drawn: Nanos) {
        self.all[number as usize].resting = resting;
        if let Some(all) = &mut self.drawn {
            all[number as usize] = drawn;
        }
    }

    /// Its call, after it has waited.
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

    /// When its call began for the first time.
    pub(super) fn origin(&self, number: u32) -> Nanos {
        let origin = self.origins.as_ref().map(|origins| origins[number as usize]);
        origin.filter(|origin| *origin != NEVER).unwrap_or_else(|| self.started(number))
    }

    /// Its call is the same as before; or the next one is another.
    pub(super) fn begins_anew(&mut self, number: u32, again: bool) {
        let origin = if again { self.origin(number) } else { NEVER };
        if let Some(origins) = &mut self.origins {
            origins[number as usize] = origin;
        }
    }

    /// Whether it makes the same call again.
    pub(super) fn is_again(&self, number: u32) -> bool {
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

    #[inline]
    pub(super) fn generation(&self, instance: u32) -> u32 {
        self.generations.get(instance as usize).copied().unwrap_or(0)
    }

    /// The instances below this number forget everything.
    pub(super) fn restart(&mut self, below: u32) {
        self.generations.iter_mut().take(below as usize).for_each(|generation| *generation += 1);
    }

    /// Names the random numbers of a call.
    #[inline]
    pub(super) fn seed(&self, number: u32) -> u64 {
        draw(self.seed ^ self.started(number), u64::from(number))
    }

    /// What the call is about; 0 when that does not matter.
    #[inline]
    pub(super) fn key(&self, number: u32) -> u64 {
        match &self.keys {
            None => 0,
            Some(keys) => keys.key(draw(self.seed ^ self.origin(number), u64::from(number))),
        }
    }

    /// Its next event is then. `calls` says whether a call is under way.
    #[inline]
    pub(super) fn will(&mut self, number: u32, calls: bool, due: Nanos) {
        if let Some(watched) = &mut self.watched {
            watched[number as usize] = Doing { calls, due };
        }
    }

    /// Whether an event is of this life of the caller: the end of its wait if it calls, else a beginning.
    #[inline]
    pub(super) fn is_due(&self, number: u32, calls: bool, now: Nanos) -> bool {
        let doing = Doing { calls, due: now };
        self.watched.as_ref().is_none_or(|watched| watched[number as usize] == doing)
    }

    pub(super) fn calls(&self, number: u32) -> bool {
        self.watched.as_ref().is_some_and(|watched| watched[number as usize].calls)
    }

    /// The caller's call hears when to come back.
    #[inline]
    pub(super) fn tell(&mut self, number: u32, outcome: &Outcome, now: Nanos) {
        if let Some(told) = &mut self.told {
            told[number as usize] = now + outcome.hint().map_or(0, |hint| nanos(hint.after()));
        }
    }

    /// Whether the caller's call was told to come later.
    #[inline]
    pub(super) fn is_early(&self, number: u32, now: Nanos) -> bool {
        self.told.as_ref().is_some_and(|told| now < told[number as usize])
    }

    /// Whether a call is under way that waits for its retry.
    pub(super) fn rests(&self, number: u32) -> bool {
        let doing = self.watched.as_ref().map(|watched| watched[number as usize]);
        doing.is_some_and(|doing| doing.calls && doing.due != NEVER)
    }

    /// It is not waiting for anything but a reply.
    #[inline]
    pub(super) fn sends(&mut self, number: u32) {
        self.will(number, true, NEVER);
    }
}

impl KeyMaker {
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

impl KeyMaker {
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

impl Deeds {
    /// A call begins.
    pub(super) fn begin(&mut self, caller: u32) {
        let deed = self.of_nobody();
        self.of[caller as usize] = deed;
    }

    /// For a request that no caller has made.
    pub(super) fn of_nobody(&mut self) -> u32 {
        self.all.add(Deed { held: 1, done: false })
    }

    pub(super) fn of(&self, caller: u32) -> u32 {
        self.of[caller as usize]
    }

    pub(super) fn hold(&mut self, deed: u32) {
        self.all.get(deed).held += 1;
    }

    pub(super) fn release(&mut self, deed: u32) {
        let it = self.all.get(deed);
        it.held -= 1;
        if it.held == 0 {
            self.all.remove(deed);
        }
    }

    /// Whether the backend recognises the request as one that it has done.
    pub(super) fn is_recognised(&mut self, deed: u32) -> bool {
        self.keyed && self.all.get(deed).done
    }

    /// The work is done. Says whether it was done once too often.
    pub(super) fn perform(&mut self, deed: u32) -> bool {
        let it = self.all.get(deed);
        std::mem::replace(&mut it.done, true) && !self.keyed
    }
}
