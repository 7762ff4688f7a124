//! What all exports to proxies have in common: which requests a policy is for, and what no proxy has.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use redial_core::schedule::{Backoff, Growth, HintRule, Jitter};
use redial_core::{DurationText, NEVER, Nanos, Policy};

use super::time;
use crate::file::{File, Named, Queue, Route};
use crate::found::Note;
use crate::source::Problem;

/// The routes of a file, and one for each policy that has none: all requests to the host of its name, or all there are
/// when it is the only one.
///
/// # Errors
///
/// There is no policy.
pub(super) fn routes(file: &File) -> Result<Vec<(Route, &Named)>, Problem> {
    let policies = super::policies(file)?;
    let named: HashMap<&str, &Named> =
        policies.iter().map(|named| (named.name.as_str(), named)).collect();
    let routed = file
        .routes
        .iter()
        .filter_map(|route| Some((route.clone(), *named.get(route.policy.as_str())?)));
    let mut routes: Vec<_> = routed.collect();
    let has_route: HashSet<&str> = file.routes.iter().map(|route| route.policy.as_str()).collect();
    if let ([only], []) = (policies, routes.as_slice()) {
        return Ok(vec![(Route { policy: only.name.clone(), ..Route::default() }, only)]);
    }
    for named in policies {
        if !has_route.contains(named.name.as_str()) {
            let (host, policy) = (Some(named.name.clone()), named.name.clone());
            routes.push((Route { host, policy, ..Route::default() }, named));
        }
    }
    Ok(routes)
}

/// How many requests wait, as the policy's setting or the file's has it; the largest number when there is no bound.
pub(super) fn queue(
    file: &File,
    named: &Named,
    theirs: &str,
    notes: &mut Vec<Note>,
) -> Option<u32> {
    let queue = named.setting.queue.or(file.setting.queue)?;
    notes.push(Note::kept("setting.queue", theirs));
    Some(match queue {
        Queue::Bounded(most) => most,
        Queue::Unbounded => u32::MAX,
    })
}

/// A duration field, up to the next millisecond, with its note; `None` when it is unbounded.
pub(super) fn limit(field: &'static str, nanos: Nanos, notes: &mut Vec<Note>) -> Option<Nanos> {
    if nanos == NEVER {
        return None;
    }
    let rounded = time::whole_ms(nanos);
    notes.push(if rounded == nanos {
        Note::kept(field, DurationText(nanos).to_string())
    } else {
        Note::approximated(field, format!("up to whole milliseconds: {}", DurationText(rounded)))
    });
    Some(rounded)
}

/// The timeout for connecting. Without one of its own, that takes as long as the attempt may; `None` leaves it to the
/// default of the other side.
pub(super) fn connect_timeout(
    policy: &Policy,
    default: &str,
    notes: &mut Vec<Note>,
) -> Option<Nanos> {
    let own = policy.connect_timeout();
    if own != NEVER {
        return limit("connect_timeout", own, notes);
    }
    let longest = policy.attempt_timeout().min(policy.deadline());
    if longest == NEVER {
        let text = format!("none, but connecting is given up after {default}");
        notes.push(Note::approximated("connect_timeout", text));
        return None;
    }
    Some(time::whole_ms(longest))
}

/// The waits as Envoy has them, with notes: full jitter over base·(2^k − 1). Where `keeps_cap` is false the cap is ten
/// times the base.
pub(super) fn summed(policy: &Policy, keeps_cap: bool, notes: &mut Vec<Note>) -> Backoff {
    let backoff = policy.backoff();
    let base = time::whole_ms(backoff.base);
    let cap = if keeps_cap { time::whole_ms(backoff.cap) } else { time::tenfold(base) };
    let constant = matches!(backoff.growth, Growth::Constant) || base >= cap;
    let cap = if constant && keeps_cap { base } else { cap };
    match backoff.growth {
        Growth::Summed => notes.push(Note::kept("backoff.growth", "summed")),
        _ if constant && keeps_cap => notes.push(Note::kept("backoff.growth", "a cap at the base")),
        _ => notes.push(Note::approximated("backoff.growth", "summed doublings: base·(2^k − 1)")),
    }
    notes.push(match backoff.jitter {
        Jitter::Full => Note::kept("backoff.jitter", "full"),
        _ => Note::approximated("backoff.jitter", "full"),
    });
    let kept = base == backoff.base && (cap == backoff.cap || (constant && keeps_cap));
    notes.push(if kept {
        Note::kept(
            "backoff.base, backoff.cap",
            format!("{}, {}", DurationText(base), DurationText(cap)),
        )
    } else {
        let text = format!("{} and {}", DurationText(base), DurationText(cap));
        Note::approximated("backoff.base, backoff.cap", text)
    });
    Backoff::summed(Duration::from_nanos(base), Duration::from_nanos(cap))
}

/// Notes on everything that the policy has and the other side does not; `but` is what it does have.
pub(super) fn rest(policy: &Policy, but: &[&str], notes: &mut Vec<Note>) {
    let honours = matches!(policy.hint_rule(), HintRule::Honour { .. });
    let fields = [
        ("connect_timeout", policy.connect_timeout() != NEVER, "it has no timeout for connecting"),
        ("hint", honours, "it is deaf to hints"),
        (
            "require_key",
            policy.requires_key(),
            "it repeats what it is told to, with or without a key",
        ),
        ("refuse_nested", policy.refuses_nested(), "it does not tell retries from first attempts"),
        ("breaker", policy.breaker().is_some(), "it has no breaker for a destination"),
        ("throttle", policy.throttle().is_some(), "it has no adaptive throttle"),
        ("rate", policy.rate().is_some(), "it has no rate limit for attempts"),
        ("concurrency", policy.concurrency().is_some(), "it has no limit for attempts at once"),
        ("cooldown", policy.cooldown().is_some(), "it does not know keys"),
    ];
    let lost = fields.into_iter().filter(|(name, there, _)| *there && !but.contains(name));
    notes.extend(lost.map(|(name, _, why)| Note::dropped(name, why)));
}

/// The host of a route, for systems where every route has one: the name of the policy stands for all hosts.
pub(super) fn host(route: &Route, named: &Named) -> String {
    route.host.clone().unwrap_or_else(|| named.name.clone()).to_ascii_lowercase()
}

/// The routes of each host, in the order of the file.
pub(super) fn by_host<'r, 'f>(
    routes: &'r [(Route, &'f Named)],
) -> Vec<(String, Vec<&'r (Route, &'f Named)>)> {
    let mut hosts: Vec<(String, Vec<_>)> = Vec::new();
    let mut known = HashMap::new();
    for one in routes {
        let host = host(&one.0, one.1);
        let at = *known.entry(host.clone()).or_insert(hosts.len());
        if at == hosts.len() {
            hosts.push((host, Vec::new()));
        }
        hosts[at].1.push(one);
    }
    hosts
}

/// A host has one budget: the one of the first policy. The others hear of it.
pub(super) fn note_shared_host(
    host: &str,
    first: &Named,
    routes: &[&(Route, &Named)],
    notes: &mut [(String, Vec<Note>)],
) {
    for (_, named) in routes.iter().filter(|(_, named)| named.name != first.name) {
        let text = format!("{host} has one budget, and it is that of `{}`", first.name);
        let note = Note::dropped("budget", text);
        let lines = notes.iter_mut().find(|(name, _)| *name == named.name);
        if let Some((_, lines)) = lines.filter(|(_, lines)| !lines.contains(&note)) {
            lines.push(note);
        }
    }
}
