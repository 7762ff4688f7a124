use std::fs;

use redial_core::{Policy, Preset};
use redial_sim::peers::Peer;

/// The policy that an argument means: a preset by its name, a peer by `peer:` and its name, or else a file.
pub(crate) fn load(name: &str) -> Result<Policy, String> {
    if let Some(peer) = peer(name)? {
        return Ok(peer.policy());
    }
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
}

/// The peer that an argument means, if it means one.
pub(crate) fn peer(name: &str) -> Result<Option<&'static Peer>, String> {
    let Some(name) = name.strip_prefix("peer:") else { return Ok(None) };
    Peer::find(name).map(Some).ok_or_else(|| {
        let known: Vec<_> = Peer::all().map(|peer| peer.name).collect();
        let nearest = known.iter().copied().min_by_key(|known| edits(name, known));
        let meant = nearest.filter(|known| edits(name, known) * 2 < known.len());
        let question = meant.map(|known| format!("; did you mean `peer:{known}`?"));
        let question = question.unwrap_or_else(|| ".".to_owned());
        format!("no peer has this name{question} There are {}", known.join(", "))
    })
}

/// How many letters have to be added, removed or replaced to get from one word to the other (Levenshtein).
fn edits(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.chars().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.chars().count()]
}
