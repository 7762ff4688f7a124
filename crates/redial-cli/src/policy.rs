use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use redial_core::{Policy, Preset};
use redial_sim::peers::Peer;
use serde::Deserialize;

/// The policy that an argument means: a preset by its name, a peer by `peer:` and its name, or else a file.
pub(crate) fn load(name: &str) -> Result<Policy, String> {
    if let Some(peer) = peer(name)? {
        return Ok(peer.policy());
    }
    if let Some(preset) = Preset::from_name(name) {
        return Ok(preset.into());
    }
    let (path, chosen) = match name.rsplit_once('#') {
        // A file may have this sign in its name.
        Some((path, chosen)) if !Path::new(name).exists() => (path, Some(chosen)),
        _ => (name, None),
    };
    let text = read_file(path).map_err(|error| {
        if looks_like_file(path) {
            return format!("the file cannot be read: {error}");
        }
        let presets = Preset::ALL.map(Preset::name).join(", ");
        format!("no preset has this name ({presets}), and as a file it cannot be read: {error}")
    })?;
    from_file(&text, path, chosen)
}

/// Whether nobody can have meant a name that we know.
pub(crate) fn looks_like_file(name: &str) -> bool {
    name.contains(['.', '/'])
}

/// The most bytes that a file of ours can have. A log or a disk is taken for one easily, and must not fill the memory.
const MOST_BYTES: u64 = 1_000_000;

/// A file that a person has written.
pub(crate) fn read_file(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(io::Error::other("it is larger than 1 MB, so it is not what was meant"));
    }
    Ok(text)
}

/// A file is a policy, or has some in tables that are named `[policy.NAME]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Several {
    policy: BTreeMap<String, Policy>,
}

fn from_file(text: &str, path: &str, chosen: Option<&str>) -> Result<Policy, String> {
    let wrong = |error: toml::de::Error| format!("the file is no policy: {error}");
    let table: toml::Table = toml::from_str(text).map_err(wrong)?;
    if table.is_empty() {
        return Err("the file is no policy: it is empty".to_owned());
    }
    if !table.contains_key("policy") {
        return match chosen {
            None => toml::from_str(text).map_err(wrong),
            Some(chosen) => Err(format!("the file has no [policy.{chosen}]")),
        };
    }
    let Several { mut policy } = toml::from_str(text).map_err(wrong)?;
    let names = policy.keys().cloned().collect::<Vec<_>>().join(", ");
    match chosen {
        Some(chosen) => policy
            .remove(chosen)
            .ok_or_else(|| format!("the file has no [policy.{chosen}], but {names}")),
        None if policy.len() > 1 => {
            Err(format!("the file has several policies: take {path}#NAME, of {names}"))
        }
        None => policy.into_values().next().ok_or_else(|| "the file has no policy".to_owned()),
    }
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
