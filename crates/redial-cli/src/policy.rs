use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use redial_core::{Policy, Preset};
use redial_policy::file::File as PolicyFile;
use redial_policy::{Span, nearest};
use redial_sim::peers::Peer;

use crate::check::spot::{self, Cursor, Spot};

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
fn from_file(text: &str, path: &str, chosen: Option<&str>) -> Result<Policy, String> {
    let file = policy_file(text)?;
    let names = || file.policies.iter().map(|named| named.name.as_str()).collect::<Vec<_>>();
    let found = match chosen {
        Some(chosen) => {
            file.policies.iter().find(|named| named.name == chosen).ok_or_else(|| {
                let meant = nearest(chosen, names());
                let question = meant.map(|name| format!("; did you mean `{name}`?"));
                let question = question.unwrap_or_default();
                format!("the file has no [policy.{chosen}], but {}{question}", names().join(", "))
            })?
        }
        None => match file.policies.as_slice() {
            [only] => only,
            _ => {
                let names = names().join(", ");
                return Err(format!("the file has several policies: take {path}#NAME, of {names}"));
            }
        },
    };
    Ok(found.policy.clone())
}

/// All policies of a file, with their names.
pub(crate) fn all(path: &str) -> Result<Vec<(String, Policy)>, String> {
    let text = read_file(path).map_err(|error| format!("the file cannot be read: {error}"))?;
    let all = policy_file(&text)?.policies.into_iter();
    Ok(all.map(|named| (named.name, named.policy)).collect())
}

fn policy_file(text: &str) -> Result<PolicyFile, String> {
    PolicyFile::read(text).map_err(|problem| {
        let place = problem.span.map(|span| excerpt(text, span)).unwrap_or_default();
        format!("the file is no policy: {place}{problem}")
    })
}

/// The most characters of a line that are shown, on either side of what is wrong.
const SHOWN: usize = 60;

/// Line and column, and the line with carets below what is wrong.
fn excerpt(text: &str, span: Span) -> String {
    let Spot { line: number, column, end_column } = Cursor::new(text).go(span);
    let (line, marked) = spot::excerpt(text, span, SHOWN);
    let margin = " ".repeat(number.to_string().len());
    let left = " ".repeat(line[..marked.start].chars().count());
    let carets = "^".repeat(end_column - column);
    format!(
        "line {number}, column {column}\n{margin} |\n{number} | {line}\n{margin} | {left}{carets}\n"
    )
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
        let meant = nearest(name, known.iter().copied());
        let question = meant.map(|known| format!("; did you mean `peer:{known}`?"));
        let question = question.unwrap_or_else(|| ".".to_owned());
        format!("no peer has this name{question} There are {}", known.join(", "))
    })
}
