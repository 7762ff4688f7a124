use std::ops::RangeInclusive;

use redial_core::{Rate, Span};

use super::{Layer, Queue, Setting};
use crate::source::{Problem, Problems};
use crate::tree::{Cursor, Value};

/// The most services in a chain.
const MOST_LAYERS: usize = 100;

pub(super) fn read(here: &Cursor<'_>, problems: &Problems) -> Setting {
    let known = [
        "slo",
        "clients",
        "calls",
        "capacity",
        "multiplier",
        "synchronised",
        "timer",
        "queue",
        "chain",
    ];
    here.deny_unknown(&known, problems);
    Setting {
        slo: here.read("slo", problems, duration),
        clients: here.read("clients", problems, |here| whole(here, 1..=u32::MAX)),
        calls: here.read("calls", problems, rate),
        capacity: here.read("capacity", problems, rate),
        multiplier: here.read("multiplier", problems, multiplier),
        synchronised: here.read("synchronised", problems, boolean),
        timer: here.read("timer", problems, duration),
        queue: here.read("queue", problems, queue),
        chain: here.get("chain").map(|here| chain(&here, problems)).unwrap_or_default(),
    }
}

pub(super) fn duration(here: &Cursor<'_>) -> Result<Span, Problem> {
    match here.node.text().map(str::parse) {
        Some(Ok(span)) if span > Span::ZERO => Ok(span),
        Some(Err(why)) => Err(here.must_be(why)),
        Some(Ok(_)) | None => Err(here.must_be("a duration above zero, such as \"150ms\"")),
    }
}

fn rate(here: &Cursor<'_>) -> Result<Rate, Problem> {
    match here.node.text().map(str::parse) {
        Some(Ok(rate @ Rate { count: 1.., .. })) => Ok(rate),
        Some(Err(why)) => Err(here.must_be(why)),
        Some(Ok(_)) | None => Err(here.must_be("a rate above zero, such as \"500/s\"")),
    }
}

pub(super) fn boolean(here: &Cursor<'_>) -> Result<bool, Problem> {
    if let Value::Bool(value) = here.node.value {
        Ok(value)
    } else {
        Err(here.must_be("true or false"))
    }
}

/// Other systems accept a number in quotes; policy files do not.
pub(super) fn whole(here: &Cursor<'_>, range: RangeInclusive<u32>) -> Result<u32, Problem> {
    match here.node.value {
        Value::Integer(_) => here.count(range),
        _ => Err(here.must_be("a whole number")),
    }
}

fn multiplier(here: &Cursor<'_>) -> Result<f64, Problem> {
    let number = match here.node.value {
        Value::Integer(number) => number as f64,
        Value::Float(number) => number,
        _ => f64::NAN,
    };
    let ok = (1.0..=1e6).contains(&number);
    if ok { Ok(number) } else { Err(here.must_be("a number from 1 to 1000000")) }
}

fn queue(here: &Cursor<'_>) -> Result<Queue, Problem> {
    match &here.node.value {
        Value::Text(word) if word == "unbounded" => Ok(Queue::Unbounded),
        Value::Integer(_) => whole(here, 0..=u32::MAX).map(Queue::Bounded),
        _ => Err(here.must_be("how many can wait, or \"unbounded\"")),
    }
}

fn chain(here: &Cursor<'_>, problems: &Problems) -> Vec<Layer> {
    let layers = here.list().and_then(|layers| match layers.count() {
        0..=MOST_LAYERS => Ok(here.items()),
        _ => Err(here.problem(format_args!("more than {MOST_LAYERS} services"))),
    });
    problems.ok(layers).into_iter().flatten().filter_map(|here| layer(&here, problems)).collect()
}

fn layer(here: &Cursor<'_>, problems: &Problems) -> Option<Layer> {
    if here.node.text().is_some() {
        return Some(Layer { name: problems.ok(non_empty(here))?, attempts: None });
    }
    if here.node.table().is_none() {
        problems.add(here.must_be("a name, or { name = …, attempts = … }"));
        return None;
    }
    here.deny_unknown(&["name", "attempts"], problems);
    let attempts = here.read("attempts", problems, |here| whole(here, 1..=1_000_000));
    let name = here.get("name").ok_or_else(|| here.problem("missing field `name`"));
    Some(Layer { name: problems.ok(name.and_then(|name| non_empty(&name)))?, attempts })
}

pub(super) fn non_empty(here: &Cursor<'_>) -> Result<String, Problem> {
    let text = here.text()?;
    if text.is_empty() { Err(here.must_be("a name")) } else { Ok(text.to_owned()) }
}
