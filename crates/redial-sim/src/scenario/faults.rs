use redial_core::Nanos;
use serde::Deserialize;

use super::BACKEND;
use super::service::Answer;
use super::text::{duration, positive, share, some_time};

/// From `start` until before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
}

impl Span {
    #[inline]
    pub(crate) fn contains(&self, now: Nanos) -> bool {
        (self.start..self.end).contains(&now)
    }

    /// The share of the other span that this one covers.
    pub(crate) fn share_of(&self, other: Self) -> f64 {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        end.saturating_sub(start) as f64 / (other.end - other.start) as f64
    }
}

/// An outage or a brownout: requests are not served for a while.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// When it starts.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
    /// The share of the requests that are not served.
    #[serde(default = "all", deserialize_with = "share")]
    pub share: f64,
    /// What they get instead.
    #[serde(default = "unavailable")]
    pub answer: Answer,
    /// What such a request costs, as a share of a service time. Above zero it is queued and served like any other, and
    /// answered after this work.
    #[serde(default, deserialize_with = "share")]
    pub cost: f64,
    /// The only shard that it affects.
    #[serde(default)]
    pub shard: Option<u32>,
    /// The only endpoint that it affects.
    #[serde(default)]
    pub endpoint: Option<u32>,
    /// The service that it affects, if not the backend.
    #[serde(default)]
    pub service: Option<String>,
}

/// Fewer servers for a while. Requests in service are finished.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityLoss {
    /// When it starts.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
    /// The share of the servers that are lost, rounded to whole servers.
    #[serde(deserialize_with = "share")]
    pub share: f64,
}

/// A cold cache: servers are slow at first, and get faster.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColdCache {
    /// When it starts.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// How long it takes until the cache is warm.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
    /// The share of the capacity that is left at the start. It grows linearly.
    #[serde(deserialize_with = "positive")]
    pub capacity: f64,
}

/// Servers take longer for a while; with a factor below 1 they are faster, which is not a fault.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slowdown {
    /// When it starts.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
    /// By how much the service time of a request is multiplied that starts meanwhile.
    #[serde(deserialize_with = "positive")]
    pub factor: f64,
}

/// No work progresses for a while, and then everything continues: garbage collection, a live migration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// When it starts.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
}

/// More calls for a while; with a factor below 1 fewer, which is a lull and not a fault.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spike {
    /// When it starts.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
    /// By how much the rate is multiplied.
    #[serde(deserialize_with = "positive")]
    pub factor: f64,
}

/// Instances restart: their calls fail, their guards lose their state, and callers of a closed loop begin again
/// together.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// When.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// The share of the instances.
    #[serde(deserialize_with = "share")]
    pub share: f64,
    /// How many calls each instance makes at once when it starts, for example to fill its caches.
    #[serde(default)]
    pub burst: u16,
}

/// Callers are switched off, as a last resort. They make no calls, and their retries are not sent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchedOff {
    /// When it starts.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
    /// The share of the instances.
    #[serde(default = "all", deserialize_with = "share")]
    pub share: f64,
}

fn all() -> f64 {
    1.0
}

fn unavailable() -> Answer {
    Answer::UNAVAILABLE
}

impl Outage {
    /// The name of the service that it affects.
    pub(crate) fn service(&self) -> &str {
        self.service.as_deref().unwrap_or(BACKEND)
    }

    /// The only shard or endpoint that it affects.
    pub(crate) fn part(&self) -> Option<u32> {
        self.shard.or(self.endpoint)
    }
}

macro_rules! spans {
    ($($fault:ty),*) => {
        $(impl $fault {
            #[inline]
            pub(crate) fn span(&self) -> Span {
                Span { start: self.start, end: self.start + self.duration }
            }
        })*
    };
}

spans!(Outage, CapacityLoss, ColdCache, Slowdown, Pause, Spike, SwitchedOff);
