use super::{Problem, Scenario, Set};

/// A scenario that comes along.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(BuiltIn { name: $name, text: include_str!(concat!("../../scenarios/", $name, ".toml")) }),*]
    };
}

/// All of them.
pub const BUILT_IN: &[BuiltIn] = built_in![
    "blip",
    "blip-synchronised",
    "brownout",
    "capacity-loss",
    "cold-cache",
    "deploy",
    "layers",
    "hot-key",
    "rate-limited",
    "shard-down",
    "pause",
    "lost-replies",
    "spike",
    "fleet",
    "controllers",
    "payments",
    "backoff-open",
    "backoff-closed",
];

impl BuiltIn {
    /// The one with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        BUILT_IN.iter().find(|scenario| scenario.name == name)
    }

    /// What it says, with some parameters set to other values.
    ///
    /// # Errors
    ///
    /// What was set does not fit.
    pub fn read(&self, sets: &[Set]) -> Result<Scenario, Problem> {
        Scenario::read(self.text, sets)
    }
}
