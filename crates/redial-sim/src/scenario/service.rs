use std::fmt;
use std::time::Duration;

use redial_core::admit::RateRule;
use redial_core::decide::{Class, Failure, Outcome};
use redial_core::{Rate, Span};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use super::how_long::HowLong;
use super::service_time::ServiceTime;
use super::text::{count, duration, positive, share, some_time};

/// The longest queue that a scenario may have.
pub(super) const LONGEST_QUEUE: u32 = 100_000_000;

/// The backend, or a service that it calls.
///
/// Defaults: unlimited servers that take no time, requests in order of arrival, work continues when its caller has
/// given up, rejections and errors cost no work, no lost replies, no hints.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Service {
    /// How many requests each shard or endpoint serves at once; unlimited if absent.
    pub servers: Option<Servers>,
    /// How long a server takes for a request.
    pub service: ServiceTime,
    /// Which of the waiting requests is served next.
    pub discipline: Discipline,
    /// How many requests can wait for a server of a shard or endpoint.
    #[serde(deserialize_with = "count::<_, 0, LONGEST_QUEUE>")]
    pub queue: u32,
    /// How many requests are queued at the start, without waiting callers: left by an earlier fault.
    #[serde(deserialize_with = "count::<_, 0, LONGEST_QUEUE>")]
    pub backlog: u32,
    /// What requests get when the queue is full.
    pub when_full: FailureMode,
    /// What a rejected request costs, as a share of a service time: one that finds the queue full, no connection, or is
    /// above the rate limit. It is answered at once, and a server does this work ahead of the queue.
    #[serde(deserialize_with = "share")]
    pub reject_cost: f64,
    /// Whether a request leaves the queue when its caller gives up. Otherwise it is still served.
    pub cancel: bool,
    /// How many requests can be inside at once, including requests that wait for other services; others get no
    /// connection.
    pub connections: Option<Servers>,
    /// Partitions with their own servers and queues. A key always goes to the same one.
    #[serde(deserialize_with = "count::<_, 1, 4096>")]
    pub shards: u32,
    /// Copies with their own servers and queues, among which the client chooses. Only the backend has them.
    #[serde(deserialize_with = "count::<_, 1, 64>")]
    pub endpoints: u32,
    /// The share of requests that fail at random.
    #[serde(deserialize_with = "share")]
    pub errors: f64,
    /// What such a request costs, as a share of a service time. Above zero it is queued and served like any other, and
    /// fails after this work.
    #[serde(deserialize_with = "share")]
    pub error_cost: f64,
    /// The share of replies that are lost. The work is done nevertheless.
    #[serde(deserialize_with = "share")]
    pub lost_replies: f64,
    /// The rate limit.
    pub limit: Option<Limit>,
    /// The hint in responses that turn requests away.
    pub hint: HintGiven,
    /// What happens to clients that ignore hints.
    pub ban: Option<Ban>,
    /// The services that it calls for each request, in sequence.
    pub calls: Vec<String>,
    /// The policy of these calls, if not the one under test.
    pub policy: Option<String>,
    /// How long a request or a reply takes to or from another service.
    pub latency: HowLong,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            servers: None,
            service: ServiceTime::default(),
            discipline: Discipline::Fifo,
            queue: 0,
            backlog: 0,
            when_full: FailureMode::UNAVAILABLE,
            reject_cost: 0.0,
            cancel: false,
            connections: None,
            shards: 1,
            endpoints: 1,
            errors: 0.0,
            error_cost: 0.0,
            lost_replies: 0.0,
            limit: None,
            hint: HintGiven::None,
            ban: None,
            calls: Vec::new(),
            policy: None,
            latency: HowLong::default(),
        }
    }
}

impl Service {
    /// How many shards or endpoints there are. A service has only one of the two.
    pub(crate) fn parts(&self) -> u32 {
        self.shards.max(self.endpoints)
    }

    /// Requests a second that all shards or endpoints can serve with all servers busy; infinite without a limit.
    pub fn capacity(&self) -> f64 {
        let (parts, per_request) =
            (f64::from(self.parts()), self.service.per_request.as_nanos_f64());
        match self.servers.map(|servers| f64::from(servers.0)) {
            Some(servers) => {
                servers * parts * 1e9 / (self.service.base.mean() + servers * per_request)
            }
            // Also for infinitely many requests in service.
            None => parts * 1e9 / per_request,
        }
    }
}

