use std::{error, fmt, io};

use redial_core::{Span, TimeLimit};
use redial_sim::Scenario;
use redial_sim::scenario::{
    Arrivals, Chain, Discipline, FailureMode, HintGiven, Keys, Service, WorkSafety,
};

const MOST_CALLERS: u32 = 100_000;
const MAX_DURATION: Span = Span::from_secs(3_600);

/// A scenario that real traffic supports, with the parameters that a scenario does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveScenario {
    scenario: Scenario,
    pub(crate) timeout: TimeLimit,
    pub(crate) deadline: TimeLimit,
    pub(crate) drain: Span,
    pub(crate) seed: u64,
    /// Whether calls go on after the duration of the scenario. Then nothing is recorded.
    pub(crate) is_endless: bool,
}

/// Why a run is not possible.
#[derive(Debug)]
pub enum Error {
    /// Real traffic does not support this part of the scenario.
    Unsupported {
        /// Its path in the file.
        path: &'static str,
        /// What is supported.
        can: &'static str,
    },
    /// The system refused a thread or a port.
    Io(io::Error),
}

impl LiveScenario {
    /// A scenario as real traffic. Defaults: attempts have no timeout and calls no deadline, calls have a minute to end, and
    /// the seed is 1.
    ///
    /// # Errors
    ///
    /// The scenario has a part that real traffic does not support; the error names it. Supported are calls at a
    /// rate or in a closed loop, and a backend with servers, a queue, outages, brownouts, capacity losses, cold caches
    /// and pauses.
    pub fn of(scenario: &Scenario) -> Result<Self, Error> {
        match unsupported(scenario) {
            Some((path, can)) => Err(Error::Unsupported { path, can }),
            None => {
                let (scenario, drain) = (scenario.clone(), Span::from_secs(60));
                let (timeout, deadline) = (TimeLimit::NONE, TimeLimit::NONE);
                Ok(Self { scenario, timeout, deadline, drain, seed: 1, is_endless: false })
            }
        }
    }

    /// The timeout of an attempt, for callers without their own. The backend still finishes its work.
    pub fn timeout(self, timeout: impl Into<TimeLimit>) -> Self {
        Self { timeout: timeout.into(), ..self }
    }

    /// The deadline of a call: one that succeeds later than this after its scheduled start counts as failed. Callers have to
    /// give up themselves.
    pub fn deadline(self, deadline: impl Into<TimeLimit>) -> Self {
        Self { deadline: deadline.into(), ..self }
    }

    /// How long calls may continue after the duration of the scenario; then they are aborted.
    pub fn drain(self, drain: Span) -> Self {
        Self { drain, ..self }
    }

    /// The seed of the callers and the backend. Network and threads are not seeded.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    pub(crate) fn endless(self) -> Self {
        Self { is_endless: true, ..self }
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }
}

/// The first part of a scenario that real traffic does not support, and what it does support.
fn unsupported(scenario: &Scenario) -> Option<(&'static str, &'static str)> {
    let of_clients = clients(scenario).into_iter();
    let all = of_clients.chain(service(&scenario.backend)).chain(faults(scenario));
    all.filter(|(is_unsupported, ..)| *is_unsupported).map(|(_, path, can)| (path, can)).next()
}

type Part = (bool, &'static str, &'static str);

const ABSENT: &str = "leave it out";

fn clients(scenario: &Scenario) -> [Part; 11] {
    let clients = &scenario.clients;
    let arrivals = &clients.arrivals;
    let is_unsupported = matches!(arrivals, Arrivals::Ramp { .. } | Arrivals::Synchronised { .. });
    let many = arrivals.callers().is_some_and(|callers| callers > MOST_CALLERS);
    let latency = "leave it out: loopback has its own latency";
    [
        (scenario.duration > MAX_DURATION, "duration", "at most an hour"),
        (is_unsupported, "clients.arrivals", "constant, poisson or closed"),
        (many, "clients.arrivals.closed.callers", "at most 100,000"),
        (clients.keys != Keys::Own, "clients.keys", "leave it out: every call has its own key"),
        (clients.work != WorkSafety::Idempotent, "clients.work", "idempotent"),
        (clients.keyed, "clients.keyed", ABSENT),
        (!clients.others.is_empty(), "clients.others", ABSENT),
        (clients.lifetime.is_some(), "clients.lifetime", ABSENT),
        (clients.requeue.is_some(), "clients.requeue", ABSENT),
        (!clients.latency.is_zero(), "clients.latency", latency),
        (scenario.chain != Chain::default(), "chain", ABSENT),
    ]
}

fn service(backend: &Service) -> [Part; 17] {
    let is_full = backend.servers.is_some() && backend.when_full != FailureMode::UNAVAILABLE;
    let grows = !backend.service.per_request.is_zero();
    [
        (backend.backlog > 0, "backend.backlog", "0"),
        (is_full, "backend.when_full", "503"),
        (backend.discipline != Discipline::Fifo, "backend.discipline", "fifo"),
        (backend.reject_cost > 0.0, "backend.reject_cost", "0"),
        (backend.cancel, "backend.cancel", "false"),
        (backend.connections.is_some(), "backend.connections", ABSENT),
        (backend.shards != 1, "backend.shards", "1"),
        (backend.endpoints != 1, "backend.endpoints", "1"),
        (
            backend.errors > 0.0,
            "backend.errors",
            "0; a brownout from start to end has the same effect",
        ),
        (backend.lost_replies > 0.0, "backend.lost_replies", ABSENT),
        (backend.limit.is_some(), "backend.limit", ABSENT),
        (backend.hint != HintGiven::None, "backend.hint", ABSENT),
        (backend.ban.is_some(), "backend.ban", ABSENT),
        (!backend.calls.is_empty(), "backend.calls", "leave it out"),
        (!backend.latency.is_zero(), "backend.latency", ABSENT),
        (backend.service.is_zero(), "backend.service", "a time above zero"),
        (grows, "backend.service.per_request", ABSENT),
    ]
}

fn faults(scenario: &Scenario) -> [Part; 7] {
    let mut outages = scenario.outage.iter();
    let mut brownouts = scenario.brownout.iter();
    [
        (outages.any(|it| it.answer != FailureMode::UNAVAILABLE), "outage.answer", "503"),
        (brownouts.any(|it| it.answer != FailureMode::UNAVAILABLE), "brownout.answer", "503"),
        (scenario.outage.iter().any(|it| it.cost > 0.0), "outage.cost", "0"),
        (scenario.brownout.iter().any(|it| it.cost > 0.0), "brownout.cost", "0"),
        (!scenario.spike.is_empty(), "spike", ABSENT),
        (!scenario.restart.is_empty(), "restart", ABSENT),
        (!scenario.switched_off.is_empty(), "switched_off", ABSENT),
    ]
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { path, can } => {
                write!(f, "real traffic does not support this `{path}`; supported: {can}")
            }
            Self::Io(error) => write!(f, "cannot run traffic on loopback: {error}"),
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
