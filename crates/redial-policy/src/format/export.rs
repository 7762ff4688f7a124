//! What exports have in common: the routes of a policy, and the fields that another system does not have.

use std::collections::{HashMap, HashSet};

use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::schedule::{Backoff, Growth, Jitter};
use redial_core::{LONGEST_DURATION, Policy, Span, TimeLimit};

use super::time;
use crate::file::{File, Named, Queue, Route, fields};
use crate::format::Note;
use crate::source::Problem;

/// The routes of a file, and one for each policy without any: all requests to the host of its name, or all requests if
/// it is the only policy.
///
/// # Errors
///
/// The file has no policy.
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

/// The length of the queue in the policy's setting or the file's; the largest number if it is unbounded.
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

/// A duration, rounded up to whole milliseconds, with its note; `None` if it is unlimited.
pub(super) fn limit(field: &'static str, limit: TimeLimit, notes: &mut Vec<Note>) -> Option<Span> {
    let span = limit.span()?;
    let rounded = time::whole_ms(span);
    notes.push(if rounded == span {
        Note::kept(field, span.to_string())
    } else {
        Note::approximated(field, format!("rounded up to whole milliseconds: {rounded}"))
    });
    Some(rounded)
}

/// The connect timeout. Without one, connecting may take as long as the attempt; `None` leaves it to the default of the
/// other system.
pub(super) fn connect_timeout(
    policy: &Policy,
    default: &str,
    notes: &mut Vec<Note>,
) -> Option<Span> {
    let own = policy.connect_timeout_limit();
    if own.is_some() {
        return limit("connect_timeout", own, notes);
    }
    let longest = policy.attempt_timeout_limit().min(policy.deadline_limit()).span();
    if longest.is_none() {
        let text = format!("none here, but {default} there");
        notes.push(Note::approximated("connect_timeout", text));
    }
    longest.map(time::whole_ms)
}

/// The waits in Envoy's form, with notes: full jitter over ceilings that double. Unless `keeps_cap`, the cap is ten times the
/// base.
pub(super) fn doubling(policy: &Policy, keeps_cap: bool, notes: &mut Vec<Note>) -> Backoff {
    let backoff = policy.backoff();
    let base = time::whole_ms(backoff.base);
    let cap = if keeps_cap { time::whole_ms(backoff.cap) } else { time::tenfold(base) };
    let constant = matches!(backoff.growth, Growth::Constant) || base >= cap;
    let cap = if constant && keeps_cap { base } else { cap };
    match backoff.growth {
        Growth::Exponential(2.0) => notes.push(Note::kept("backoff.growth", "doubling")),
        _ if constant && keeps_cap => notes.push(Note::kept("backoff.growth", "a cap at the base")),
        _ => notes.push(Note::approximated("backoff.growth", "doubling")),
    }
    notes.push(match backoff.jitter {
        Jitter::Full => Note::kept("backoff.jitter", "full"),
        _ => Note::approximated("backoff.jitter", "full"),
    });
    let kept = base == backoff.base && (cap == backoff.cap || (constant && keeps_cap));
    notes.push(if kept {
        Note::kept("backoff.base, backoff.cap", format!("{base}, {cap}"))
    } else {
        let text = format!("{base} and {cap}");
        Note::approximated("backoff.base, backoff.cap", text)
    });
    Backoff::exponential(base.into(), cap.into())
}

/// The fields that every proxy has; what differs is in notes of their own.
pub(super) const PROXY: [&str; 6] =
    ["attempts", "attempt_timeout", "deadline", "backoff", "budget", "retry_on"];

/// Notes on the fields that the policy sets and the other system does not have; `exported` lists its fields.
pub(super) fn dropped(policy: &Policy, exported: &[&str]) -> Vec<Note> {
    let lost = fields::all().filter(|field| !exported.contains(&field.name));
    let note = |field: &fields::Field| {
        let text = match (field.name, (field.value)(policy)?.as_str()) {
            ("fleet", _) => "no counterpart: every instance has the whole floor".to_owned(),
            (_, "true") => "no counterpart".to_owned(),
            (_, value) => format!("no counterpart for {value}"),
        };
        Some(Note::dropped(field.name, text))
    };
    lost.filter_map(note).collect()
}

/// The budget in systems that only know a share of recent calls. Token buckets become the usual share, because a system
/// without a budget would be worse.
pub(super) fn window(policy: &Policy) -> Option<WindowBudget> {
    match policy.budget() {
        Budget::Window(budget) => Some(*budget),
        Budget::Tokens(_) | Budget::Throttling(_) => Some(WindowBudget::default()),
        Budget::None | Budget::Inflight(_) => None,
    }
}

/// The note on a token bucket that becomes that share.
pub(super) fn bucket_as_window(policy: &Policy) -> Option<Note> {
    let is_bucket = matches!(policy.budget(), Budget::Tokens(_) | Budget::Throttling(_));
    let text = "token buckets become 10% of the requests of the last 10s, at least one a second";
    is_bucket.then(|| Note::approximated("budget", text))
}

/// The delay of hedges as another system has it, if it is a fixed one and hedges are sent at all. Other systems hedge every
/// slow attempt, so hedges of overtaken ones have no counterpart.
pub(super) fn hedge_delay(policy: &Policy) -> Option<Span> {
    let rule = policy.hedge().filter(|rule| policy.attempts() > 1 && !rule.overtaken)?;
    let delay = rule.fixed_delay()?;
    Some(delay.clamp(time::SHORTEST_DURATION, LONGEST_DURATION))
}

/// The note on a system that has either retries or hedges.
pub(super) fn hedges_instead(theirs: &str) -> Note {
    let text =
        format!("{theirs}; it excludes retries there: a failure sends the next hedge at once");
    Note::approximated("hedge", text)
}

/// Our runners do not retry unsafe requests; other systems do not check.
pub(super) fn safety() -> Note {
    Note::dropped("safety", "requests are retried whatever their method")
}

/// The host of a route, in systems where every route has one: by default the name of the policy.
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

/// A host has one budget, that of its first policy. Adds a note to the other policies.
pub(super) fn note_shared_host(
    host: &str,
    first: &Named,
    routes: &[&(Route, &Named)],
    notes: &mut [(String, Vec<Note>)],
) {
    for (_, named) in routes.iter().filter(|(_, named)| named.name != first.name) {
        let text = format!("{host} has one budget, which is that of `{}`", first.name);
        let note = Note::dropped("budget", text);
        let lines = notes.iter_mut().find(|(name, _)| *name == named.name);
        if let Some((_, lines)) = lines.filter(|(_, lines)| !lines.contains(&note)) {
            lines.push(note);
        }
    }
}
