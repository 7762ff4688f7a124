//! What is around the policy: those who call its caller, the machine it runs on, the queue in front of the server.

use redial_core::admit::budget::Budget;

use super::{Case, Rule, Said};
use crate::file::{Layer, Queue};
use crate::finding::Severity;
use crate::found::Found;

/// Every layer multiplies what the one above it sends.
pub static LAYERED_RETRIES: Rule = Rule {
    name: "layered-retries",
    severity: Severity::Warning,
    about: "several layers of a chain of calls retry, and their attempts multiply",
    origin: "seed 004, fan-out amplification; seed 001, layers",
    check: Some(layered_retries),
};

/// More connections than an address has ports.
pub static SOCKETS_HELD: Rule = Rule {
    name: "sockets-held",
    severity: Severity::Note,
    about: "the attempts of all clients need more ports than one address has",
    origin: "seed 004, socket exhaustion",
    check: Some(sockets_held),
};

/// A queue that serves those who have left.
pub static UNBOUNDED_QUEUE: Rule = Rule {
    name: "unbounded-queue",
    severity: Severity::Warning,
    about: "requests wait in a queue without an end, and are served after their callers have left",
    origin: "seed 001, queue backpressure; Spring's and resilience4j's default executors",
    check: Some(unbounded_queue),
};

/// A layer that retries.
struct Retrier<'a> {
    name: &'a str,
    attempts: u32,
    /// Its config, if it is under review too.
    found: Option<&'a Found>,
}

fn layered_retries(case: &Case<'_>) -> Option<Said> {
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
        "attempts multiply along the chain: {} make {product} at the end of it for one request from the top",
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
    let why =
        if budgeted(&keep) { "the outermost with a budget" } else { "the one nearest to the user" };
    let help = format!(
        "retry in `{}` only, {why}: attempts = 1 in {}, or `refuse_nested = true` where Redial retries",
        keep.name,
        others.join(" and ")
    );
    Some(Said::new("setting.chain", message, help))
}

fn retrier<'a>(case: &Case<'a>, layer: &'a Layer) -> Retrier<'a> {
    let source = case.found.places.whole().source;
    let own = Some(case.found).filter(|found| found.name == layer.name);
    let found = own.or_else(|| case.named.get(&(source, layer.name.as_str())).copied());
    let attempts = found.map(|found| found.policy.attempts()).or(layer.attempts).unwrap_or(1);
    Retrier { name: &layer.name, attempts, found }
}

/// What Linux gives one address for one destination: 32768 to 60999.
const PORTS: u64 = 28_232;

fn sockets_held(case: &Case<'_>) -> Option<Said> {
    let attempts = u64::from(case.retrying()?.attempts());
    let clients = u64::from(case.setting().clients?);
    let sockets = clients * attempts;
    if sockets <= PORTS {
        return None;
    }
    let message = format!(
        "{clients} clients × {attempts} attempts are {sockets} connections to one destination: behind one address there are \
         {PORTS} ports, and one that was closed is busy for another minute"
    );
    let help = "keep connections open and share them, or give the clients more addresses; a client that holds its \
                connection while it waits makes it worse (Redial does not)";
    Some(Said::new("attempts", message, help))
}

fn unbounded_queue(case: &Case<'_>) -> Option<Said> {
    if case.setting().queue != Some(Queue::Unbounded) {
        return None;
    }
    let message = "the queue has no end: in an overload requests wait until their callers have given up and retried, and \
                   the server works for nobody";
    let help = "bound the queue to what is served within an attempt's timeout, and refuse the rest at once";
    Some(Said::new("setting.queue", message, help))
}
