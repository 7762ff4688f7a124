use std::collections::HashMap;

use redial_core::admit::budget::Budget;
use redial_core::{Draft, Policy};
use serde::Deserialize;

use super::extend::{self, Parent, join};
use super::{File, MOST_POLICIES, Named, Setting, fields, fleets, routes, setting, sidecar};
use crate::found::Places;
use crate::source::{Place, Problem, SourceId, Span};
use crate::tree::de::{Clamped, De};
use crate::tree::{Cursor, Entry, MOST_NODES, Node, Table, Truncated, Value};

/// The most values in a policy, excluding inherited ones.
const MOST_VALUES: usize = 2_000;

pub(super) fn read(node: &Node, source: SourceId) -> Result<(File, Vec<Places>), Problem> {
    let top = Cursor::top(node);
    let Some(first) = top.table()?.entries().first() else {
        return Err(Problem::whole("empty file: a policy starts with [policy.NAME]"));
    };
    let is_bare = ["policy", "route", "upstream", "proxy"].iter().all(|it| top.get(it).is_none());
    let known = if is_bare { fields::names() } else { super::TABLES.to_vec() };
    top.deny_unknown(&known)?;
    let written = if is_bare {
        let describes_policy = |entry: &Entry| match entry.key.as_str() {
            "setting" => false,
            "fleet" => entry.node.table().is_none(),
            _ => true,
        };
        if !top.table()?.entries().iter().any(describes_policy) {
            return Err(no_policy());
        }
        let mut own = top.table()?.clone();
        own.remove("setting");
        vec![Written::new("policy", first.key_span, top.clone(), own)?]
    } else {
        named(&top)?
    };
    let setting = top.get("setting").map_or(Ok(Setting::default()), |here| setting::read(&here))?;
    let mut file = File { setting, ..File::default() };
    let mut places = Vec::with_capacity(written.len());
    for (written, (named, table)) in written.iter().zip(resolve(&written)?) {
        let whole = Place { source, span: written.name_span };
        let mut of = Places::new(whole);
        if let Some(setting) = top.get("setting") {
            put(&mut of, setting.table()?, "setting", source);
        }
        put(&mut of, &table, "", source);
        places.push(of);
        file.policies.push(named);
    }
    file.fleets = fleets::read(&top, &file.policies, &places)?;
    sidecar::read(&top, &mut file)?;
    file.routes = routes::read(&top, &file, &mut places, source)?;
    Ok((file, places))
}

fn named<'a>(top: &Cursor<'a>) -> Result<Vec<Written<'a>>, Problem> {
    let policies = match (top.get("policy"), top.get("upstream")) {
        (Some(policies), _) => policies,
        (None, Some(_)) => return Ok(Vec::new()),
        (None, None) if top.get("proxy").is_some() => {
            return Err(Problem::whole("no upstream: one starts with [upstream.NAME]"));
        }
        (None, None) => return Err(no_policy()),
    };
    let entries = policies.table()?.entries();
    if entries.is_empty() {
        return Err(no_policy());
    }
    if entries.len() > MOST_POLICIES {
        return Err(policies.problem(format_args!("more than {MOST_POLICIES} policies")));
    }
    let written = entries.iter().zip(policies.fields()).map(|(entry, (name, here))| {
        if name.is_empty() || name.len() > 255 || name.contains(char::is_control) {
            let wrong = "policy: a name must have 1 to 255 bytes and no control characters";
            return Err(Problem::at(entry.key_span, wrong));
        }
        // `[policy]` without a name is a common mistake.
        let table = here.table().map_err(|problem| {
            let known = fields::is_name(name);
            let help = format!("give the policy a name: write {name} = … below [policy.NAME]");
            if known { problem.help(help) } else { problem }
        })?;
        Written::new(name, entry.key_span, here.clone(), table.clone())
    });
    written.collect()
}

fn no_policy() -> Problem {
    Problem::whole("no policy: one starts with [policy.NAME]")
}

/// A policy as it is written in the file.
struct Written<'a> {
    name: &'a str,
    name_span: Span,
    here: Cursor<'a>,
    own: Table,
}

impl<'a> Written<'a> {
    fn new(name: &'a str, name_span: Span, here: Cursor<'a>, own: Table) -> Result<Self, Problem> {
        here.deny_unknown(&fields::names())?;
        let written = Self { name, name_span, here, own };
        written.bounded(count(&written.own), MOST_VALUES)?;
        Ok(written)
    }

    fn bounded(&self, values: usize, most: usize) -> Result<(), Problem> {
        if values <= most {
            return Ok(());
        }
        let problem = self.here.problem(format_args!("more than {most} values"));
        Err(Problem { span: Some(self.name_span), ..problem })
    }

    /// Builds the policy from all of its fields, own and inherited.
    fn build(&self, mut table: Table) -> Result<Named, Problem> {
        let setting = match table.remove("setting") {
            Some(entry) => setting::read(&self.here.with("setting", &entry.node))?,
            None => Setting::default(),
        };
        let node = Node { span: self.here.node.span, value: Value::Table(table) };
        let policy = self.policy(&node)?;
        Ok(Named { name: self.name.to_owned(), policy, setting })
    }

