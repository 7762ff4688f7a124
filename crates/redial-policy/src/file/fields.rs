//! The fields of a policy, in one list. Reading, inheriting, printing, exporting and the rules all use it; tests compare
//! it with `redial_core::Draft` and with `schema.json`.

use redial_core::admit::budget::Budget;
use redial_core::schedule::HintRule;
use redial_core::{Policy, TimeLimit};

use crate::tree::{Node, Table, Value};

/// A field at the top of a policy.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    kind: Kind,
    /// Whether the name alone shows that a file is about retries.
    is_distinctive: bool,
    /// What a policy sets it to, in a few words; `None` if it leaves it unset.
    pub(crate) value: fn(&Policy) -> Option<String>,
}

/// How a field is inherited and printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A value, or a table in which all fields have defaults.
    Plain,
    /// It may be absent; `"none"` removes an inherited one.
    Optional,
    /// On by default, so `"none"` stays, and switches it off.
    Switch,
    /// One of several alternatives. Another alternative replaces it as a whole.
    Choice,
    /// A choice without defaults inside.
    BareChoice,
}

static FIELDS: [Field; 19] = [
    Field::new("attempts", |policy| Some(policy.attempts().to_string())).distinctive(),
    Field::new("attempt_timeout", |policy| duration(policy.attempt_timeout_limit())).distinctive(),
    Field::new("connect_timeout", |policy| duration(policy.connect_timeout_limit())),
    Field::new("deadline", |policy| duration(policy.deadline_limit())),
    Field::new("backoff", |policy| Some(policy.backoff().base.to_string())).distinctive(),
    Field::new("hint", hint).kind(Kind::Choice),
    Field::new("hedge", hedge).kind(Kind::Switch),
    Field::new("budget", budget).kind(Kind::Choice),
    Field::new("fleet", |policy| policy.fleet().map(str::to_owned)).kind(Kind::Optional),
    Field::new("retry_on", |policy| Some(retry_on(policy))).distinctive(),
    Field::new("require_key", |policy| yes(policy.requires_key())),
    Field::new("refuse_nested", |policy| yes(policy.refuses_nested())),
    Field::new("breaker", |policy| yes(policy.breaker().is_some())).kind(Kind::Optional),
    Field::new("throttle", |policy| yes(policy.throttle().is_some())).kind(Kind::Optional),
    Field::new("rate", |policy| policy.rate().map(|rule| rule.rate.to_string()))
        .kind(Kind::Optional),
    Field::new("concurrency", |policy| policy.concurrency().map(|most| most.to_string()))
        .kind(Kind::Optional),
    Field::new("cooldown", |policy| policy.cooldown().map(|rule| rule.every.to_string()))
        .kind(Kind::Optional),
    Field::new("stall", |policy| {
        policy.stall().map(|_| "calls held back while only timeouts come back".to_owned())
    })
    .kind(Kind::Switch),
    Field::new("park", |policy| {
        policy.parks().then(|| "calls that wait for evidence instead of failing".to_owned())
    })
    .kind(Kind::Switch),
];

/// Fields further down that are not plain.
const NESTED: [(&str, Kind); 8] = [
    ("backoff.growth", Kind::BareChoice),
    ("backoff.jitter", Kind::BareChoice),
    ("breaker.lookback", Kind::BareChoice),
    ("breaker.minimum_calls", Kind::Optional),
    ("hint.honour.spread", Kind::Optional),
    ("budget.tokens.opening", Kind::Optional),
    ("budget.tokens.slowdown", Kind::Optional),
    ("budget.tokens.floor", Kind::Optional),
];

/// Fields whose range depends on another field, as `redial_core` validates them.
const COMPARED: [(&str, &str); 14] = [
    ("attempt_timeout", "deadline"),
    ("connect_timeout", "attempt_timeout"),
    ("connect_timeout", "deadline"),
    ("backoff.base", "backoff.cap"),
    ("backoff.jitter.added", "backoff.cap"),
    ("fleet", "budget"),
    ("budget.window.floor", "budget.window.ttl"),
    ("budget.window.ratio", "budget.window.floor"),
    ("budget.tokens.cost", "budget.tokens.capacity"),
    ("budget.tokens.timeout_cost", "budget.tokens.capacity"),
    ("budget.tokens.throttled_cost", "budget.tokens.capacity"),
    ("budget.tokens.opening", "budget.tokens.capacity"),
    ("budget.tokens.bonus", "budget.tokens.capacity"),
    ("breaker.minimum_calls", "breaker.lookback"),
];

