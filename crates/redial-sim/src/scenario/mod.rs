//! What is simulated: who calls, what they call, and what goes wrong.
//!
//! A scenario is a TOML file. [`Scenario::read`] checks all of it; what is wrong is said with its place, and
//! nothing behind a `Scenario` checks again.
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
mod read;
mod service;
mod subject;
mod text;
mod time;

use std::collections::BTreeMap;

use redial_core::decide::Safety;
use redial_core::{Nanos, Policy};
use serde::Deserialize;

pub use builtin::{BUILT_IN, BuiltIn};
pub use clients::{Arrivals, Clients, Keys, MOST_CALLERS, MOST_INSTANCES, Pace, Scope, Work};
pub(crate) use faults::Span;
pub use faults::{CapacityLoss, ColdCache, Outage, Pause, Restart, Spike, SwitchedOff};
pub use read::{Problem, Set};
pub use service::{Answer, Ban, HintGiven, Limit, Servers, Service};
pub use subject::Subject;
pub(crate) use time::nearest;
pub use time::{Drawn, Time};

use text::{one_or_many, some_time};

/// The name of the service that clients call.
pub const BACKEND: &str = "backend";

/// Who calls, what they call, and what goes wrong.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is, in a line.
    pub title: String,
    /// What can be learnt from it.
    #[serde(default)]
    pub teaches: String,
    /// What somebody else says comes out of it.
    #[serde(default)]
    pub claim: Option<String>,
    /// How long calls are made. Those that have begun by then are seen to their end, for as long again and a
    /// minute.
    #[serde(deserialize_with = "some_time")]
    pub duration: Nanos,
    /// Peaks are counted over every stretch of this length.
    #[serde(default = "fifty_ms", deserialize_with = "some_time")]
    pub window: Nanos,
    /// The policies to compare, by name.
    pub policies: Vec<String>,
    /// Policies of its own.
    #[serde(default)]
    pub policy: BTreeMap<String, Policy>,
    /// Those of them whose callers repeat whatever failed, safe or not.
    #[serde(default)]
    pub careless: Vec<String>,
    /// Who calls.
    pub clients: Clients,
    /// What they call.
    #[serde(default)]
    pub backend: Service,
    /// What that calls in turn.
    #[serde(default)]
    pub service: BTreeMap<String, Service>,
    /// What services tell each other.
    #[serde(default)]
    pub chain: Chain,
    /// Requests are not served for a while.
    #[serde(default, deserialize_with = "one_or_many")]
    pub outage: Vec<Outage>,
    /// The same under another name, for when it is only some of them.
    #[serde(default, deserialize_with = "one_or_many")]
    pub brownout: Vec<Outage>,
    /// The backend has fewer servers for a while.
    #[serde(default, deserialize_with = "one_or_many")]
    pub capacity_loss: Vec<CapacityLoss>,
    /// The backend is slow, and gets better.
    #[serde(default, deserialize_with = "one_or_many")]
    pub cold_cache: Vec<ColdCache>,
    /// The backend stands still.
    #[serde(default, deserialize_with = "one_or_many")]
    pub pause: Vec<Pause>,
    /// There are more calls.
    #[serde(default, deserialize_with = "one_or_many")]
    pub spike: Vec<Spike>,
    /// Instances start anew.
    #[serde(default, deserialize_with = "one_or_many")]
    pub restart: Vec<Restart>,
    /// Callers are switched off.
    #[serde(default, deserialize_with = "one_or_many")]
    pub switched_off: Vec<SwitchedOff>,
}

/// What services tell each other about a call. Off unless set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Chain {
    /// The number of the attempt travels down: a policy that refuses to retry what is a retry already can see it.
    pub attempt_header: bool,
    /// Whoever has given up says so to the layer above, which then does not repeat it.
    pub stop_signal: bool,
    /// What is left of the deadline travels down.
    pub deadline: bool,
}

fn fifty_ms() -> Nanos {
    50_000_000
}

impl Scenario {
    /// How many calls a second begin as long as nothing is wrong, of a ramp at its upper end; `None` when they do
    /// not come at a rate.
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

    /// About how many calls a run makes.
    pub fn calls(&self) -> f64 {
        let callers = || self.clients.arrivals.callers().map_or(0.0, f64::from);
        self.rate().map_or_else(callers, |rate| rate * self.duration as f64 / 1e9)
    }

    /// From the start of the first fault to the end of the last; `None` without faults.
    pub fn fault_span(&self) -> Option<(Nanos, Nanos)> {
        let point = |at: Nanos| Span { start: at, end: at };
        let spans = self.outages().map(Outage::span);
        let spans = spans.chain(self.capacity_loss.iter().map(CapacityLoss::span));
        let spans = spans.chain(self.cold_cache.iter().map(ColdCache::span));
        let spans = spans.chain(self.pause.iter().map(Pause::span));
        let spans = spans.chain(self.spike.iter().map(Spike::span));
        let spans = spans.chain(self.switched_off.iter().map(SwitchedOff::span));
        let spans = spans.chain(self.restart.iter().map(|it| point(it.start)));
        let spans = spans.chain((self.backend.backlog > 0).then(|| point(0)));
        let spans = spans.map(|it| (it.start, it.end));
        spans.reduce(|(start, end), (from, to)| (start.min(from), end.max(to)))
    }

    /// Outages and brownouts: first those under the one name, then those under the other.
    pub fn outages(&self) -> impl Iterator<Item = &Outage> {
        self.outage.iter().chain(&self.brownout)
    }

    /// What callers with this policy claim about sending a request twice.
    pub(crate) fn safety(&self, subject: &Subject) -> Safety {
        if subject.careless { Safety::Idempotent } else { self.clients.safety() }
    }

    /// How long the backend and the network take for a request on average, in nanoseconds.
    fn busy(&self) -> f64 {
        self.backend.service.mean() + 2.0 * self.clients.latency.mean()
    }

    /// The service with this name.
    pub fn service(&self, name: &str) -> Option<&Service> {
        if name == BACKEND { Some(&self.backend) } else { self.service.get(name) }
    }
}
