use std::fmt;
use std::time::Duration;

use redial_core::admit::RateRule;
use redial_core::decide::{Class, Failure, Outcome};
use redial_core::{Nanos, Rate};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use super::text::{count, duration, positive, share, some_time};
use super::time::Time;

/// The longest queue.
pub(super) const LONGEST_QUEUE: u32 = 100_000_000;

/// A backend, or a service that it calls in turn.
///
/// Defaults: it does everything at once, however much it is; work goes on when its caller has given up;
/// nothing is lost; it hints at nothing.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Service {
    /// How many requests each shard works on at once; without it there is no limit.
    pub servers: Option<Servers>,
    /// How long a server works on a request.
    pub service: Time,
    /// How many requests wait for a server of a shard, when all are at work.
    #[serde(deserialize_with = "count::<_, 0, LONGEST_QUEUE>")]
    pub queue: u32,
    /// How many requests wait at the start, for nobody: what an earlier trouble has left.
    #[serde(deserialize_with = "count::<_, 0, LONGEST_QUEUE>")]
    pub backlog: u32,
    /// What becomes of those that find the queue full.
    pub when_full: Answer,
    /// Whether a request is taken out of the queue when its caller has given up. Otherwise it is done for nobody.
    pub cancel: bool,
    /// How many requests are in it at once, those that wait for other services included; whoever comes
    /// then gets no connection.
    pub connections: Option<Servers>,
    /// Parts that have servers and queues of their own. A key always goes to the same one.
    #[serde(deserialize_with = "count::<_, 1, 4096>")]
    pub shards: u32,
    /// The share of requests that fail, whatever happens.
    #[serde(deserialize_with = "share")]
    pub errors: f64,
    /// The share of replies that are lost on their way. The work has been done then.
    #[serde(deserialize_with = "share")]
    pub lost_replies: f64,
    /// How many requests are let in.
    pub limit: Option<Limit>,
    /// What those hear that are turned away.
    pub hint: HintGiven,
    /// What happens to clients that ignore hints.
    pub ban: Option<Ban>,
    /// The services that it calls for each request, one after the other.
    pub calls: Vec<String>,
    /// The policy with which it does, if it is not the one that is looked at.
    pub policy: Option<String>,
    /// How long a request, or its reply, is on its way to another service.
    pub latency: Time,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            servers: None,
            service: Time::default(),
            queue: 0,
            backlog: 0,
            when_full: Answer::UNAVAILABLE,
            cancel: false,
            connections: None,
            shards: 1,
            errors: 0.0,
            lost_replies: 0.0,
            limit: None,
            hint: HintGiven::None,
            ban: None,
            calls: Vec::new(),
            policy: None,
            latency: Time::default(),
        }
    }
}

impl Service {
    /// How many requests a second it can do, with all its shards; infinite without a limit.
    pub fn capacity(&self) -> f64 {
        let servers = self.servers.map_or(f64::INFINITY, |servers| f64::from(servers.0));
        servers * f64::from(self.shards) * 1e9 / self.service.mean()
    }
}

/// A number of servers or connections: at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Servers(#[serde(deserialize_with = "count::<_, 1, 1_000_000_000>")] pub u32);

/// What a request gets instead of being served. In a file a status such as 503, or `"connect"`, `"reset"`,
/// `"hang"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This status, at once.
    Status(u16),
    /// No connection.
    Connect,
    /// The connection breaks.
    Reset,
    /// Nothing: the caller waits until it gives up.
    Hang,
}

impl Answer {
    /// 503.
    pub const UNAVAILABLE: Self = Self::Status(503);
    /// 429.
    pub const LIMITED: Self = Self::Status(429);

    /// What the caller sees; `None` when it sees nothing.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Status(status) => Some(Outcome::of_status(status)),
            Self::Connect => Some(Failure::new(Class::Connect).into()),
            Self::Reset => Some(Failure::new(Class::Reset).into()),
            Self::Hang => None,
        }
    }
}

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnswerVisitor)
    }
}

struct AnswerVisitor;

impl Visitor<'_> for AnswerVisitor {
    type Value = Answer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a status from 400 to 599, or one of \"connect\", \"reset\", \"hang\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Answer, E> {
        match text {
            "connect" => Ok(Answer::Connect),
            "reset" => Ok(Answer::Reset),
            "hang" => Ok(Answer::Hang),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }

    fn visit_i64<E: Error>(self, status: i64) -> Result<Answer, E> {
        match u16::try_from(status) {
            Ok(status @ 400..=599) => Ok(Answer::Status(status)),
            _ => Err(E::invalid_value(Unexpected::Signed(status), &self)),
        }
    }

    fn visit_u64<E: Error>(self, status: u64) -> Result<Answer, E> {
        self.visit_i64(i64::try_from(status).unwrap_or(i64::MAX))
    }
}

/// How many requests are let in; the others get 429.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// So many a second.
    #[serde(deserialize_with = "positive")]
    pub rate: f64,
    /// So many at once.
    #[serde(deserialize_with = "count::<_, 1, LONGEST_QUEUE>")]
    pub burst: u32,
    /// Whether it is for each instance of the clients, instead of for all of them together.
    #[serde(default)]
    pub each_instance: bool,
}

impl Limit {
    /// The same for the engine, whose rates are whole numbers in a time: a thousandth of a call is fine enough.
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

/// What those hear that are turned away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum HintGiven {
    /// Nothing.
    #[default]
    None,
    /// The same for everybody: `Retry-After: 5`.
    Fixed(#[serde(deserialize_with = "some_time")] Nanos),
    /// Another one for everybody.
    Jittered {
        /// At least this.
        #[serde(deserialize_with = "duration")]
        from: Nanos,
        /// At most this.
        #[serde(deserialize_with = "some_time")]
        to: Nanos,
    },
    /// A slot of the spare capacity.
    Slots,
}

impl HintGiven {
    /// Whether a response with this outcome carries the hint.
    pub(crate) fn applies_to(outcome: &Outcome) -> bool {
        let Outcome::Failure(failure) = outcome else { return false };
        matches!(failure.class, Class::Throttled | Class::Overloaded)
    }
}

/// What happens to clients that ignore hints: 403 for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ban {
    /// An instance that has come back too early so often is banned.
    #[serde(deserialize_with = "count::<_, 1, 1_000_000>")]
    pub after: u32,
    /// For so long.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
}
