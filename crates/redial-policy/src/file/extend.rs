//! A policy that extends another contains only the differences. Tables are merged field by field; where a table is a
//! choice between alternatives (which budget, which jitter), another alternative replaces it as a whole.

use redial_core::{Policy, Preset};

use super::fields::{self, Kind};
use super::print;
use crate::source::{Problem, Span};
use crate::suggest::did_you_mean;
use crate::tree::{Cursor, Entry, Node, Table, Truncated, Value};

/// What `extends` refers to.
pub(super) enum Parent {
    /// The policy with this index in the file.
    Ours(usize),
    Preset(Preset, Span),
}

/// What the policy at the index `own` extends. Its own name can only refer to a preset.
pub(super) fn parent<'a>(
    policy: &Cursor<'_>,
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
        return Err(extends.problem("a policy cannot extend itself"));
    }
    let presets = Preset::ALL.map(Preset::name);
    let help = did_you_mean(name, names.chain(presets)).unwrap_or_else(|| {
        format!("use another policy of this file, or a preset: {}", presets.join(", "))
    });
    let message = format_args!("no policy `{}` in this file, and no such preset", Truncated(name));
    Err(extends.problem(message).help(help))
}

/// A preset as a table. All fields have the place at which the preset is named.
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

/// Merges `over` into `under`.
pub(super) fn merge(under: &mut Table, over: &Table) {
    merge_at(under, over, "");
}

fn merge_at(under: &mut Table, over: &Table, path: &str) {
    for entry in over.entries() {
        let path = join(path, &entry.key);
        if let Some(other) = fields::alternative(&path).filter(|other| over.get(other).is_none()) {
            under.remove(other);
        }
        match &entry.node.value {
            Value::Text(none) if none == "none" && fields::kind(&path) == Kind::Optional => {
                under.remove(&entry.key);
            }
            Value::Table(over) => {
                if !can_merge(under.get(&entry.key), over, &path) {
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

/// Whether the present value is a table that `over` can be merged into.
fn can_merge(under: Option<&Node>, over: &Table, path: &str) -> bool {
    let Some(under) = under.and_then(Node::table) else { return false };
    let choice = |table: &Table| table.entries().first().map(|entry| entry.key.clone());
    let is_choice = matches!(fields::kind(path), Kind::Choice | Kind::BareChoice);
    !is_choice || choice(under) == choice(over)
}

/// The path of a field inside another, as messages and places write it.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
