//! A policy that extends another contains only the differences. Tables are merged field by field; where a table is a
//! choice between alternatives (which budget, jitter or delay of hedges), another alternative replaces it as a whole.

use redial_core::{Policy, Preset};

use super::fields::{self, Kind};
use super::print;
use crate::source::{Problem, TextSpan};
use crate::suggest::did_you_mean;
use crate::tree::{Cursor, Entry, Node, Table, Truncated, Value};

/// What `extends` refers to.
pub(super) enum Parent {
    /// The policy with this index in the file.
    Ours(usize),
    Preset(Preset, TextSpan),
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
pub(super) fn preset(preset: Preset, span: TextSpan) -> Table {
    let mut table = print::policy(&Policy::from(preset));
    move_to(&mut table, span);
    table
}

fn move_to(table: &mut Table, span: TextSpan) {
    for entry in table.entries_mut() {
        (entry.key_span, entry.node.span) = (span, span);
        match &mut entry.node.value {
            Value::Table(inner) => move_to(inner, span),
            Value::List(list) => list.iter_mut().for_each(|node| node.span = span),
            _ => {}
        }
    }
}

/// Merges `over` into `under`, which is what it extends, or empty.
pub(super) fn merge(under: &mut Table, over: &Table) {
    if let Some(extends) = over.get("extends") {
        complete(under, over, extends.span);
    }
    merge_at(under, over, "");
}

/// Writes out the default hedge and budget if `over` changes a part of them: they are not at the defaults of their own
/// fields.
fn complete(under: &mut Table, over: &Table, span: TextSpan) {
    for name in ["hedge", "budget"] {
        let changes = over.get(name).is_some_and(|node| node.table().is_some());
        if changes && under.get(name).is_none() {
            let mut default = print::all_fields(&Policy::standard());
            move_to(&mut default, span);
            default.remove(name).into_iter().for_each(|entry| under.set(entry));
        }
    }
}

fn merge_at(under: &mut Table, over: &Table, path: &str) {
    for entry in over.entries() {
        let path = join(path, &entry.key);
        match &entry.node.value {
            Value::Text(none) if none == "none" && fields::kind(&path) == Kind::Optional => {
                under.remove(&entry.key);
            }
            Value::Table(over) => {
                let present = under.get(&entry.key).and_then(Node::table);
                if !present.is_some_and(|under| fields::can_merge(&path, under, over)) {
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

/// The path of a field inside another, as messages and places write it.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
