use std::fmt;

use redial_core::decide::Safety;
use redial_core::{Span, Time};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, Error, IntoDeserializer as _, MapAccess, Unexpected, Visitor};

use super::how_long::HowLong;
use super::text::{count, moment, one_or_many, positive, share, some_time};

/// The most callers, and the most instances, that a run can have.
pub const MOST_CALLERS: u32 = 25_000_000;

/// The clients: how many there are, and what and how often they call.
///
/// Defaults: one instance that lives for the whole run, with the policy under test; endpoints chosen at random, and
/// another one for every further attempt of a call; a key for every call, idempotent work, no network latency.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// Processes. Each has its own budget, breaker and limits, which its callers share. In a file a number, or
    /// `"each"`: one for each caller.
    #[serde(default = "one", deserialize_with = "instances")]
    pub instances: u32,
    /// Whether an instance has guards for the whole backend, or for each of its shards or endpoints.
    #[serde(default)]
    pub guards: Scope,
    /// How an instance chooses among the endpoints of the backend.
    #[serde(default)]
    pub choose: Choose,
    /// The endpoint of the further attempts of a call.
    #[serde(default)]
    pub retry_to: RetryTo,
    /// Instances with other policies than the one under test.
    #[serde(default, deserialize_with = "one_or_many")]
    pub others: Vec<Others>,
    /// After this many calls an instance is replaced by a new one, whose guards know nothing.
    #[serde(default)]
    pub lifetime: Option<Lifetime>,
    /// When calls begin.
    pub arrivals: Arrivals,
    /// The keys of calls. Shards and the cool-down depend on them.
    #[serde(default)]
    pub keys: Keys,
    /// Whether the work may be done twice.
    #[serde(default)]
    pub work: WorkSafety,
    /// Whether calls carry an idempotency key, by which the backend recognises a repeated request.
    #[serde(default)]
    pub keyed: bool,
    /// A failed call is made again after this time, until it succeeds.
    #[serde(default)]
    pub requeue: Option<Requeue>,
    /// How long a request or a reply takes to or from the backend.
    #[serde(default)]
    pub latency: HowLong,
}

fn one() -> u32 {
    1
}

/// As many instances as callers, until the callers are known.
pub(super) const EACH: u32 = u32::MAX;

fn instances<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    struct Instances;
    impl Visitor<'_> for Instances {
        type Value = u32;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a whole number from 1 to {MOST_CALLERS}, or \"each\"")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<u32, E> {
            let each = (text == "each").then_some(EACH);
            each.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
        }
        fn visit_i64<E: Error>(self, number: i64) -> Result<u32, E> {
            count::<_, 1, MOST_CALLERS>(number.into_deserializer())
        }
        fn visit_u64<E: Error>(self, number: u64) -> Result<u32, E> {
            count::<_, 1, MOST_CALLERS>(number.into_deserializer())
        }
    }
    from.deserialize_any(Instances)
}

/// The scope of the guards of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The whole backend.
    #[default]
    Backend,
    /// One shard.
    Shard,
    /// One endpoint.
    Endpoint,
}

/// How an instance chooses among the endpoints of the backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choose {
    /// At random.
    #[default]
    Random,
    /// One after the other, from a random one on.
    RoundRobin,
    /// Of two random ones, the one with fewer attempts of this instance in flight.
    TwoChoices,
}

/// The endpoint of the further attempts of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetryTo {
    /// One that the call has not tried, as long as there is one; then any but the last.
    #[default]
    Another,
    /// Chosen anew for every attempt.
    Any,
    /// The one of the first attempt.
    Same,
}

/// Instances with another policy than the one under test.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Others {
    /// The name of their policy.
    pub policy: String,
    /// The share of the instances, rounded to whole ones.
    #[serde(deserialize_with = "share")]
    pub share: f64,
}

/// How many calls an instance makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Lifetime(#[serde(deserialize_with = "count::<_, 1, 1_000_000_000>")] pub u32);

/// When a failed call is made again. In a file `"rest"`, or a [`HowLong`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Requeue {
    /// After this time.
    After(HowLong),
    /// As the `Reconciler` does: after half of the longest wait of the policy, or up to all of it, once.
    Rest,
}

impl<'de> Deserialize<'de> for Requeue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(RequeueVisitor)
    }
}

struct RequeueVisitor;