/// The delays of hedges, of which a rule has one.
const HEDGE_DELAYS: [&str; 3] = ["after", "quantile", "share"];

/// What the table of a policy in a file has besides.
const IN_FILES: [&str; 2] = ["extends", "setting"];

impl Field {
    const fn new(name: &'static str, value: fn(&Policy) -> Option<String>) -> Self {
        Self { name, kind: Kind::Plain, is_distinctive: false, value }
    }

    const fn kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    const fn distinctive(self) -> Self {
        Self { is_distinctive: true, ..self }
    }
}

/// The fields at the top of a policy.
pub(crate) fn all() -> impl Iterator<Item = &'static Field> {
    FIELDS.iter()
}

/// Their names, with `extends` and `setting`.
pub(super) fn names() -> Vec<&'static str> {
    all().map(|field| field.name).chain(IN_FILES).collect()
}

/// Whether the table of a policy in a file can have this name.
pub(crate) fn is_name(name: &str) -> bool {
    is_field(name) || IN_FILES.contains(&name)
}

/// All fields of a policy, by name.
pub(crate) fn all_names() -> impl Iterator<Item = &'static str> {
    all().map(|field| field.name)
}

/// Whether a path such as `backoff.base` starts with a field of a policy.
pub(crate) fn is_field(path: &str) -> bool {
    let name = path.split('.').next();
    all().any(|field| Some(field.name) == name)
}

pub(super) fn is_distinctive(name: &str) -> bool {
    all().any(|field| field.is_distinctive && field.name == name)
}

pub(super) fn kind(path: &str) -> Kind {
    let top = all().find(|field| field.name == path).map(|field| field.kind);
    let nested = || NESTED.iter().find(|(known, _)| *known == path).map(|(_, kind)| *kind);
    top.or_else(nested).unwrap_or(Kind::Plain)
}

/// Whether the value of a field may be out of range only because another one was left out, and is `null`.
pub(super) fn follows(path: &str, policy: &Node) -> bool {
    let is_left_out = |path: &str| {
        let nodes = path.split('.').scan(policy, |node, key| {
            *node = node.get(key)?;
            Some(*node)
        });
        nodes.last().is_some_and(|node| node.value == Value::Null)
    };
    is_left_out(path) || COMPARED.iter().any(|(one, other)| *one == path && is_left_out(other))
}

/// Whether a table with these fields can be merged into one with those. It cannot if they are different alternatives.
pub(super) fn can_merge(path: &str, under: &Table, over: &Table) -> bool {
    let first = |table: &Table| table.entries().first().map(|entry| entry.key.clone());
    let delay = |table: &Table| HEDGE_DELAYS.into_iter().find(|name| table.get(name).is_some());
    match kind(path) {
        Kind::Choice | Kind::BareChoice => first(under) == first(over),
        Kind::Switch => delay(over).is_none() || delay(under) == delay(over),
        Kind::Plain | Kind::Optional => true,
    }
}

fn duration(limit: TimeLimit) -> Option<String> {
    limit.span().map(|span| span.to_string())
}

fn yes(is_set: bool) -> Option<String> {
    is_set.then(|| "true".to_owned())
}

fn hint(policy: &Policy) -> Option<String> {
    (*policy.hint_rule() != HintRule::Ignore).then(|| "honoured hints".to_owned())
}

fn hedge(policy: &Policy) -> Option<String> {
    let rule = policy.hedge()?;
    Some(if rule.overtaken { "hedges of overtaken attempts" } else { "hedges" }.to_owned())
}

/// The kind of budget, in a few words; `None` if there is none.
pub(super) fn budget(policy: &Policy) -> Option<String> {
    let text = match policy.budget() {
        Budget::None => return None,
        Budget::Window(_) => "a share of recent calls",
        Budget::Tokens(tokens) if tokens.bonus > 0 => "a budget that retries earn",
        Budget::Tokens(_) => "a token bucket",
        Budget::Throttling(_) => "gRPC's throttling",
        Budget::Inflight(_) => "a share of the calls in flight",
    };
    Some(text.to_owned())
}

fn retry_on(policy: &Policy) -> String {
    let classes = policy.retry_on().classes().map(|class| class.name().to_owned());
    let codes = policy.retry_on().codes().iter().map(u16::to_string);
    classes.chain(codes).collect::<Vec<_>>().join(", ")
}
