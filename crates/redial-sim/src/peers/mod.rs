//! Would it have gone better with the library that we have now?
//!
//! Nobody configures retries before they hurt, so what matters about another system is what it does when left
//! alone. Each [`Peer`] is that, as a policy of ours: the simulator runs it with the engine that runs everything
//! else, and what differs in the result comes from the policy and not from a second implementation.
//!
//! The engine is not those systems, and where it cannot say what one of them does, [`Peer::differs`] tells what
//! stands for it. Three things differ for all of them:
//!
//! - Each has its own list of what it repeats. Here all of them repeat what is transient.
//! - A deadline is a wall: an attempt is cut off at it, and a wait that does not end before it is not begun.
//! - Guards are per destination, wherever the peer keeps them.

mod libraries;
mod proxies;
mod rpc;

use std::time::Duration;

use redial_core::{Draft, Policy};

/// What another system does when nobody configures it; for one that is off by default, what it does when
/// switched on and left alone.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The name on the command line, after `peer:`.
    pub name: &'static str,
    /// Its defaults, in words.
    pub about: &'static str,
    /// What the policy cannot say, and what stands for it; `None` when it says everything.
    pub differs: Option<&'static str>,
    /// Whether it refuses, by default, to repeat what may not be done twice. Most never ask.
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

    /// What it does, as a policy.
    pub fn policy(&self) -> Policy {
        // The drafts are constants, and a test builds each of them.
        (self.draft)().build().unwrap_or_else(|invalid| panic!("{}: {invalid}", self.name))
    }
}

/// For peers that never give up: more attempts than a simulation lasts.
const ENDLESS: u32 = 65_535;

/// The longest time that a policy can name, for what has no limit.
const LONGEST: Duration = Duration::from_nanos(redial_core::LONGEST);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
