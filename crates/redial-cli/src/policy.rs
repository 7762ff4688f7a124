use std::fs;

use redial_core::schedule::Backoff;
use redial_core::{Policy, Preset};

/// The policy that an argument means: a preset by its name, or else a file.
pub(crate) fn load(name: &str) -> Result<Policy, String> {
    if let Some(preset) = Preset::from_name(name) {
        return Ok(preset.into());
    }
    let text = fs::read_to_string(name).map_err(|error| {
        let presets = Preset::ALL.map(Preset::name).join(", ");
        format!("no preset has this name ({presets}), and as a file it cannot be read: {error}")
    })?;
    toml::from_str(&text).map_err(|error| format!("the file is no policy: {error}"))
}

/// A policy, and what the user calls it.
#[derive(Clone)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) policy: Policy,
}

impl Named {
    pub(crate) fn read(name: &str) -> Result<Self, String> {
        Ok(Self { name: name.to_owned(), policy: load(name)? })
    }

    pub(crate) fn backoff(&self) -> (&str, Backoff) {
        (&self.name, *self.policy.backoff())
    }
}
