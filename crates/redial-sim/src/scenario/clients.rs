use redial_core::Nanos;
use redial_core::decide::Safety;
use serde::Deserialize;

use super::text::{count, duration, positive, some_time};
use super::time::Time;

/// The most callers that a run can have.
pub const MOST_CALLERS: u32 = 25_000_000;
/// The most instances that a run can have: each has guards of its own, which take about two kilobytes.
pub const MOST_INSTANCES: u32 = 1_000_000;

/// The clients: how many there are, and what and how often they call.
///
/// Defaults: one instance, a key for every call, idempotent work, no network latency.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// Processes. Each has its own budget, breaker and limits, which its callers share.
    #[serde(default = "one", deserialize_with = "count::<_, 1, MOST_INSTANCES>")]
    pub instances: u32,
    /// Whether an instance has guards for the whole backend, or for each of its shards.
    #[serde(default)]
    pub guards: Scope,
    /// When calls begin.
    pub arrivals: Arrivals,
    /// The keys of calls. Shards and the cool-down depend on them.
    #[serde(default)]
    pub keys: Keys,
    /// Whether the work may be done twice.
    #[serde(default)]
    pub work: Work,
    /// Whether calls carry an idempotency key, by which the backend recognises a repeated request.
    #[serde(default)]
    pub keyed: bool,
    /// A failed call is made again after this time, until it succeeds.
    #[serde(default)]
    pub requeue: Option<Time>,
    /// How long a request or a reply takes to or from the backend.
    #[serde(default)]
    pub latency: Time,
}

fn one() -> u32 {
    1
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
        duration: Nanos,
    },
    /// All callers at once, once.
    Synchronised {
        /// How many.
        #[serde(deserialize_with = "count::<_, 1, MOST_CALLERS>")]
        callers: u32,
        /// When.
        #[serde(default, deserialize_with = "duration")]
        at: Nanos,
    },
    /// A closed loop: callers wait for the end of a call, think, and call again. They send less when calls take
    /// longer.
    Closed {
        /// How many.
        #[serde(deserialize_with = "count::<_, 1, MOST_CALLERS>")]
        callers: u32,
        /// How long they think. A constant time starts at a random point.
        think: Time,
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
pub enum Work {
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
            (false, Work::Idempotent) => Safety::Idempotent,
            (false, Work::Unsafe) => Safety::Unsafe,
        }
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
    pub(crate) fn ramp_at(&self, now: Nanos) -> Option<(f64, f64)> {
        let Self::Ramp { from, to, duration } = *self else { return None };
        if now >= duration {
            return Some((to, 0.0));
        }
        let growth = (to - from) / duration as f64;
        Some((from + growth * now as f64, growth))
    }
}
