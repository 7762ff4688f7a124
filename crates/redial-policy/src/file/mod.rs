//! A file of ours: named policies, the requests that each is for, and what is known of the world around them.
//!
//! ```toml
//! [setting]
//! slo      = "2s"          # what the user is promised
//! clients  = 200           # processes that make these calls
//! calls    = "500/s"       # of all of them together, on a normal day
//! capacity = "2000/s"      # what the upstream can serve
//! chain    = ["edge", { name = "mesh", attempts = 3 }, "payments"]   # who calls whom, outermost first
//!
//! [policy.payments]
//! extends  = "payment-processor"      # a preset, or another policy of this file
//! attempts = 3
//!
//! [[route]]
//! host    = "payments.internal"
//! path    = "/charges/*"
//! methods = ["POST"]
//! key     = true                      # these requests carry an idempotency key
//! policy  = "payments"
//! ```

mod extend;
mod print;
mod read;
mod world;

use redial_core::{Nanos, Policy, Rate};
pub(crate) use world::{is_method, is_path};

use crate::found::Places;
use crate::source::{Problem, SourceId};
use crate::tree::{Entry, Node};

/// What a policy can say.
pub(crate) const FIELDS: [&str; 17] = [
    "attempts",
    "attempt_timeout",
    "connect_timeout",
    "deadline",
    "backoff",
    "hint",
    "budget",
    "retry_on",
    "require_key",
    "refuse_nested",
    "breaker",
    "throttle",
    "rate",
    "concurrency",
    "cooldown",
    "extends",
    "setting",
];

/// Fields that are about retries wherever they stand.
const OWN: [&str; 4] = ["attempts", "attempt_timeout", "backoff", "retry_on"];

/// The most policies, and the most routes, in a file.
pub const MOST_POLICIES: usize = 10_000;

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// The policies, in the order of the file.
    pub policies: Vec<Named>,
    /// Which requests take which of them: the first that fits.
    pub routes: Vec<Route>,
    /// What is true for all of them.
    pub setting: Setting,
}

impl File {
    /// Reads a file of policies, or one that is itself a policy; that one is called `policy`.
    ///
    /// # Errors
    ///
    /// It is no TOML, names what is not there, or has a value that no policy can have.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let node = Node::toml(text)?;
        Self::of(&node, SourceId::default()).map(|(file, _)| file)
    }

    /// What this document of TOML says, and where it says so of each policy.
    pub(crate) fn of(node: &Node, source: SourceId) -> Result<(Self, Vec<Places>), Problem> {
        read::read(node, source)
    }

    /// Whether a document of TOML is such a file. A scenario for the simulator has policies too, cargo-vet has other ones, and
    /// anything may have a `deadline` or a `rate`: among names that are not ours it takes one that hardly anybody else has.
    pub(crate) fn recognises(node: &Node) -> bool {
        let has = |key: &str| node.get(key).is_some();
        let Some(top) = node.table().filter(|_| !(has("clients") && has("backend"))) else {
            return false;
        };
        let is_field = |entry: &Entry| FIELDS.contains(&entry.key.as_str());
        let policies = node.get("policy").and_then(Node::table);
        let is_policy =
            |entry: &Entry| entry.node.table().is_some_and(|it| it.entries().iter().any(is_field));
        if policies.is_some_and(|all| all.entries().iter().any(is_policy)) {
            return true;
        }
        let is_ours = |entry: &Entry| is_field(entry) || ["policy", "route"].contains(&&*entry.key);
        let all_ours = top.entries().iter().all(is_ours);
        let has_field = FIELDS[..15].iter().any(|field| has(field));
        OWN.iter().any(|field| has(field)) || all_ours && (policies.is_some() || has_field)
    }
}

impl Setting {
    /// This, and from `wider` what it does not say.
    pub fn within(&self, wider: &Self) -> Self {
        let chain = if self.chain.is_empty() { &wider.chain } else { &self.chain };
        Self {
            slo: self.slo.or(wider.slo),
            clients: self.clients.or(wider.clients),
            calls: self.calls.or(wider.calls),
            capacity: self.capacity.or(wider.capacity),
            multiplier: self.multiplier.or(wider.multiplier),
            synchronised: self.synchronised.or(wider.synchronised),
            timer: self.timer.or(wider.timer),
            queue: self.queue.or(wider.queue),
            chain: chain.clone(),
        }
    }
}

/// A policy and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The name.
    pub name: String,
    /// What it does, with everything that it takes from others.
    pub policy: Policy,
    /// What is true for this one, in the file's setting ([`Setting::within`]).
    pub setting: Setting,
}

/// Requests, and the policy that they take. What is not said does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The host that they go to.
    pub host: Option<String>,
    /// Their path; with `*` at its end, how it begins.
    pub path: Option<String>,
    /// Their methods, in capitals; none means all.
    pub methods: Vec<String>,
    /// Whether they carry an idempotency key.
    pub key: bool,
    /// The name of the policy.
    pub policy: String,
}

/// What the rules need to know of the world, and no policy can say. Everything may be unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setting {
    /// How long the user is promised to wait at most.
    pub slo: Option<Nanos>,
    /// How many processes make these calls.
    pub clients: Option<u32>,
    /// How many calls all of them make together on a normal day.
    pub calls: Option<Rate>,
    /// How many requests the upstream can serve.
    pub capacity: Option<Rate>,
    /// The most that retries may multiply the load by.
    pub multiplier: Option<f64>,
    /// Whether the clients start, or fail, at the same moment.
    pub synchronised: Option<bool>,
    /// How finely the clients' timers tick.
    pub timer: Option<Nanos>,
    /// How many requests wait when there are more than can be served.
    pub queue: Option<Queue>,
    /// Who calls whom, outermost first.
    pub chain: Vec<Layer>,
}

/// How many requests can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// So many.
    Bounded(u32),
    /// As many as there is memory for.
    Unbounded,
}

/// A service in a chain of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// What it is called. A policy of the same name in the file says how often it tries.
    pub name: String,
    /// How often it tries, when no policy of the file says so.
    pub attempts: Option<u32>,
}
