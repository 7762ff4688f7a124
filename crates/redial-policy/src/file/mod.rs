//! Policy files: named policies, the requests that each applies to, and the setting that they run in.
//!
//! ```toml
//! [setting]
//! slo      = "2s"          # what users are promised
//! clients  = 200           # processes that make these calls
//! calls    = "500/s"       # from all clients together, normally
//! capacity = "2000/s"      # what the upstream can serve
//! chain    = ["edge", { name = "mesh", attempts = 3 }, "payments"]   # the layers of a call, outermost first
//!
//! [policy.payments]
//! extends  = "payment-processor"      # a preset, or another policy of this file
//! attempts = 3
//! fleet    = "payments"               # its instances share the budget
//!
//! [fleet.payments]                    # where the ledger is of policies with fleet = "payments"
//! redis    = "redis://redis.internal:6379/0"
//! password = { file = "/run/secrets/redis" }
//!
//! [[route]]
//! host    = "payments.internal"
//! path    = "/charges/*"
//! methods = ["POST"]
//! key     = true                      # these requests carry an idempotency key
//! policy  = "payments"
//! ```

mod extend;
pub(crate) mod fields;
mod fleets;
mod print;
mod read;
mod routes;
mod setting;
mod sidecar;

pub use print::full_text;
use redial_core::fleet::Location;
use redial_core::{Policy, Preset, Rate, Span};
pub(crate) use routes::{is_method, is_path};
pub use sidecar::{
    AccessLog, Address, ClientTls, HealthCheck, HostHeader, IdempotencyRules, Identity, KeyScope,
    KeyStore, MissingKeys, ProxySettings, ServerTls, ShedLimits, Target, Upstream,
};

use crate::places::Places;
use crate::source::{Problem, Problems, SourceId};
use crate::tree::{Entry, Node};

/// The most policies, and the most routes, in a file.
pub const MOST_POLICIES: usize = 10_000;

/// The tables of a file that is not a single policy.
const TABLES: [&str; 6] = ["policy", "route", "fleet", "setting", "proxy", "upstream"];

/// The contents of a policy file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// The policies, in the order of the file.
    pub policies: Vec<Named>,
    /// Which requests use which policy. The first route that matches decides.
    pub routes: Vec<Route>,
    /// Where the ledgers are of the fleets that policies name, in the order of the file.
    pub fleets: Vec<(String, Location)>,
    /// The setting of all policies.
    pub setting: Setting,
    /// What concerns the whole sidecar.
    pub proxy: ProxySettings,
    /// The upstreams of the sidecar, in the order of the file.
    pub upstreams: Vec<Upstream>,
}

impl File {
    /// Reads a file of policies, or a file that is a single policy, which is then named `policy`.
    ///
    /// # Errors
    ///
    /// The text is not TOML, refers to a name that does not exist, or has a value that is out of range.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let node = Node::toml(text)?;
        let read = Self::of(&node, SourceId::default());
        read.map(|(file, _)| file).map_err(Problems::into_first)
    }

    /// Reads a TOML document, and returns the places of each policy's fields too, or all problems.
    pub(crate) fn of(node: &Node, source: SourceId) -> Result<(Self, Vec<Places>), Problems> {
        read::read(node, source)
    }

    /// Whether a TOML document is a policy file. Scenarios of the simulator and cargo-vet have a `policy` table too, and
    /// any program may have a `deadline` or a `rate`, so among unknown names a distinctive one is needed.
    pub(crate) fn recognises(node: &Node) -> bool {
        let has = |key: &str| node.get(key).is_some();
        let Some(top) = node.table().filter(|_| !(has("clients") && has("backend"))) else {
            return false;
        };
        let is_name = |entry: &Entry| fields::is_name(&entry.key);
        let policies = node.get("policy").and_then(Node::table);
        let is_policy =
            |entry: &Entry| entry.node.table().is_some_and(|it| it.entries().iter().any(is_name));
        if policies.is_some_and(|all| all.entries().iter().any(is_policy)) {
            return true;
        }
        let entries = top.entries();
        let is_known = |entry: &Entry| is_name(entry) || TABLES.contains(&&*entry.key);
        let only_known = entries.iter().all(is_known);
        let has_field = entries.iter().any(|entry| fields::is_field(&entry.key));
        let extends = node.get("extends").and_then(Node::text).and_then(Preset::from_name);
        entries.iter().any(|entry| fields::is_distinctive(&entry.key))
            || only_known && (policies.is_some() || has_field || extends.is_some())
            || sidecar::recognises(node, only_known)
    }
}

impl File {
    /// The policy with this name.
    pub fn policy(&self, name: &str) -> Option<&Policy> {
        self.policies.iter().find(|named| named.name == name).map(|named| &named.policy)
    }

    /// The policy of an upstream's requests that match no route.
    pub fn policy_of(&self, upstream: &Upstream) -> Policy {
        let policy = upstream.policy.as_deref().and_then(|name| self.policy(name));
        policy.cloned().unwrap_or_else(Policy::standard)
    }

    /// Where the ledger of a policy's fleet is, if the policy has one.
    pub fn location(&self, policy: &Policy) -> Option<&Location> {
        let fleet = policy.fleet()?;
        self.fleets.iter().find(|(name, _)| name == fleet).map(|(_, location)| location)
    }
}

impl Setting {
    /// This setting, completed from a `wider` one.
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

/// A policy with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The policy, with everything that it inherits.
    pub policy: Policy,
    /// The setting of this policy, to be completed from the file's ([`Setting::within`]).
    pub setting: Setting,
}

/// A set of requests, and the policy that they use. A field that is unset matches every request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The upstream of the sidecar that the requests go to.
    pub upstream: Option<String>,
    /// The host that the requests go to.
    pub host: Option<String>,
    /// The path, or with `*` at its end a prefix of it.
    pub path: Option<String>,
    /// The methods, in upper case; empty for all.
    pub methods: Vec<String>,
    /// Whether the requests carry an idempotency key.
    pub key: bool,
    /// The name of the policy.
    pub policy: String,
}

/// What the rules need to know and a policy does not contain. Every field may be unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setting {
    /// The longest wait that users are promised.
    pub slo: Option<Span>,
    /// The number of processes that make these calls.
    pub clients: Option<u32>,
    /// The rate of calls from all clients together, normally.
    pub calls: Option<Rate>,
    /// The rate of requests that the upstream can serve.
    pub capacity: Option<Rate>,
    /// The most that retries may multiply the load by.
    pub multiplier: Option<f64>,
    /// Whether the clients start, or fail, at the same moment.
    pub synchronised: Option<bool>,
    /// The resolution of the clients' timers.
    pub timer: Option<Span>,
    /// The length of the upstream's queue.
    pub queue: Option<Queue>,
    /// The layers of a call, outermost first.
    pub chain: Vec<Layer>,
}

/// How many requests can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// At most this many.
    Bounded(u32),
    /// As many as fit into memory.
    Unbounded,
}

/// A service in a chain of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The name. A policy with this name in the same file gives the attempts.
    pub name: String,
    /// The attempts, if there is no such policy.
    pub attempts: Option<u32>,
}
