//! A policy that extends another says only what is different. Tables are put over each other field by field; where a table
//! is a choice between several (which currency, which jitter), another choice replaces the first one whole.

use redial_core::{Policy, Preset};

use super::print;
use crate::near::did_you_mean;
use crate::source::{Problem, Span};
use crate::tree::{Entry, Here, Node, Short, Table, Value};

/// Where a table has the name of a choice, and what belongs to it.
const CHOICES: [&str; 5] =
    ["budget", "hint", "backoff.growth", "backoff.jitter", "breaker.lookback"];

/// What need not be there at all, and is removed with "none".
const OPTIONAL: [&str; 7] = [
    "breaker",
    "throttle",
    "rate",
    "concurrency",
    "cooldown",
    "breaker.minimum_calls",
    "hint.honour.spread",
];

/// What `extends` names.
pub(super) enum Parent {
    /// The policy of the file with this number.
    Ours(usize),
    Preset(Preset, Span),
}

/// What the policy with the number `own` extends. Its own name can only mean a preset.
pub(super) fn parent<'a>(
    policy: &Here<'_>,
    own: usize,
    find: impl Fn(&str) -> Option<usize>,
    names: impl Iterator<Item = &'a str>,
) -> Result<Option<Parent>, Problem> {
    let Some(extends) = policy.get("extends") else { return Ok(None) };
    let name = extends.text()?;
    if let Some(ours) = find(name).filter(|ours| *ours != own) {
        return Ok(Some(Parent::Ours(ours)));
    }
    if let Some(preset) = Preset::from_name(name) {
        return Ok(Some(Parent::Preset(preset, extends.node.span)));
    }
    if find(name).is_some() {
        return Err(extends.wrong("a policy cannot extend itself"));
    }
    let presets = Preset::ALL.map(Preset::name);
    let help = did_you_mean(name, names.chain(presets)).unwrap_or_else(|| {
        format!("name another policy of this file, or a preset: {}", presets.join(", "))
    });
    let wrong = format!("no policy of this file and no preset is called `{}`", Short(name));
    Err(extends.wrong(wrong).help(help))
}

/// A preset as a table: every field stands where the preset is named.
pub(super) fn preset(preset: Preset, span: Span) -> Table {
    let mut table = print::policy(&Policy::from(preset));
    move_to(&mut table, span);
    table
}

fn move_to(table: &mut Table, span: Span) {
    for entry in table.entries_mut() {
        (entry.key_span, entry.node.span) = (span, span);
        match &mut entry.node.value {
            Value::Table(inner) => move_to(inner, span),
            Value::List(list) => list.iter_mut().for_each(|node| node.span = span),
            _ => {}
        }
    }
}

/// Puts `over` on top of `under`.
pub(super) fn merge(under: &mut Table, over: &Table) {
    merge_at(under, over, "");
}

fn merge_at(under: &mut Table, over: &Table, path: &str) {
    for entry in over.entries() {
        let path = join(path, &entry.key);
        match &entry.node.value {
            Value::Text(none) if none == "none" && OPTIONAL.contains(&path.as_str()) => {
                under.remove(&entry.key);
            }
            Value::Table(over) => {
                if !goes_into(under.get(&entry.key), over, &path) {
                    let node = Node { value: Value::Table(Table::default()), ..entry.node };
                    under.set(Entry { node, ..entry.clone() });
                }
                if let Some(known) = under.entry_mut(&entry.key) {
                    (known.key_span, known.node.span) = (entry.key_span, entry.node.span);
                    if let Value::Table(under) = &mut known.node.value {
                        merge_at(under, over, &path);
                    }
                }
            }
            _ => under.set(entry.clone()),
        }
    }
}

/// Whether what is there is a table that `over` can be put on.
fn goes_into(under: Option<&Node>, over: &Table, path: &str) -> bool {
    let Some(under) = under.and_then(Node::table) else { return false };
    let choice = |table: &Table| table.entries().first().map(|entry| entry.key.clone());
    !CHOICES.contains(&path) || choice(under) == choice(over)
}

/// A field of a field, as messages and places name it.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
