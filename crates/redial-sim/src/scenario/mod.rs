//! A scenario: the clients, the services that they call, and the faults.
//!
//! A scenario is a TOML file. [`Scenario::read`] validates all of it once; errors name the place.
//!
//! ```toml
//! title = "A backend that blinks"
//! duration = "6s"
//! policies = ["no-retry", "standard", "peer:envoy"]
//!
//! [clients]
//! instances = 10
//! arrivals = { poisson = { rate = 500 } }
//!
//! [backend]
//! servers = 10
//! service = { exponential = "10ms" }
//! queue = 100
//!
//! [outage]
//! start = "2s"
//! duration = "200ms"
//! ```

mod builtin;
mod check;
mod clients;
mod faults;
mod how_long;
mod memory;
mod read;
mod service;
mod service_time;
mod subject;
mod text;

use std::collections::BTreeMap;

use redial_core::decide::Safety;
use redial_core::{Policy, Span, Time};
use serde::Deserialize;

pub use builtin::{BUILT_IN, BuiltIn};
pub use clients::{
    Arrivals, Choose, Clients, Keys, Lifetime, MOST_CALLERS, Others, Pace, Requeue, RetryTo, Scope,
    WorkSafety,
};
pub use faults::{CapacityLoss, ColdCache, Outage, Pause, Restart, Slowdown, Spike, SwitchedOff};
pub(crate) use faults::{Period, mean_spike_factor, spike_factor};
pub use how_long::{Drawn, HowLong};
pub(crate) use how_long::{Z99, nearest};
pub(crate) use memory::{MOST_GUARDS, guards_over_limit, in_flight_over_limit};
pub use read::Set;
pub use service::{Ban, Discipline, FailureMode, HintGiven, Limit, Servers, Service};
pub use service_time::ServiceTime;
pub use subject::Subject;

use text::{one_or_many, some_time};

/// A window slides by a fiftieth of its length.
pub(crate) const STEPS: u64 = 50;

/// The name of the service that clients call.
pub const BACKEND: &str = "backend";

/// The clients, the services that they call, and the faults.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One line.
    pub title: String,
    /// What it teaches.
    #[serde(default)]
    pub teaches: String,
    /// What a publication claims about it.
    #[serde(default)]
    pub claim: Option<String>,
    /// How long calls are made. Calls that have begun by then are followed to their end, for at most as long again
    /// and a minute.
    #[serde(deserialize_with = "some_time")]
    pub duration: Span,
    /// Peaks are counted over sliding windows of this length.
    #[serde(default = "fifty_ms", deserialize_with = "some_time")]
    pub window: Span,
    /// The policies to compare, by name.
    pub policies: Vec<String>,
    /// Its own policies.
    #[serde(default)]
    pub policy: BTreeMap<String, Policy>,
    /// The policies of its own whose callers retry any failure, safe or not.
    #[serde(default)]
    pub careless: Vec<String>,
    /// The callers.
    pub clients: Clients,
    /// The service that clients call.
    #[serde(default)]
    pub backend: Service,
    /// The services that it calls, by name.
    #[serde(default)]
    pub service: BTreeMap<String, Service>,
    /// What services pass on about a call.
    #[serde(default)]
    pub chain: Chain,
    /// Requests are not served for a while.
    #[serde(default, deserialize_with = "one_or_many")]
    pub outage: Vec<Outage>,
    /// The same as `outage`; the name suits one that affects only a share of the requests.
    #[serde(default, deserialize_with = "one_or_many")]
    pub brownout: Vec<Outage>,
    /// The backend has fewer servers for a while.
    #[serde(default, deserialize_with = "one_or_many")]
    pub capacity_loss: Vec<CapacityLoss>,
    /// The backend is slow at first, and gets faster.
    #[serde(default, deserialize_with = "one_or_many")]
    pub cold_cache: Vec<ColdCache>,
    /// The backend takes longer for each request for a while.
    #[serde(default, deserialize_with = "one_or_many")]
    pub slowdown: Vec<Slowdown>,
    /// The backend stands still.
    #[serde(default, deserialize_with = "one_or_many")]
    pub pause: Vec<Pause>,
    /// More calls for a while.
    #[serde(default, deserialize_with = "one_or_many")]
    pub spike: Vec<Spike>,
    /// Instances restart.
    #[serde(default, deserialize_with = "one_or_many")]
    pub restart: Vec<Restart>,
    /// Callers are switched off.
    #[serde(default, deserialize_with = "one_or_many")]
    pub switched_off: Vec<SwitchedOff>,
}

/// What services pass on about a call. Off unless set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Chain {
    /// The attempt number is passed down: a policy can refuse to retry what is already a retry.
    pub attempt_header: bool,
    /// A service that has given up tells its caller not to retry.
    pub stop_signal: bool,
    /// The remaining time until the deadline is passed down.
    pub deadline: bool,
}

