use redial_core::{Draft, Policy, Preset};

use super::Scenario;
use crate::peers::Peer;

/// The most attempts that a simulated policy can make.
const MOST_ATTEMPTS: u32 = 65_535;

/// A policy under test.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// The policy.
    pub policy: Policy,
    /// Whether its callers retry any failure, safe or not.
    pub careless: bool,
}

impl Subject {
    /// A policy whose callers only retry what is safe.
    ///
    /// # Errors
    ///
    /// It makes more attempts than can be simulated.
    pub fn new(name: impl Into<String>, policy: Policy) -> Result<Self, String> {
        let name = name.into();
        match policy.attempts() {
            ..=MOST_ATTEMPTS => Ok(Self { name, policy, careless: false }),
            attempts => Err(format!(
                "the policy {name:?} makes {attempts} attempts, and the simulator supports at most {MOST_ATTEMPTS}"
            )),
        }
    }

    /// A single attempt with the deadline of this policy.
    pub fn one_attempt(&self) -> Self {
        let bare = Draft::bare(1);
        let draft = match self.policy.deadline() {
            Some(deadline) => bare.deadline(deadline),
            None => bare,
        };
        Self { policy: draft.build().unwrap_or_else(|_| Policy::standard()), ..Self::no_retry() }
    }

    /// The policy that makes a single attempt.
    pub fn no_retry() -> Self {
        let policy = Policy::draft().attempts(1).build().unwrap_or_else(|_| Policy::standard());
        Self { name: NO_RETRY.to_owned(), policy, careless: false }
    }
}

const NO_RETRY: &str = "no-retry";

impl Scenario {
    /// The policy with this name: one of the scenario, `no-retry`, a preset, or `peer:NAME`.
    ///
    /// # Errors
    ///
    /// There is no such policy.
    pub fn subject(&self, name: &str) -> Result<Subject, String> {
        if let Some(policy) = self.policy.get(name) {
            let careless = self.careless.iter().any(|careless| careless == name);
            return Ok(Subject { careless, ..Subject::new(name, policy.clone())? });
        }
        if name == NO_RETRY {
            return Ok(Subject::no_retry());
        }
        if let Some(peer) = name.strip_prefix("peer:").and_then(Peer::find) {
            let careless = !peer.checks_safety;
            return Ok(Subject { careless, ..Subject::new(name, peer.policy())? });
        }
        match Preset::from_name(name) {
            Some(preset) => Subject::new(name, preset.into()),
            None => Err(format!(
                "no policy is called {name:?}: use one of this scenario ([policy.NAME]), {NO_RETRY}, a preset ({}), or peer:NAME",
                Preset::ALL.map(Preset::name).join(", ")
            )),
        }
    }
}
