use std::collections::HashMap;

use redial_core::admit::budget::Budget;
use redial_core::{Draft, Invalid, Policy};

use super::extend::{self, Parent, join};
use super::routes::Names;
use super::{File, MOST_POLICIES, Named, fields, fleets, routes, setting, sidecar};
use crate::places::Places;
use crate::source::{Place, Problem, Problems, SourceId, TextSpan};
use crate::tree::de::{self, Wrong};
use crate::tree::{Cursor, Entry, MOST_NODES, Node, Table, Truncated, Value};

/// The most values in a policy, excluding inherited ones.
const MOST_VALUES: usize = 2_000;

pub(super) fn read(node: &Node, source: SourceId) -> Result<(File, Vec<Places>), Problems> {
    let problems = Problems::default();
    let file = contents(node, source, &problems);
    file.filter(|_| problems.is_empty()).ok_or(problems)
}

/// `None`, if the policies cannot be told apart.
fn contents(node: &Node, source: SourceId, problems: &Problems) -> Option<(File, Vec<Places>)> {
    let top = Cursor::top(node);
    let entries = problems.ok(top.table())?.entries();
    let Some(first) = entries.first() else {
        problems.add(Problem::whole("empty file: a policy starts with [policy.NAME]"));
        return None;
    };
    let is_bare = ["policy", "route", "upstream", "proxy"].iter().all(|it| top.get(it).is_none());
    let setting = top.get("setting");
    let setting_read = setting.as_ref().map(|here| setting::read(here, problems));
    let written = if is_bare {
        let describes_policy = |entry: &Entry| match entry.key.as_str() {
            "setting" => false,
            "fleet" => entry.node.table().is_none(),
            _ => true,
        };
        let mut own = top.node.table().cloned().unwrap_or_default();
        own.remove("setting");
        let written = Written::new("policy", first.key_span, top.clone(), own, problems);
        if !entries.iter().any(describes_policy) {
            problems.add(no_policy());
            return None;
        }
        vec![written]
    } else {
        top.deny_unknown(&super::TABLES, problems);
        named(&top, problems)?
    };
    let mut file = File { setting: setting_read.unwrap_or_default(), ..File::default() };
    let mut places = Vec::with_capacity(written.len());
    let resolved = resolve(&written, problems)?;
    for (written, (named, table)) in written.iter().zip(&resolved) {
        let whole = Place { source, span: written.name_span };
        let mut of = Places::new(whole);
        if let Some(setting) = setting.as_ref().and_then(|it| it.node.table()) {
            put(&mut of, setting, "setting", source);
        }
        put(&mut of, table, "", source);
        places.push(of);
        file.policies.push(named.clone());
    }
    let fleets = resolved.iter().map(|(_, table)| table.get("fleet").and_then(Node::text));
    file.fleets = fleets::read(&top, fleets.zip(&places), problems);
    let names = Names::new(written.iter().map(|written| written.name));
    sidecar::read(&top, &names, &mut file, problems);
    file.routes = routes::read(&top, &names, &mut places, source, problems);
    Some((file, places))
}

fn named<'a>(top: &Cursor<'a>, problems: &Problems) -> Option<Vec<Written<'a>>> {
    let no_policy = |problem| {
        problems.add(problem);
        None
    };
    let policies = match (top.get("policy"), top.get("upstream")) {
        (Some(policies), _) => policies,
        (None, Some(_)) => return Some(Vec::new()),
        (None, None) if top.get("proxy").is_some() => {
            return no_policy(Problem::whole("no upstream: one starts with [upstream.NAME]"));
        }
        (None, None) => return no_policy(self::no_policy()),
    };
    let entries = problems.ok(policies.table())?.entries();
    match entries.len() {
        0 => return no_policy(self::no_policy()),
        1..=MOST_POLICIES => {}
        _ => {
            return no_policy(policies.problem(format_args!("more than {MOST_POLICIES} policies")));
        }
    }
    let written = entries.iter().zip(policies.fields()).map(|(entry, (name, here))| {
        if name.is_empty() || name.len() > 255 || name.contains(char::is_control) {
            let wrong = "policy: a name must have 1 to 255 bytes and no control characters";
            problems.add(Problem::at(entry.key_span, wrong));
        }
        // `[policy]` without a name is a common mistake.
        let table = problems.ok(here.table().map_err(|problem| {
            let known = fields::is_name(name);
            let help = format!("give the policy a name: write {name} = … below [policy.NAME]");
            if known { problem.help(help) } else { problem }
        }));
        let own = table.cloned().unwrap_or_default();
        Written::new(name, entry.key_span, here, own, problems)
    });
    Some(written.collect())
}

