use redial_policy::Problem;

use super::{Scenario, Set};

/// A built-in scenario.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Its name on the command line.
    pub name: &'static str,
    /// The text of its file.
    pub text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(BuiltIn { name: $name, text: include_str!(concat!("../../scenarios/", $name, ".toml")) }),*]
    };
}

/// All built-in scenarios.
pub const BUILT_IN: &[BuiltIn] = built_in![
    "blip",
    "blip-synchronised",
    "brownout",
    "capacity-loss",
    "cold-cache",
    "deploy",
    "layers",
    "three-layers",
    "hot-key",
    "rate-limited",
    "shard-down",
    "pause",
    "slowdown",
    "flapping",
    "hangs",
    "heavy-tail",
    "quiet-hour",
    "shedding",
    "concurrency-collapse",
    "lost-replies",
    "spike",
    "fleet",
    "controllers",
    "payments",
    "backoff-open",
    "backoff-closed",
    "endpoint-hangs",
    "shared-ledger",
    "mixed",
    "short-lived",
    "many-clients",
    "collapse",
];

impl BuiltIn {
    /// The scenario with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        BUILT_IN.iter().find(|scenario| scenario.name == name)
    }

    /// Reads it, with some parameters set to other values.
    ///
    /// # Errors
    ///
    /// A set value is invalid.
    pub fn read(&self, sets: &[Set]) -> Result<Scenario, Problem> {
        Scenario::read(self.text, sets)
    }
}
