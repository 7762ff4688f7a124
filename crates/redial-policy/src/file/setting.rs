use std::ops::RangeInclusive;

use redial_core::{Nanos, Rate, parse_duration};

use super::{Layer, Queue, Setting};
use crate::source::Problem;
use crate::tree::{Cursor, Value};

/// The most services in a chain.
const MOST_LAYERS: usize = 100;

pub(super) fn read(here: &Cursor<'_>) -> Result<Setting, Problem> {
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
    here.deny_unknown(&known)?;
    Ok(Setting {
        slo: here.get("slo").map(|here| duration(&here)).transpose()?,
        clients: here.get("clients").map(|here| whole(&here, 1..=u32::MAX)).transpose()?,
        calls: here.get("calls").map(|here| rate(&here)).transpose()?,
        capacity: here.get("capacity").map(|here| rate(&here)).transpose()?,
        multiplier: here.get("multiplier").map(|here| multiplier(&here)).transpose()?,
        synchronised: here.get("synchronised").map(|here| boolean(&here)).transpose()?,
        timer: here.get("timer").map(|here| duration(&here)).transpose()?,
        queue: here.get("queue").map(|here| queue(&here)).transpose()?,
        chain: here.get("chain").map(|here| chain(&here)).transpose()?.unwrap_or_default(),
    })
}

pub(super) fn duration(here: &Cursor<'_>) -> Result<Nanos, Problem> {
    let read = here.node.text().map(parse_duration);
    match read {
        Some(Ok(nanos @ 1..)) => Ok(nanos),
        Some(Err(why)) => Err(here.must_be(why)),
        Some(Ok(0)) | None => Err(here.must_be("a duration above zero, such as \"150ms\"")),
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

fn chain(here: &Cursor<'_>) -> Result<Vec<Layer>, Problem> {
    let layers: Vec<_> = here.list()?.map(|here| layer(&here)).collect::<Result<_, _>>()?;
    if layers.len() > MOST_LAYERS {
        return Err(here.problem(format_args!("more than {MOST_LAYERS} services")));
    }
    Ok(layers)
}

fn layer(here: &Cursor<'_>) -> Result<Layer, Problem> {
    if here.node.text().is_some() {
        return Ok(Layer { name: non_empty(here)?, attempts: None });
    }
    if here.node.table().is_none() {
        return Err(here.must_be("a name, or { name = …, attempts = … }"));
    }
    here.deny_unknown(&["name", "attempts"])?;
    let name = here.get("name").ok_or_else(|| here.problem("missing field `name`"))?;
    let attempts = here.get("attempts").map(|here| whole(&here, 1..=1_000_000)).transpose()?;
    Ok(Layer { name: non_empty(&name)?, attempts })
}

pub(super) fn non_empty(here: &Cursor<'_>) -> Result<String, Problem> {
    let text = here.text()?;
    if text.is_empty() { Err(here.must_be("a name")) } else { Ok(text.to_owned()) }
}
