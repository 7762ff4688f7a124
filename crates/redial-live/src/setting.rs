use std::{error, fmt, io};

use redial_core::{Nanos, SECOND};
use redial_sim::Scenario;
use redial_sim::scenario::{Answer, Arrivals, Chain, HintGiven, Keys, Service, Work};

const MOST_CALLERS: u32 = 100_000;
const LONGEST: Nanos = 3_600 * SECOND;

/// What is run: a scenario that real traffic can do, and what a scenario does not say.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    scenario: Scenario,
    pub(crate) timeout: Option<Nanos>,
    pub(crate) drain: Nanos,
    pub(crate) seed: u64,
}

/// Why there is no traffic.
#[derive(Debug)]
pub enum Error {
    /// Real traffic cannot do this part of a scenario.
    Unsupported {
        /// Its path in the file.
        path: &'static str,
        /// What can be done.
        can: &'static str,
    },
    /// The machine would not give us a thread or a port.
    Io(io::Error),
}

impl Setting {
    /// A scenario as real traffic. Nobody stops waiting, calls get a minute to end, and the seed is 1.
    ///
    /// # Errors
    ///
    /// There is more to the scenario than callers that come at a rate or think between calls, and a backend with servers
    /// and a queue that is down at times: the error names what.
    pub fn of(scenario: &Scenario) -> Result<Self, Error> {
        match unsupported(scenario) {
            Some((path, can)) => Err(Error::Unsupported { path, can }),
            None => {
                Ok(Self { scenario: scenario.clone(), timeout: None, drain: 60 * SECOND, seed: 1 })
            }
        }
    }

    /// How long a caller waits for the answer to an attempt, for ways of retrying that do not say so themselves.
    /// The backend works on it all the same.
    pub fn timeout(self, timeout: Nanos) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// How much longer than the scenario calls may take that have begun in it; what is unfinished then is cut off.
    pub fn drain(self, drain: Nanos) -> Self {
        Self { drain, ..self }
    }

    /// Names the random numbers of callers and backend. What the network and the threads do has no seed.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// What it was made of.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }
}

/// The first part of a scenario that real traffic cannot do, and what it can.
fn unsupported(scenario: &Scenario) -> Option<(&'static str, &'static str)> {
    let of_clients = clients(scenario).into_iter();
    let all = of_clients.chain(service(&scenario.backend)).chain(faults(scenario));
    all.filter(|(is_unsupported, ..)| *is_unsupported).map(|(_, path, can)| (path, can)).next()
}

type Part = (bool, &'static str, &'static str);

const ABSENT: &str = "it has to be left out";

fn clients(scenario: &Scenario) -> [Part; 9] {
    let clients = &scenario.clients;
    let arrivals = &clients.arrivals;
    let comes = matches!(arrivals, Arrivals::Ramp { .. } | Arrivals::Synchronised { .. });
    let many = arrivals.callers().is_some_and(|callers| callers > MOST_CALLERS);
    let latency = "loopback takes the time that it takes";
    [
        (scenario.duration > LONGEST, "duration", "at most an hour"),
        (comes, "clients.arrivals", "constant, poisson or closed"),
        (many, "clients.arrivals.closed.callers", "at most 100,000"),
        (clients.keys != Keys::Own, "clients.keys", "every call about something of its own"),
        (clients.work != Work::Idempotent, "clients.work", "work that may be done twice"),
        (clients.keyed, "clients.keyed", ABSENT),
        (clients.requeue.is_some(), "clients.requeue", ABSENT),
        (!clients.latency.is_zero(), "clients.latency", latency),
        (scenario.chain != Chain::default(), "chain", ABSENT),
    ]
}

fn service(backend: &Service) -> [Part; 13] {
    let is_full = backend.servers.is_some() && backend.when_full != Answer::UNAVAILABLE;
    [
        (backend.backlog > 0, "backend.backlog", "an empty queue at the start"),
        (is_full, "backend.when_full", "503"),
        (backend.cancel, "backend.cancel", "work goes on when its caller has given up"),
        (backend.connections.is_some(), "backend.connections", ABSENT),
        (backend.shards != 1, "backend.shards", "one"),
        (backend.errors > 0.0, "backend.errors", "a brownout from start to end does the same"),
        (backend.lost_replies > 0.0, "backend.lost_replies", ABSENT),
        (backend.limit.is_some(), "backend.limit", ABSENT),
        (backend.hint != HintGiven::None, "backend.hint", ABSENT),
        (backend.ban.is_some(), "backend.ban", ABSENT),
        (!backend.calls.is_empty(), "backend.calls", "a backend that calls nobody"),
        (!backend.latency.is_zero(), "backend.latency", ABSENT),
        (backend.service.is_zero(), "backend.service", "work that takes time"),
    ]
}

fn faults(scenario: &Scenario) -> [Part; 8] {
    let mut outages = scenario.outage.iter();
    let mut brownouts = scenario.brownout.iter();
    [
        (outages.any(|it| it.answer != Answer::UNAVAILABLE), "outage.answer", "503"),
        (brownouts.any(|it| it.answer != Answer::UNAVAILABLE), "brownout.answer", "503"),
        (!scenario.capacity_loss.is_empty(), "capacity_loss", ABSENT),
        (!scenario.cold_cache.is_empty(), "cold_cache", ABSENT),
        (!scenario.pause.is_empty(), "pause", ABSENT),
        (!scenario.spike.is_empty(), "spike", ABSENT),
        (!scenario.restart.is_empty(), "restart", ABSENT),
        (!scenario.switched_off.is_empty(), "switched_off", ABSENT),
    ]
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { path, can } => {
                write!(f, "real traffic cannot do what `{path}` says; what it can do: {can}")
            }
            Self::Io(error) => write!(f, "no traffic on loopback: {error}"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Unsupported { .. } => None,
            Self::Io(error) => Some(error),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
