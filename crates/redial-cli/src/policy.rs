//! Loads the policies that arguments name: presets, peers and files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use redial_core::fleet::Location;
use redial_core::{Policy, Preset};
use redial_policy::file::File as PolicyFile;
use redial_policy::nearest;
use redial_sim::peers::Peer;

use crate::problem::plain_problem;

/// The policy that an argument names, a preset, `peer:NAME` or a file, and where the ledger of its fleet is.
fn find(name: &str) -> Result<(Policy, Option<Location>), String> {
    if let Some(peer) = peer(name)? {
        return Ok((peer.policy(), None));
    }
    if let Some(preset) = Preset::from_name(name) {
        return Ok((preset.into(), None));
    }
    let (path, chosen) = match name.rsplit_once('#') {
        // The name of a file may contain `#`.
        Some((path, chosen)) if !Path::new(name).exists() => (path, Some(chosen)),
        _ => (name, None),
    };
    let text = read_file(path).map_err(|error| {
        if looks_like_file(path) {
            return format!("cannot read the file: {error}");
        }
        let presets = Preset::ALL.map(Preset::name).join(", ");
        format!("not a preset ({presets}), and cannot read it as a file: {error}")
    })?;
    from_file(&text, path, chosen)
}

/// Whether an argument is a path rather than a mistyped name.
pub(crate) fn looks_like_file(name: &str) -> bool {
    name.contains(['.', '/'])
}

/// The most bytes of a file. A log or a disk that is named by mistake must not fill the memory.
const MOST_BYTES: u64 = 1_000_000;

/// Reads a file that a person has written.
pub(crate) fn read_file(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(io::Error::other("larger than 1 MB"));
    }
    Ok(text)
}

/// A file is one policy, or has policies in tables `[policy.NAME]`. The name of an upstream stands for its policy.
fn from_file(
    text: &str,
    path: &str,
    chosen: Option<&str>,
) -> Result<(Policy, Option<Location>), String> {
    let file = policy_file(text, path)?;
    let upstreams = file.upstreams.iter().filter(|upstream| file.policy(&upstream.name).is_none());
    let policies = file.policies.iter().map(|named| named.name.as_str());
    let names: Vec<&str> = policies.chain(upstreams.map(|it| it.name.as_str())).collect();
    let policy = match (chosen, file.policies.as_slice()) {
        (Some(chosen), _) => {
            let upstream = || file.upstreams.iter().find(|upstream| upstream.name == chosen);
            let policy = file.policy(chosen).cloned();
            policy.or_else(|| upstream().map(|it| file.policy_of(it))).ok_or_else(|| {
                let meant = nearest(chosen, names.iter().copied());
                let question = meant.map(|name| format!("; did you mean `{name}`?"));
                let question = question.unwrap_or_default();
                format!("no [policy.{chosen}] in the file, only {}{question}", names.join(", "))
            })?
        }
        (None, [only]) => only.policy.clone(),
        // All upstreams have the default policy.
        (None, []) => Policy::standard(),
        (None, _) => {
            let names = names.join(", ");
            return Err(format!(
                "the file has several policies: choose one with {path}#NAME ({names})"
            ));
        }
    };
    let location = file.location(&policy).cloned();
    Ok((policy, location))
}

/// All policies of a file, by name.
pub(crate) fn all(path: &str) -> Result<Vec<(String, Policy)>, String> {
    let text = read_file(path).map_err(|error| format!("cannot read the file: {error}"))?;
    let all = policy_file(&text, path)?.policies.into_iter();
    Ok(all.map(|named| (named.name, named.policy)).collect())
}

fn policy_file(text: &str, path: &str) -> Result<PolicyFile, String> {
    PolicyFile::read(text).map_err(|problem| {
        format!("not a valid policy file\n{}", plain_problem(path, text, &problem))
    })
}

/// A policy, and the argument that named it.
#[derive(Clone)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) policy: Policy,
    /// Where the ledger of its fleet is, if it names one.
    pub(crate) location: Option<Location>,
}

impl Named {
    pub(crate) fn read(name: &str) -> Result<Self, String> {
        let (policy, location) = find(name)?;
        Ok(Self { name: name.to_owned(), policy, location })
    }
}

/// The peer that an argument names, if it begins with `peer:`.
pub(crate) fn peer(name: &str) -> Result<Option<&'static Peer>, String> {
    let Some(name) = name.strip_prefix("peer:") else { return Ok(None) };
    Peer::find(name).map(Some).ok_or_else(|| {
        let known: Vec<_> = Peer::all().map(|peer| peer.name).collect();
        let meant = nearest(name, known.iter().copied());
        let question = meant.map(|known| format!("; did you mean `peer:{known}`?"));
        let question = question.unwrap_or_else(|| ".".to_owned());
        format!("unknown peer{question} Known peers: {}", known.join(", "))
    })
}
