use redial_core::{Span, Time};
use serde::Deserialize;

use super::BACKEND;
use super::service::FailureMode;
use super::text::{moment, positive, share, some_time};

/// From `start` until before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) start: Time,
    pub(crate) end: Time,
}

impl Period {
    #[inline]
    pub(crate) fn contains(&self, now: Time) -> bool {
        (self.start..self.end).contains(&now)
    }

    /// The share of the other period that this one covers.
    pub(crate) fn share_of(&self, other: Self) -> f64 {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (end - start).ratio_to(other.end - other.start)
    }
}

/// An outage or a brownout: requests are not served for a while.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// When it starts.
    #[serde(deserialize_with = "moment")]
    pub start: Time,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Span,
    /// The share of the requests that are not served.
    #[serde(default = "all", deserialize_with = "share")]
    pub share: f64,
    /// What they get instead.
    #[serde(default = "unavailable")]
    pub answer: FailureMode,
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
    #[serde(deserialize_with = "moment")]
    pub start: Time,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Span,
    /// The share of the servers that are lost, rounded to whole servers.
    #[serde(deserialize_with = "share")]
    pub share: f64,
}

/// A cold cache: servers are slow at first, and get faster.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColdCache {
    /// When it starts.
    #[serde(deserialize_with = "moment")]
    pub start: Time,
    /// How long it takes until the cache is warm.
    #[serde(deserialize_with = "some_time")]
    pub duration: Span,
    /// The share of the capacity that is left at the start. It grows linearly.
    #[serde(deserialize_with = "positive")]
    pub capacity: f64,
}

/// Servers take longer for a while; with a factor below 1 they are faster, which is not a fault.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slowdown {
    /// When it starts.
    #[serde(deserialize_with = "moment")]
    pub start: Time,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Span,
    /// By how much the service time of a request is multiplied that starts meanwhile.
    #[serde(deserialize_with = "positive")]
    pub factor: f64,
}

/// No work progresses for a while, and then everything continues: garbage collection, a live migration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// When it starts.
    #[serde(deserialize_with = "moment")]
    pub start: Time,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Span,
}

/// More calls for a while; with a factor below 1 fewer, which is a lull and not a fault.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spike {
    /// When it starts.
    #[serde(deserialize_with = "moment")]
    pub start: Time,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Span,
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
    #[serde(deserialize_with = "moment")]
    pub start: Time,
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
    #[serde(deserialize_with = "moment")]
    pub start: Time,
    /// How long it lasts.
    #[serde(deserialize_with = "some_time")]
    pub duration: Span,
    /// The share of the instances.
    #[serde(default = "all", deserialize_with = "share")]
    pub share: f64,
}

fn all() -> f64 {
    1.0
}

fn unavailable() -> FailureMode {
    FailureMode::UNAVAILABLE
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

macro_rules! periods {
    ($($fault:ty),*) => {
        $(impl $fault {
            #[inline]
            pub(crate) fn period(&self) -> Period {
                Period { start: self.start, end: self.start + self.duration }
            }
        })*
    };
}

periods!(Outage, CapacityLoss, ColdCache, Slowdown, Pause, Spike, SwitchedOff);

/// By how much spikes multiply the rate of calls at this time.
pub(crate) fn spike_factor(spikes: &[Spike], now: Time) -> f64 {
    spikes.iter().filter(|it| it.period().contains(now)).map(|it| it.factor).product()
}

/// The mean of [`spike_factor`] over a period that is short beside the spikes.
pub(crate) fn mean_spike_factor(spikes: &[Spike], during: Period) -> f64 {
    spikes.iter().map(|it| 1.0 + it.period().share_of(during) * (it.factor - 1.0)).product()
}