/// Which of the waiting requests is served next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// The oldest.
    #[default]
    Fifo,
    /// The newest.
    Lifo,
    /// None waits: with more requests than servers, each progresses at the speed servers / requests. The queue is how
    /// many more than the servers may be inside.
    ProcessorSharing,
}

/// A number of servers or connections, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Servers(#[serde(deserialize_with = "count::<_, 1, 1_000_000_000>")] pub u32);

/// What a request gets instead of being served. In a file a status such as 503, `"connect"`, `"reset"` or `"hang"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureMode {
    /// This status, immediately.
    Status(u16),
    /// No connection.
    Connect,
    /// The connection breaks.
    Reset,
    /// No answer: the caller waits until it gives up.
    Hang,
}

impl FailureMode {
    /// 503.
    pub const UNAVAILABLE: Self = Self::Status(503);
    /// 429.
    pub const LIMITED: Self = Self::Status(429);
    /// 403.
    pub(crate) const FORBIDDEN: Self = Self::Status(403);

    /// The outcome that the caller sees; `None` if it gets no answer.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Status(status) => Some(Outcome::of_status(status)),
            Self::Connect => Some(Failure::new(Class::Connect).into()),
            Self::Reset => Some(Failure::new(Class::Reset).into()),
            Self::Hang => None,
        }
    }
}

impl<'de> Deserialize<'de> for FailureMode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnswerVisitor)
    }
}

struct AnswerVisitor;

impl Visitor<'_> for AnswerVisitor {
    type Value = FailureMode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a status from 400 to 599, or one of \"connect\", \"reset\", \"hang\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<FailureMode, E> {
        match text {
            "connect" => Ok(FailureMode::Connect),
            "reset" => Ok(FailureMode::Reset),
            "hang" => Ok(FailureMode::Hang),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }

    fn visit_i64<E: Error>(self, status: i64) -> Result<FailureMode, E> {
        match u16::try_from(status) {
            Ok(status @ 400..=599) => Ok(FailureMode::Status(status)),
            _ => Err(E::invalid_value(Unexpected::Signed(status), &self)),
        }
    }

    fn visit_u64<E: Error>(self, status: u64) -> Result<FailureMode, E> {
        self.visit_i64(i64::try_from(status).unwrap_or(i64::MAX))
    }
}

/// A rate limit. Requests above it get 429.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Requests a second.
    #[serde(deserialize_with = "positive")]
    pub rate: f64,
    /// The burst.
    #[serde(deserialize_with = "count::<_, 1, LONGEST_QUEUE>")]
    pub burst: u32,
    /// Whether it applies to each client instance, instead of to all of them together.
    #[serde(default)]
    pub each_instance: bool,
}

impl Limit {
    /// As a rule of the engine, whose rates are integers per time: accurate to a thousandth of a request.
    pub(crate) fn rule(&self) -> RateRule {
        let thousandths = (self.rate * 1000.0).round();
        let rate = if thousandths <= f64::from(u32::MAX) {
            Rate::new(thousandths.max(1.0) as u32, Duration::from_secs(1000))
        } else {
            Rate::per_second(self.rate.round().min(f64::from(u32::MAX)) as u32)
        };
        RateRule::new(rate, self.burst)
    }
}

/// The hint in responses that turn requests away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum HintGiven {
    /// No hint.
    #[default]
    None,
    /// The same for all callers: `Retry-After: 5`.
    Fixed(#[serde(deserialize_with = "some_time")] Span),
    /// Drawn from a range for each caller.
    Jittered {
        /// The lower end.
        #[serde(deserialize_with = "duration")]
        from: Span,
        /// The upper end.
        #[serde(deserialize_with = "some_time")]
        to: Span,
    },
    /// A slot of the spare capacity, as the server's shed layer gives.
    Slots,
}

impl HintGiven {
    /// Whether a response with this outcome carries the hint.
    pub(crate) fn applies_to(outcome: &Outcome) -> bool {
        let Outcome::Failure(failure) = outcome else { return false };
        matches!(failure.class, Class::Throttled | Class::Overloaded)
    }
}

/// Clients that ignore hints get 403 for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ban {
    /// How many early returns cause a ban of the instance.
    #[serde(deserialize_with = "count::<_, 1, 1_000_000>")]
    pub after: u32,
    /// How long the ban lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Span,
}