fn fifty_ms() -> Span {
    Span::from_millis(50)
}

impl Scenario {
    /// No call begins from then on.
    pub fn end(&self) -> Time {
        Time::at(self.duration)
    }

    /// By how much a window slides.
    pub(crate) fn step(&self) -> Span {
        (self.window / STEPS).max(Span::from_nanos(1))
    }

    /// Calls that begin in a second without faults; of a ramp the higher end; `None` when there is no rate.
    pub fn rate(&self) -> Option<f64> {
        match &self.clients.arrivals {
            Arrivals::Constant(pace) | Arrivals::Poisson(pace) => Some(match *pace {
                Pace::Rate(rate) => rate,
                Pace::Load(load) => load * self.backend.capacity(),
            }),
            Arrivals::Ramp { from, to, .. } => Some(from.max(*to)),
            Arrivals::Synchronised { .. } => None,
            Arrivals::Closed { callers, think } => {
                Some(f64::from(*callers) * 1e9 / (think.mean() + self.busy()))
            }
        }
    }

    /// The most calls that begin in a second; `None` when there is no rate.
    pub(crate) fn peak_rate(&self) -> Option<f64> {
        let spikes: f64 = self.spike.iter().map(|spike| spike.factor.max(1.0)).product();
        self.rate().map(|rate| rate * spikes)
    }

    /// The approximate number of calls in a run.
    pub fn calls(&self) -> f64 {
        let callers = || self.clients.arrivals.callers().map_or(0.0, f64::from);
        let run = Period { start: Time::ZERO, end: self.end() };
        let busy = mean_spike_factor(&self.spike, run) * self.duration.as_nanos_f64() / 1e9;
        self.rate().map_or_else(callers, |rate| rate * busy)
    }

    /// From the start of the first fault to the end of the last; `None` without faults.
    pub fn fault_span(&self) -> Option<(Time, Time)> {
        let point = |at: Time| Period { start: at, end: at };
        let all = self.outages().map(Outage::period);
        let all = all.chain(self.capacity_loss.iter().map(CapacityLoss::period));
        let all = all.chain(self.cold_cache.iter().map(ColdCache::period));
        let slowdowns = self.slowdown.iter().filter(|it| it.factor > 1.0);
        let all = all.chain(slowdowns.map(Slowdown::period));
        let all = all.chain(self.pause.iter().map(Pause::period));
        let spikes = self.spike.iter().filter(|it| it.factor > 1.0);
        let all = all.chain(spikes.map(Spike::period));
        let all = all.chain(self.switched_off.iter().map(SwitchedOff::period));
        let all = all.chain(self.restart.iter().map(|it| point(it.start)));
        let all = all.chain((self.backend.backlog > 0).then(|| point(Time::ZERO)));
        let all = all.map(|it| (it.start, it.end));
        all.reduce(|(start, end), (from, to)| (start.min(from), end.max(to)))
    }

    /// The same without faults and without a backlog.
    #[must_use]
    pub fn without_faults(&self) -> Self {
        Self {
            outage: Vec::new(),
            brownout: Vec::new(),
            capacity_loss: Vec::new(),
            cold_cache: Vec::new(),
            pause: Vec::new(),
            slowdown: Vec::new(),
            spike: Vec::new(),
            restart: Vec::new(),
            switched_off: Vec::new(),
            backend: Service { backlog: 0, ..self.backend.clone() },
            ..self.clone()
        }
    }

    /// Outages, then brownouts.
    pub fn outages(&self) -> impl Iterator<Item = &Outage> {
        self.outage.iter().chain(&self.brownout)
    }

    /// The safety that callers with this policy declare.
    pub(crate) fn safety(&self, subject: &Subject) -> Safety {
        if subject.careless { Safety::Idempotent } else { self.clients.safety() }
    }

    /// The mean time that a request takes in the backend and on the network, in nanoseconds.
    fn busy(&self) -> f64 {
        self.backend.service.mean() + 2.0 * self.clients.latency.mean()
    }

    /// The same, with the services that the backend calls.
    pub(crate) fn request_time(&self) -> f64 {
        2.0 * self.clients.latency.mean() + self.time_in(&self.backend)
    }

    /// In a scenario that was checked, services do not call each other in circles.
    fn time_in(&self, service: &Service) -> f64 {
        let called = service.calls.iter().filter_map(|name| self.service.get(name));
        let calls = called.map(|it| 2.0 * service.latency.mean() + self.time_in(it));
        service.service.mean() + calls.sum::<f64>()
    }

    /// The service with this name.
    pub fn service(&self, name: &str) -> Option<&Service> {
        if name == BACKEND { Some(&self.backend) } else { self.service.get(name) }
    }
}
