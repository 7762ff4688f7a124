use std::fmt::Write as _;

use redial_core::admit::budget::{Budget, InflightBudget, TokenBudget, WindowBudget};
use redial_core::admit::{BreakerRule, CoolDownRule, ThrottleRule};
use redial_core::fleet::{Location, SecretSource};
use redial_core::schedule::{HedgeDelay, HedgeRule};
use redial_core::{Policy, Span};

use super::extend::join;
use super::fields::{self, Kind};
use super::{File, Layer, Queue, Route, Setting, sidecar};
use crate::tree::{Entry, Node, Table, Value};

/// The shortest duration of a policy.
const SHORTEST_DURATION: Span = Span::from_nanos(1);

impl File {
    /// The text of a file that is read back as the same value. Defaults are left out.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        let setting = setting(&self.setting);
        if !setting.entries().is_empty() {
            section("[setting]", &setting, &mut out);
        }
        for named in &self.policies {
            let mut table = policy(&named.policy);
            let setting = self::setting(&named.setting);
            if !setting.entries().is_empty() {
                table.set(entry("setting", Value::Table(setting)));
            }
            section(&format!("[policy.{}]", Value::toml_key(&named.name)), &table, &mut out);
        }
        for (name, location) in &self.fleets {
            section(&format!("[fleet.{}]", Value::toml_key(name)), &fleet(location), &mut out);
        }
        let proxy = sidecar::print_proxy(&self.proxy);
        if !proxy.entries().is_empty() {
            section("[proxy]", &proxy, &mut out);
        }
        for upstream in &self.upstreams {
            let header = format!("[upstream.{}]", upstream.name);
            section(&header, &sidecar::print_upstream(upstream), &mut out);
        }
        for route in &self.routes {
            section("[[route]]", &self::route(route), &mut out);
        }
        out
    }
}

fn section(header: &str, table: &Table, out: &mut String) {
    let blank = if out.is_empty() { "" } else { "\n" };
    let _ = writeln!(out, "{blank}{header}");
    for entry in table.entries() {
        let _ = writeln!(out, "{} = {}", Value::toml_key(&entry.key), entry.node.value.to_toml());
    }
}

fn entry(key: &str, value: Value) -> Entry {
    let (key, key_span) = (key.to_owned(), Default::default());
    Entry { key, key_span, node: Node { span: Default::default(), value } }
}