fn no_policy() -> Problem {
    Problem::whole("no policy: one starts with [policy.NAME]")
}

/// A policy as it is written in the file, without what cannot be read.
struct Written<'a> {
    name: &'a str,
    name_span: TextSpan,
    here: Cursor<'a>,
    own: Table,
}

impl<'a> Written<'a> {
    fn new(
        name: &'a str,
        name_span: TextSpan,
        here: Cursor<'a>,
        mut own: Table,
        problems: &Problems,
    ) -> Self {
        let known = fields::names();
        if here.node.table().is_some() {
            here.deny_unknown(&known, problems);
        }
        own.retain(&known);
        let mut written = Self { name, name_span, here, own };
        if problems.ok(written.bounded(count(&written.own), MOST_VALUES)).is_none() {
            written.own = Table::default();
        }
        written
    }

    fn bounded(&self, values: usize, most: usize) -> Result<(), Problem> {
        if values <= most {
            return Ok(());
        }
        let problem = self.here.problem(format_args!("more than {most} values"));
        Err(Problem { span: Some(self.name_span), ..problem })
    }

    /// Builds the policy from all of its fields, own and inherited, and makes those with a problem `null`, so that others
    /// do not inherit them. A policy with a problem becomes another one.
    fn build(&self, table: &mut Table, problems: &Problems) -> Named {
        let written = table.remove("setting");
        let setting = written.as_ref().map(|entry| {
            let own = Problems::default();
            let setting = setting::read(&self.here.with("setting", &entry.node), &own);
            let is_new = |problem: &Problem| !problem.span.is_some_and(|span| problems.is_at(span));
            problems.extend(own.into_list().into_iter().filter(is_new));
            setting
        });
        let value = Value::Table(std::mem::take(table));
        let mut node = Node { span: self.here.node.span, value };
        let policy =
            de::read(&self.here, &mut node, problems, |draft, node| self.validate(draft, node));
        if let Value::Table(read) = node.value {
            *table = read;
        }
        written.into_iter().for_each(|entry| table.set(entry));
        let policy = policy.unwrap_or_else(Policy::standard);
        Named { name: self.name.to_owned(), policy, setting: setting.unwrap_or_default() }
    }

    fn validate(&self, draft: Draft, node: &Node) -> Result<Policy, Wrong> {
        draft.clone().build().map_err(|invalid| {
            let written = Cursor::top(node).nearest(invalid.field());
            let is_own = !fields::follows(invalid.field(), node);
            let problem = is_own.then(|| self.invalid(draft, &invalid, node));
            Wrong { problem, at: written.map(|written| &raw const *written.node) }
        })
    }

    fn invalid(&self, draft: Draft, invalid: &Invalid, node: &Node) -> Problem {
        // The inherited policy is valid by itself, so the mistake is in one of its own fields.
        let mut own = Places::new(Place { span: self.name_span, ..Place::default() });
        put(&mut own, &self.own, "", SourceId::default());
        let span = own.of(invalid.field()).span;
        let path = join(self.here.path(), invalid.field());
        if let Some(budget) = unshared_budget(draft).filter(|_| invalid.field() == "fleet") {
            let message =
                format!("{path}: a fleet shares a window budget, but this one is {budget}");
            return Problem::at(span, message).help("add budget = { window = {} }");
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
        Problem::at(span, message)
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
fn resolve(written: &[Written<'_>], problems: &Problems) -> Option<Vec<(Named, Table)>> {
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
                problems.add(cycle(written, &chain, at));
                break;
            }
            walked[at] = start;
            chain.push(at);
            let names = written.iter().map(|written| written.name);
            let parent = extend::parent(&written[at].here, at, find, names);
            next = match problems.ok(parent).flatten() {
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
            problems.ok(written[at].bounded(values, MOST_NODES))?;
            // Built before others inherit it, so that a mistake is reported where it was made.
            resolved[at] = Some((written[at].build(&mut base, problems), base.clone()));
        }
    }
    Some(resolved.into_iter().flatten().collect())
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
