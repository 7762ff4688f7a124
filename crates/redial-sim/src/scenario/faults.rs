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

/// Requests are not served for a while.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// When it begins.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
    /// Which share of the requests is not served.
    #[serde(default = "all", deserialize_with = "share")]
    pub share: f64,
    /// What they get instead.
    #[serde(default = "unavailable")]
    pub answer: Answer,
    /// The one shard that it happens to.
    #[serde(default)]
    pub shard: Option<u32>,
    /// The service that it happens to, if it is not the backend.
    #[serde(default)]
    pub service: Option<String>,
}

/// Fewer servers for a while. What is being worked on is finished.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityLoss {
    /// When it begins.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
    /// Which share of the servers is gone, rounded to whole servers.
    #[serde(deserialize_with = "share")]
    pub share: f64,
}

/// Everything takes longer, and then less and less so.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColdCache {
    /// When it begins.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// How long it takes to be warm again.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
    /// What is left of the capacity at the start. It grows evenly.
    #[serde(deserialize_with = "positive")]
    pub capacity: f64,
}

/// Nothing happens for a while, and then everything goes on: garbage collection, a moved machine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// When it begins.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
}

/// More calls for a while.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spike {
    /// When it begins.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
    /// So many times as many.
    #[serde(deserialize_with = "positive")]
    pub factor: f64,
}

/// Instances start anew: their calls have failed, their guards have forgotten everything, and callers of a closed
/// loop begin again together.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// When.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// Which share of the instances.
    #[serde(deserialize_with = "share")]
    pub share: f64,
    /// How many calls each instance makes at once when it starts: it fills its caches.
    #[serde(default)]
    pub burst: u16,
}

/// Callers are switched off: the last resort. They make no calls, and their retries are not sent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchedOff {
    /// When it begins.
    #[serde(deserialize_with = "duration")]
    pub start: Nanos,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
    /// Which share of the instances.
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
    /// The name of the service that it happens to.
    pub(crate) fn service(&self) -> &str {
        self.service.as_deref().unwrap_or(BACKEND)
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

spans!(Outage, CapacityLoss, ColdCache, Pause, Spike, SwitchedOff);