pub(super) fn table(entries: impl IntoIterator<Item = Option<(&'static str, Value)>>) -> Table {
    let mut table = Table::default();
    entries.into_iter().flatten().for_each(|(key, value)| table.set(entry(key, value)));
    table
}

/// The fields of a policy that differ from their defaults.
pub(super) fn policy(policy: &Policy) -> Table {
    let full = all_fields(policy);
    let (default, base) = (all_fields(&Policy::standard()), all_fields(&defaults_of(policy)));
    let is_default =
        |entry: &&Entry| default.get(&entry.key).is_some_and(|it| same(it, &entry.node));
    let mut short = Table::default();
    for entry in full.entries().iter().filter(|entry| !is_default(entry)) {
        let value = difference(&entry.node, base.get(&entry.key), &entry.key);
        short.set(self::entry(&entry.key, value));
    }
    short
}

/// A policy with the same kinds of hedge, budget and guards as this one, all at their defaults.
fn defaults_of(policy: &Policy) -> Policy {
    let budget = match policy.budget() {
        Budget::Window(_) => Budget::Window(WindowBudget::default()),
        Budget::Tokens(_) => Budget::Tokens(TokenBudget::default()),
        Budget::Inflight(_) => Budget::Inflight(InflightBudget::default()),
        Budget::None | Budget::Throttling(_) => Budget::default(),
    };
    let mut draft = Policy::draft().budget(budget);
    if let Some(rule) = policy.hedge() {
        // Neither delay has a default: use the other kind, so that it is always printed.
        let when = match rule.when {
            HedgeDelay::After(_) => HedgeDelay::Quantile(0.5),
            HedgeDelay::Quantile(_) | HedgeDelay::Share(_) => HedgeDelay::After(SHORTEST_DURATION),
        };
        draft = draft.hedge(HedgeRule { when, multiple: 1.0, most: 1, overtaken: false });
    }
    if policy.breaker().is_some() {
        draft = draft.breaker(BreakerRule::default());
    }
    if policy.throttle().is_some() {
        draft = draft.throttle(ThrottleRule::default());
    }
    if let Some(rule) = policy.cooldown() {
        // `every` has no default: use another value, so that it is always printed.
        let other =
            if rule.every == SHORTEST_DURATION { SHORTEST_DURATION * 2 } else { SHORTEST_DURATION };
        draft = draft.cooldown(CoolDownRule::every(other.into()));
    }
    draft.build().unwrap_or_else(|_| Policy::standard())
}

/// All fields of a policy as TOML, also those at their defaults.
pub fn full_text(policy: &Policy) -> String {
    toml::to_string(policy).unwrap_or_default()
}

/// All fields of a policy.
pub(super) fn all_fields(policy: &Policy) -> Table {
    // The text keeps the order of the fields, which a table of the TOML crate does not.
    let node = Node::toml(&full_text(policy)).ok();
    node.and_then(|node| node.table().cloned()).unwrap_or_default()
}

/// The parts of a node that differ from `base`. Tables inside a table are alternatives of a choice, and kept even if all
/// of their fields are equal.
fn difference(node: &Node, base: Option<&Node>, path: &str) -> Value {
    let (Some(full), Some(base)) = (node.table(), base.and_then(Node::table)) else {
        return node.value.clone();
    };
    if fields::kind(path) == Kind::BareChoice {
        return node.value.clone();
    }
    let mut short = Table::default();
    for Entry { key, node, .. } in full.entries() {
        let (path, other) = (join(path, key), base.get(key));
        let is_alternative = node.table().is_some() && fields::kind(&path) != Kind::BareChoice;
        if is_alternative || !other.is_some_and(|other| same(node, other)) {
            short.set(entry(key, difference(node, other, &path)));
        }
    }
    Value::Table(short)
}

/// Whether two nodes have the same value, wherever they are.
fn same(one: &Node, other: &Node) -> bool {
    one.value.to_json() == other.value.to_json()
}

fn setting(setting: &Setting) -> Table {
    let duration = |span: Span| Value::from(span.to_string());
    let queue = |queue| match queue {
        Queue::Bounded(most) => Value::from(most),
        Queue::Unbounded => Value::from("unbounded"),
    };
    let chain = || Value::list(setting.chain.iter().map(layer));
    table([
        setting.slo.map(|slo| ("slo", duration(slo))),
        setting.clients.map(|clients| ("clients", clients.into())),
        setting.calls.map(|rate| ("calls", rate.to_string().into())),
        setting.capacity.map(|rate| ("capacity", rate.to_string().into())),
        setting.multiplier.map(|multiplier| ("multiplier", multiplier.into())),
        setting.synchronised.map(|value| ("synchronised", value.into())),
        setting.timer.map(|timer| ("timer", duration(timer))),
        setting.queue.map(|most| ("queue", queue(most))),
        (!setting.chain.is_empty()).then(|| ("chain", chain())),
    ])
}

fn fleet(location: &Location) -> Table {
    let text = |text: &String| Value::from(text.as_str());
    let password = location.password.as_ref().map(|secret| match secret {
        SecretSource::File(path) => Value::table([("file", text(path))]),
        SecretSource::Env(name) => Value::table([("env", text(name))]),
    });
    table([
        Some(("redis", text(&location.redis))),
        location.user.as_ref().map(|user| ("user", text(user))),
        password.map(|password| ("password", password)),
        location.ca_file.as_ref().map(|path| ("ca_file", text(path))),
    ])
}

fn layer(layer: &Layer) -> Value {
    let name = Value::from(layer.name.as_str());
    match layer.attempts {
        Some(attempts) => Value::table([("name", name), ("attempts", attempts.into())]),
        None => name,
    }
}

fn route(route: &Route) -> Table {
    let text = |text: &String| Value::from(text.as_str());
    table([
        route.upstream.as_ref().map(|name| ("upstream", text(name))),
        route.host.as_ref().map(|host| ("host", text(host))),
        route.path.as_ref().map(|path| ("path", text(path))),
        (!route.methods.is_empty())
            .then(|| ("methods", Value::list(route.methods.iter().map(text)))),
        route.key.then(|| ("key", true.into())),
        Some(("policy", text(&route.policy))),
    ])
}
