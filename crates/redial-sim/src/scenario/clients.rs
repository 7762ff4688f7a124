use redial_core::Nanos;
use redial_core::decide::Safety;
use serde::Deserialize;

use super::text::{count, duration, positive, some_time};
use super::time::Time;

/// The most callers that a run can have.
pub const MOST_CALLERS: u32 = 25_000_000;
/// The most instances that a run can have: each has guards of its own, which take about two kilobytes.
pub const MOST_INSTANCES: u32 = 1_000_000;

/// Who calls, how often, and what for.
///
/// Defaults: one instance, one key, work that may be done twice, no network between them and the backend.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// Processes. Each has its own budget, breaker and limits, which its callers share.
    #[serde(default = "one", deserialize_with = "count::<_, 1, MOST_INSTANCES>")]
    pub instances: u32,
    /// Whether an instance has guards for the backend, or for each of its shards.
    #[serde(default)]
    pub guards: Scope,
    /// When calls begin.
    pub arrivals: Arrivals,
    /// What calls are about: shards and the cool-down go by it.
    #[serde(default)]
    pub keys: Keys,
    /// What doing it twice does.
    #[serde(default)]
    pub work: Work,
    /// Whether calls carry an idempotency key, by which the backend recognises the second one.
    #[serde(default)]
    pub keyed: bool,
    /// A call that failed is begun anew after this long, until it succeeds.
    #[serde(default)]
    pub requeue: Option<Time>,
    /// How long a request, or its reply, is on its way to the backend.
    #[serde(default)]
    pub latency: Time,
}

fn one() -> u32 {
    1
}

/// What the guards of an instance are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// All of the backend.
    #[default]
    Backend,
    /// One shard each.
    Shard,
}

/// When calls begin.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// Equally far apart, one instance after the other.
    Constant(Pace),
    /// Independent of each other.
    Poisson(Pace),
    /// Independent of each other, and ever more (or ever fewer) of them.
    Ramp {
        /// Calls a second at the start.
        #[serde(deserialize_with = "positive")]
        from: f64,
        /// Calls a second at the end.
        #[serde(deserialize_with = "positive")]
        to: f64,
        /// How long it takes to get from one to the other; afterwards it stays.
        #[serde(deserialize_with = "some_time")]
        duration: Nanos,
    },
    /// Everybody at once, once.
    Synchronised {
        /// How many.
        #[serde(deserialize_with = "count::<_, 1, MOST_CALLERS>")]
        callers: u32,
        /// When.
        #[serde(default, deserialize_with = "duration")]
        at: Nanos,
    },
    /// Callers that wait for the end of a call, think, and call again. They send less when calls take longer.
    Closed {
        /// How many.
        #[serde(deserialize_with = "count::<_, 1, MOST_CALLERS>")]
        callers: u32,
        /// How long they think. A time that is always the same is begun at a random point of it.
        think: Time,
    },
}

/// How many calls a second, all instances together.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// So many.
    Rate(#[serde(deserialize_with = "positive")] f64),
    /// This share of what the backend can do.
    Load(#[serde(deserialize_with = "positive")] f64),
}

/// What calls are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Keys {
    /// Every call about something of its own.
    #[default]
    Own,
    /// So many things, all equally wanted.
    Uniform {
        /// How many.
        #[serde(deserialize_with = "count::<_, 1, MOST_CALLERS>")]
        keys: u32,
    },
    /// So many things, of which the n-th is wanted 1 ÷ n^exponent times as often as the first.
    Zipf {
        /// How many.
        #[serde(deserialize_with = "count::<_, 1, MOST_CALLERS>")]
        keys: u32,
        /// 1.1, for example.
        #[serde(deserialize_with = "positive")]
        exponent: f64,
    },
}

/// What doing it twice does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Nothing more than once.
    #[default]
    Idempotent,
    /// It is done twice: a payment, an order.
    Unsafe,
}

impl Clients {
    /// What a caller can truthfully say about doing its request twice.
    pub fn safety(&self) -> Safety {
        match (self.keyed, self.work) {
            (true, _) => Safety::Keyed,
            (false, Work::Idempotent) => Safety::Idempotent,
            (false, Work::Unsafe) => Safety::Unsafe,
        }
    }
}

impl Arrivals {
    /// How many callers there are; `None` when they are not counted, because nobody waits for an earlier call.
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
