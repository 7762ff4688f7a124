//! What other systems do by default, as policies.
//!
//! Retries are rarely configured before they do harm, so what matters about another system is its defaults. Each
//! [`Peer`] is those defaults as a policy of ours. The simulator runs it with the same engine as everything else,
//! so that differences in the results come from the policy and not from a second implementation.
//!
//! Where a policy cannot express what a system does, [`Peer::differs`] describes the approximation. Three
//! differences apply to all of them:
//!
//! - Each has its own list of what it retries. Here all of them retry transient failures.
//! - A deadline is strict: an attempt is cut off at it, and a wait that would end after it is not started.
//! - Guards are per destination, wherever the peer keeps them.

mod libraries;
mod proxies;
mod rpc;

use std::time::Duration;

use redial_core::{Draft, Policy};

/// The defaults of another system. For one that is off by default: what it does when it is switched on without
/// further configuration.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The name on the command line, after `peer:`.
    pub name: &'static str,
    /// Its defaults, in words.
    pub about: &'static str,
    /// What the policy cannot express, and what approximates it; `None` if it is exact.
    pub differs: Option<&'static str>,
    /// Whether it checks by default that a request may be repeated. Most do not.
    pub checks_safety: bool,
    draft: fn() -> Draft,
}

impl Peer {
    /// All of them.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        [rpc::PEERS, proxies::PEERS, libraries::PEERS].into_iter().flatten()
    }

    /// The peer with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        Self::all().find(|peer| peer.name == name)
    }

    /// Its defaults as a policy.
    pub fn policy(&self) -> Policy {
        // The drafts are constants, and a test builds each of them.
        (self.draft)().build().unwrap_or_else(|invalid| panic!("{}: {invalid}", self.name))
    }
}

/// For peers without a limit: more attempts than a simulation makes.
const ENDLESS: u32 = 65_535;

/// For what has no limit: the longest time that a policy can have.
const UNLIMITED: Duration = Duration::from_nanos(redial_core::LONGEST_DURATION.as_nanos());

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
