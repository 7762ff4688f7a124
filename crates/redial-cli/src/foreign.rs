//! Loads the policies that arguments of `redial explain` and `redial sim` name: presets, peers, our files, and the configs of
//! other systems that `redial check` reads.

use std::collections::HashMap;
use std::path::Path;

use redial_policy::{Format, Found, Inputs, Language, Note, NoteKind, Problem, SourceText};

use crate::policy::{Named, read_file};
use crate::problem::plain_problem;

/// More names than this are not listed.
const MOST_NAMES: usize = 20;

/// A policy, and the system that it was written for.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) named: Named,
    /// Whether its system checks that a call is safe to repeat.
    pub(crate) checks_safety: bool,
    /// `None` for our own.
    pub(crate) foreign: Option<Foreign>,
}

/// What became of the config of another system.
#[derive(Clone)]
pub(crate) struct Foreign {
    pub(crate) format: Format,
    pub(crate) notes: Vec<Note>,
}

impl Foreign {
    /// What is not the same in the policy, with a colon after the field.
    pub(crate) fn losses(&self) -> impl Iterator<Item = (&'static str, String)> {
        let lost = self.notes.iter().filter(|note| note.kind != NoteKind::Kept);
        lost.map(|note| (note.kind.name(), format!("{}: {}", note.field, note.text)))
    }
}

impl Loaded {
    /// Reads a preset, `peer:NAME`, or a file, with `#NAME` if it has several policies.
    pub(crate) fn read(name: &str) -> Result<Self, String> {
        match config(name)? {
            Some((path, chosen, all)) => choose(name, path, chosen, all),
            None => Ok(Self { named: Named::read(name)?, checks_safety: true, foreign: None }),
        }
    }
}

/// The configs of another system in a file; `None` if it is not one.
#[expect(clippy::type_complexity, reason = "the path, the chosen name, and what was found")]
fn config(name: &str) -> Result<Option<(&str, Option<&str>, Vec<Found>)>, String> {
    let (path, chosen) = match name.rsplit_once('#') {
        Some((path, chosen)) if !Path::new(name).exists() => (path, Some(chosen)),
        _ => (name, None),
    };
    // Our own files are TOML, and no other format is.
    let Ok(text) = read_file(path) else { return Ok(None) };
    let problem = |problem: &Problem| plain_problem(path, &text, problem);
    let wrong = |what: &Problem| format!("cannot read the config\n{}", problem(what));
    let source = SourceText::new(path, text.clone().into_bytes()).map_err(|it| wrong(&it))?;
    let copy = source.clone();
    let ending = Path::new(path).extension().and_then(|ending| ending.to_str());
    let is_foreign =
        matches!(ending, Some("yaml" | "yml" | "json" | "jsonc" | "properties" | "ini"));
    let mut inputs = Inputs::new();
    match inputs.add(source, None) {
        Ok(0) if is_foreign => return Err(wrong(&Inputs::nothing_found(&copy))),
        Err((_, problem)) if is_foreign => return Err(wrong(&problem)),
        Ok(0) | Err(_) => return Ok(None),
        Ok(_) => {}
    }
    if inputs.documents().iter().any(|document| document.language == Language::Toml) {
        return Ok(None);
    }
    let reading = inputs.read(None);
    if let Some((_, problem)) = reading.problems.first() {
        return Err(wrong(problem));
    }
    if reading.found.is_empty() {
        return Err(wrong(&Inputs::nothing_found(&copy)));
    }
    Ok(Some((path, chosen, reading.found)))
}

/// The policies have the names that `redial import` gives them.
fn choose(
    argument: &str,
    path: &str,
    chosen: Option<&str>,
    found: Vec<Found>,
) -> Result<Loaded, String> {
    let mut taken = HashMap::new();
    let all = found.into_iter().map(|found| (unique(&valid(&found.name), &mut taken), found));
    let mut all: Vec<(String, Found)> = all.collect();
    let at = match chosen {
        Some(chosen) => all.iter().position(|(name, _)| name == chosen),
        None => (all.len() == 1).then_some(0),
    };
    let Some(at) = at else {
        let mut names: Vec<&str> =
            all.iter().map(|(name, _)| name.as_str()).take(MOST_NAMES).collect();
        names.extend((all.len() > MOST_NAMES).then_some("…"));
        let names = names.join(", ");
        return Err(match chosen {
            Some(chosen) => format!("no policy `{chosen}` in the file, only {names}"),
            None => format!("the file has several policies: choose one with {path}#NAME ({names})"),
        });
    };
    let Found { policy, format, checks_safety, notes, .. } = all.swap_remove(at).1;
    let named = Named { name: argument.to_owned(), policy, location: None };
    Ok(Loaded { named, checks_safety, foreign: Some(Foreign { format, notes }) })
}

/// A name that needs no quotes.
pub(crate) fn valid(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = name.chars().map(plain).collect();
    let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
    if words.is_empty() { "policy".to_owned() } else { words.join("-") }
}

/// The name, or the name with the next free number.
pub(crate) fn unique(name: &str, taken: &mut HashMap<String, u32>) -> String {
    let mut candidate = name.to_owned();
    while taken.contains_key(&candidate) {
        let number = taken.entry(name.to_owned()).or_insert(1);
        *number += 1;
        candidate = format!("{name}-{number}");
    }
    taken.insert(candidate.clone(), 1);
    candidate
}