    fn policy(&self, node: &Node) -> Result<Policy, Problem> {
        let clamped = Clamped::default();
        let draft = Draft::deserialize(De::new(self.here.at_node(node), &clamped));
        let draft = draft.map_err(Problem::from)?;
        let clamped = clamped.into_inner();
        let invalid = match (draft.clone().build(), clamped) {
            (Ok(policy), None) => return Ok(policy),
            (Ok(_), Some(clamped)) => return Err(clamped),
            (Err(invalid), _) => invalid,
        };
        // The inherited policy is valid by itself, so the mistake is in one of its own fields.
        let mut own = Places::new(Place { span: self.name_span, ..Place::default() });
        put(&mut own, &self.own, "", SourceId::default());
        let span = own.of(invalid.field()).span;
        let path = join(self.here.path(), invalid.field());
        if let Some(budget) = unshared_budget(draft).filter(|_| invalid.field() == "fleet") {
            let message =
                format!("{path}: a fleet shares a window budget, but this one is {budget}");
            return Err(Problem::at(span, message).help("add budget = { window = {} }"));
        }
        let written = invalid.field().split('.').try_fold(node, |node, key| node.get(key));
        let (kind, value) = match written.map(|node| &node.value) {
            Some(Value::Integer(number)) if number.to_string() != invalid.value() => {
                ("a whole number ", number.to_string())
            }
            _ => ("", invalid.value().to_owned()),
        };
        let allowed = invalid.allowed();
        let message = format!("{path}: must be {kind}{allowed}, but is {value}");
        Err(Problem::at(span, message))
    }
}

/// The budget of a policy, in a few words, if a fleet cannot share it.
fn unshared_budget(draft: Draft) -> Option<String> {
    let policy = draft.without_fleet().build().ok()?;
    let is_shared = matches!(policy.budget(), Budget::Window(_));
    (!is_shared).then(|| fields::budget(&policy).unwrap_or_else(|| "none".to_owned()))
}

fn count(table: &Table) -> usize {
    fn inside(node: &Node) -> usize {
        match &node.value {
            Value::List(list) => 1 + list.iter().map(inside).sum::<usize>(),
            Value::Table(table) => 1 + count(table),
            _ => 1,
        }
    }
    table.entries().iter().map(|entry| inside(&entry.node)).sum()
}

/// Each policy with what it inherits. A chain is walked up to the first resolved policy and then down again, without
/// recursion: it can be as long as the file.
fn resolve(written: &[Written<'_>]) -> Result<Vec<(Named, Table)>, Problem> {
    let numbers: HashMap<&str, usize> =
        written.iter().enumerate().map(|(i, written)| (written.name, i)).collect();
    let find = |name: &str| numbers.get(name).copied();
    let mut resolved: Vec<Option<(Named, Table)>> = vec![None; written.len()];
    let mut walked = vec![usize::MAX; written.len()];
    let mut values = 0;
    for start in 0..written.len() {
        let (mut chain, mut next) = (Vec::new(), Some(start));
        let mut base = Table::default();
        while let Some(at) = next {
            if let Some((_, table)) = &resolved[at] {
                base = table.clone();
                break;
            }
            if walked[at] == start {
                return Err(cycle(written, &chain, at));
            }
            walked[at] = start;
            chain.push(at);
            let names = written.iter().map(|written| written.name);
            next = match extend::parent(&written[at].here, at, find, names)? {
                Some(Parent::Ours(parent)) => Some(parent),
                Some(Parent::Preset(preset, span)) => {
                    base = extend::preset(preset, span);
                    None
                }
                None => None,
            };
        }
        for at in chain.into_iter().rev() {
            extend::merge(&mut base, &written[at].own);
            base.remove("extends");
            values += count(&base);
            written[at].bounded(values, MOST_NODES)?;
            // Built before others inherit it, so that a mistake is reported where it was made.
            resolved[at] = Some((written[at].build(base.clone())?, base.clone()));
        }
    }
    Ok(resolved.into_iter().flatten().collect())
}

fn cycle(written: &[Written<'_>], chain: &[usize], at: usize) -> Problem {
    let start = chain.iter().position(|known| *known == at).unwrap_or(0);
    let names = chain[start..].iter().take(5).map(|at| Truncated(written[*at].name).to_string());
    let mut names: Vec<_> = names.collect();
    names.push(if chain.len() - start > 5 { "…".to_owned() } else { names[0].clone() });
    let here = written[at].here.get("extends").unwrap_or_else(|| written[at].here.clone());
    here.problem(format_args!("cycle: {}", names.join(" → ")))
        .help("let one of these extend a preset, or nothing")
}

/// Adds the places of a table's fields: of a value itself, and of a table its name.
pub(super) fn put(places: &mut Places, table: &Table, path: &str, source: SourceId) {
    for entry in table.entries() {
        let path = join(path, &entry.key);
        let inner = entry.node.table();
        let span = if inner.is_some() { entry.key_span } else { entry.node.span };
        places.put(path.clone(), Place { source, span });
        if let Some(inner) = inner {
            put(places, inner, &path, source);
        }
    }
}
