//! Rules about the surroundings of a policy: other layers, the client's machine, the server's queue.

use redial_core::admit::budget::Budget;
use redial_core::{Policy, Span};

use super::admit::per_second;
use super::{Case, Rule, Violation};
use crate::file::{Layer, Queue};
use crate::finding::Severity;
use crate::format::Found;

/// Retries in several layers.
pub static LAYERED_RETRIES: Rule = Rule {
    name: "layered-retries",
    severity: Severity::Warning,
    about: "several layers of a call chain retry, and their attempts multiply",
    origin: "\"Preventing Retry Storms\" on fan-out amplification; \"Retries Without Thundering Herds\"",
};

/// Too few ports.
pub static SOCKETS_HELD: Rule = Rule {
    name: "sockets-held",
    severity: Severity::Note,
    about: "the attempts of all clients, or the calls in progress, need more ports than one address has",
    origin: "\"Preventing Retry Storms\" on socket exhaustion",
};

/// A queue without a bound.
pub static UNBOUNDED_QUEUE: Rule = Rule {
    name: "unbounded-queue",
    severity: Severity::Warning,
    about: "the queue is unbounded, so requests are served after their callers have given up",
    origin: "\"Retries Without Thundering Herds\" on backpressure; the default executors of Spring and resilience4j",
};

/// A layer that retries.
struct Retrier<'a> {
    name: &'a str,
    attempts: u32,
    /// The layer's config, if it was read too.
    found: Option<&'a Found>,
}

pub(super) fn layered_retries(case: &Case<'_>) -> Option<Violation> {
    let chain = &case.setting().chain;
    if !chain.iter().any(|layer| layer.name == case.found.name) {
        return None;
    }
    let mut retriers: Vec<Retrier<'_>> = Vec::new();
    for layer in chain {
        let retrier = retrier(case, layer);
        let refuses = retrier.found.is_some_and(|found| found.policy.refuses_nested());
        if retrier.attempts > 1 && (retriers.is_empty() || !refuses) {
            retriers.push(retrier);
        }
    }
    // One finding for a chain: at the innermost config that can be changed.
    let innermost = retriers.iter().rev().find_map(|retrier| retrier.found)?;
    if retriers.len() < 2 || !std::ptr::eq(innermost, case.found) {
        return None;
    }
    let product =
        retriers.iter().fold(1_u64, |all, one| all.saturating_mul(u64::from(one.attempts)));
    let factors: Vec<String> =
        retriers.iter().map(|one| format!("{} in `{}`", one.attempts, one.name)).collect();
    let message = format!(
        "attempts multiply along the chain: {} make up to {product} requests at its end for one call at its top",
        factors.join(" × ")
    );
    let budgeted =
        |one: &&Retrier<'_>| one.found.is_some_and(|found| *found.policy.budget() != Budget::None);
    let keep = retriers.iter().find(budgeted).or(retriers.first())?;
    let others: Vec<String> = retriers
        .iter()
        .filter(|one| one.name != keep.name)
        .map(|one| format!("`{}`", one.name))
        .collect();
    let why = if budgeted(&keep) {
        "the outermost layer with a budget"
    } else {
        "the layer nearest to the user"
    };
    let help = format!(
        "retry only in `{}`, {why}: set attempts to 1 in {}, or `refuse_nested = true` where Redial retries",
        keep.name,
        others.join(" and ")
    );
    Some(Violation::new("setting.chain", message, help))
}

fn retrier<'a>(case: &Case<'a>, layer: &'a Layer) -> Retrier<'a> {
    let source = case.found.places.whole().source;
    let own = Some(case.found).filter(|found| found.name == layer.name);
    let found = own.or_else(|| case.named.get(&(source, layer.name.as_str())).copied());
    let attempts = found.map(|found| found.policy.attempts()).or(layer.attempts).unwrap_or(1);
    Retrier { name: &layer.name, attempts, found }
}

/// The ephemeral ports of one address on Linux, for one destination: 32768 to 60999.
const PORTS: u64 = 28_232;

pub(super) fn sockets_held(case: &Case<'_>) -> Option<Violation> {
    let policy = case.retrying()?;
    let [(by_clients, clients_text), (by_rate, rate_text)] =
        [opened_by_clients(case, policy), held_by_calls(case, policy)];
    let (sockets, needs) =
        if by_rate > by_clients { (by_rate, rate_text) } else { (by_clients, clients_text) };
    if sockets <= PORTS {
        return None;
    }
    let message = format!(
        "{needs} need {sockets} connections to one destination: one address has {PORTS} ports, and a closed one stays \
         in use for a minute"
    );
    let help = "reuse connections, or give the clients more addresses; a client that holds its connection during a \
                backoff makes it worse (Redial does not)";
    Some(Violation::new("attempts", message, help))
}

/// The connections of all clients that open one for each attempt of a call.
fn opened_by_clients(case: &Case<'_>, policy: &Policy) -> (u64, String) {
    let (clients, attempts) = (case.setting().clients.unwrap_or(0), policy.attempts());
    let text = format!("{clients} clients × {attempts} attempts");
    (u64::from(clients) * u64::from(attempts), text)
}

/// The connections that are held if every call keeps one until it ends: the rate of calls × the longest time of a call
/// (Little's law). Without an end of the call there is no number, and no-timeout reports that.
fn held_by_calls(case: &Case<'_>, policy: &Policy) -> (u64, String) {
    let Some((calls, elapsed)) = case.setting().calls.zip(policy.worst_case().elapsed) else {
        return (0, String::new());
    };
    let held = (per_second(calls) * elapsed.as_secs_f64()).ceil() as u64;
    let longest = Span::from(elapsed);
    (held, format!("{calls} calls × {longest} until the last wait and attempt are over"))
}

pub(super) fn unbounded_queue(case: &Case<'_>) -> Option<Violation> {
    case.retrying()?;
    if case.setting().queue != Some(Queue::Unbounded) {
        return None;
    }
    let message = "the queue is unbounded: in an overload, requests wait until their callers have given up and retried, and \
                   the server's work is wasted";
    let system = case.system();
    let field = system.advice.queue.unwrap_or("queue");
    let help = format!(
        "set `{field}` to what is served in half of an attempt timeout, such as 100, and the rest is rejected at once"
    );
    // A default that another file may override.
    let is_default = system.advice.queue.is_some() && !case.found.places.has("setting.queue");
    let violation = Violation::new("setting.queue", message, help);
    Some(violation.at_most(Severity::Note, is_default))
}