impl<'de> Visitor<'de> for RequeueVisitor {
    type Value = Requeue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"rest\", a duration such as \"10ms\", or the table of a distribution")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Requeue, E> {
        match text {
            "rest" => Ok(Requeue::Rest),
            _ => HowLong::deserialize(StrDeserializer::new(text)).map(Requeue::After),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Requeue, A::Error> {
        HowLong::deserialize(MapAccessDeserializer::new(map)).map(Requeue::After)
    }
}

/// When calls begin.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// At equal intervals, one instance after the other.
    Constant(Pace),
    /// Independent of each other, at a constant rate.
    Poisson(Pace),
    /// Independent of each other, at a rate that grows or falls linearly.
    Ramp {
        /// Calls a second at the start.
        #[serde(deserialize_with = "positive")]
        from: f64,
        /// Calls a second at the end.
        #[serde(deserialize_with = "positive")]
        to: f64,
        /// How long the rate changes; afterwards it stays.
        #[serde(deserialize_with = "some_time")]
        duration: Span,
    },
    /// All callers at once, once.
    Synchronised {
        /// How many.
        #[serde(deserialize_with = "count::<_, 1, MOST_CALLERS>")]
        callers: u32,
        /// When.
        #[serde(default, deserialize_with = "moment")]
        at: Time,
    },
    /// A closed loop: callers wait for the end of a call, think, and call again. They send less when calls take
    /// longer.
    Closed {
        /// How many.
        #[serde(deserialize_with = "count::<_, 1, MOST_CALLERS>")]
        callers: u32,
        /// How long they think. A constant time starts at a random point.
        think: HowLong,
    },
}

/// Calls a second of all instances together.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// This many.
    Rate(#[serde(deserialize_with = "positive")] f64),
    /// This share of the capacity of the backend.
    Load(#[serde(deserialize_with = "positive")] f64),
}

/// The keys of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Keys {
    /// Every call has its own.
    #[default]
    Own,
    /// Equally frequent keys.
    Uniform {
        /// How many.
        #[serde(deserialize_with = "count::<_, 1, MOST_CALLERS>")]
        keys: u32,
    },
    /// The n-th key is 1 ÷ n^exponent times as frequent as the first.
    Zipf {
        /// How many.
        #[serde(deserialize_with = "count::<_, 1, MOST_CALLERS>")]
        keys: u32,
        /// For example 1.1.
        #[serde(deserialize_with = "positive")]
        exponent: f64,
    },
}

/// Whether the work may be done twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkSafety {
    /// A second execution changes nothing.
    #[default]
    Idempotent,
    /// A second execution does harm: a payment, an order.
    Unsafe,
}

impl Clients {
    /// The safety that callers can truthfully declare.
    pub fn safety(&self) -> Safety {
        match (self.keyed, self.work) {
            (true, _) => Safety::Keyed,
            (false, WorkSafety::Idempotent) => Safety::Idempotent,
            (false, WorkSafety::Unsafe) => Safety::Unsafe,
        }
    }

    /// Replaces `"each"` by the number of callers, if it is fixed.
    pub(super) fn count_instances(&mut self) {
        if let (EACH, Some(callers)) = (self.instances, self.arrivals.callers()) {
            self.instances = callers;
        }
    }

    /// How many instances have each of the other policies.
    pub(crate) fn others(&self) -> impl Iterator<Item = (&Others, u32)> {
        let count = |share: f64| (f64::from(self.instances) * share).round() as u32;
        self.others.iter().map(move |others| (others, count(others.share)))
    }

    /// How many instances have the policy under test. They are the first ones.
    pub(crate) fn own(&self) -> u32 {
        self.instances.saturating_sub(self.others().map(|(_, count)| count).sum())
    }

    /// Whether every instance makes a single call.
    pub(crate) fn call_once(&self) -> bool {
        let once = matches!(self.arrivals, Arrivals::Synchronised { callers, .. } if callers == self.instances);
        let again = self.requeue.is_some();
        !again && (once || self.lifetime == Some(Lifetime(1)))
    }
}

impl Arrivals {
    /// How many callers there are; `None` in an open loop.
    pub fn callers(&self) -> Option<u32> {
        match self {
            Self::Synchronised { callers, .. } | Self::Closed { callers, .. } => Some(*callers),
            Self::Constant(_) | Self::Poisson(_) | Self::Ramp { .. } => None,
        }
    }

    /// Calls a second of a ramp at this time, and by how much they grow in a nanosecond.
    pub(crate) fn ramp_at(&self, now: Time) -> Option<(f64, f64)> {
        let Self::Ramp { from, to, duration } = *self else { return None };
        let elapsed = now.since_zero();
        if elapsed >= duration {
            return Some((to, 0.0));
        }
        let growth = (to - from) / duration.as_nanos_f64();
        Some((from + growth * elapsed.as_nanos_f64(), growth))
    }
}
