//! The traffic to an upstream or at a server: how many calls became how many attempts, and which layer's retries they
//! are.

use std::collections::BTreeSet;

use redial_core::storm::{Flow, Level};

use super::backlog::{NOT_A_COUNT, WAS_RESET};
use super::names;
use super::scrape::{Change, Scrape};
use super::symptom::Symptom;
use super::{Diagnosed, DiagnosedKind, FEW, QUEUE_METER};

/// The most attempts that a policy should have, as in the rule too-many-attempts.
const MOST_ATTEMPTS: f64 = 5.0;

pub(super) fn subjects(change: Change<'_>, usual: Option<Change<'_>>) -> Vec<Diagnosed> {
    // A subject may have calls and no attempts yet.
    let all: [(DiagnosedKind, &[&'static str]); 3] = [
        (DiagnosedKind::Upstream, &[names::ATTEMPTS, names::CALLS]),
        (DiagnosedKind::Server, &[names::SERVER_REQUESTS]),
        (DiagnosedKind::Cluster, &[names::ENVOY_REQUESTS]),
    ];
    let mut subjects = Vec::new();
    for (kind, metrics) in all {
        let named = |scrape: &'_ Scrape| -> BTreeSet<String> {
            metrics.iter().flat_map(|metric| scrape.subjects(metric)).map(str::to_owned).collect()
        };
        let (was, is) = (named(change.from), named(change.to));
        subjects.extend(is.iter().map(|name| examine(kind, name, change, usual)));
        subjects.extend(was.difference(&is).map(|name| {
            let mut subject = Diagnosed::new(kind, name);
            subject
                .unknown
                .push("what it does: it was in the first scrape but not in the last one".into());
            subject
        }));
    }
    subjects
}

fn examine(
    kind: DiagnosedKind,
    name: &str,
    change: Change<'_>,
    usual: Option<Change<'_>>,
) -> Diagnosed {
    let mut subject = Diagnosed::new(kind, name);
    if let Some((metric, value)) = change.impossible(kind, name) {
        subject.mark_unreliable(metric, value, NOT_A_COUNT);
        return subject;
    }
    let flow = flow(kind, name, change);
    subject.flow = Some(flow);
    if kind == DiagnosedKind::Upstream && is_of_workers(name, change.to) {
        subject.of_jobs = change.to.largest(names::MULTIPLIER, name).filter(|ratio| *ratio >= 0.0);
        if subject.of_jobs.is_none() && change.to.has(names::MULTIPLIER, name) {
            subject.mark_unreliable(names::MULTIPLIER, f64::NAN, "is not a ratio");
        }
    }
    compare(&mut subject, flow, usual);
    attribute(&mut subject, flow, change);
    match kind {
        DiagnosedKind::Upstream => client_findings(&mut subject, change),
        DiagnosedKind::Cluster => envoy_findings(&mut subject, change),
        _ => {}
    }
    caveats(&mut subject, flow, change);
    subject
}

/// Whether the workers of a queue have this meter. It is named like the queue; where a process has upstreams of the same
/// name, its name begins with [`QUEUE_METER`].
fn is_of_workers(name: &str, scrape: &Scrape) -> bool {
    let queue = name.strip_prefix(QUEUE_METER);
    let has_own = || scrape.has(names::ATTEMPTS, &format!("{QUEUE_METER}{name}"));
    scrape.has(names::QUEUE_JOBS, queue.unwrap_or(name)) && (queue.is_some() || !has_own())
}

fn flow(kind: DiagnosedKind, name: &str, change: Change<'_>) -> Flow {
    let count = |metric, with: &[(&str, &str)]| change.count(metric, name, with);
    let over = change.over();
    match kind {
        DiagnosedKind::Cluster => {
            let attempts = count(names::ENVOY_REQUESTS, &[]);
            let retries = count(names::ENVOY_RETRIES, &[]);
            Flow { calls: attempts.saturating_sub(retries), inherited: 0, attempts, over }
        }
        DiagnosedKind::Server => {
            let (first, retry) = (
                count(names::SERVER_REQUESTS, &[("attempt", "first")]),
                count(names::SERVER_REQUESTS, &[("attempt", "retry")]),
            );
            let all = first.saturating_add(retry);
            Flow { calls: all, inherited: retry, attempts: all, over }
        }
        _ => {
            let inherited = count(names::CALLS, &[("origin", "retried")]);
            let calls = count(names::CALLS, &[]);
            Flow { calls, inherited, attempts: count(names::ATTEMPTS, &[]), over }
        }
    }
}

/// Compares it with the baseline.
fn compare(subject: &mut Diagnosed, flow: Flow, usual: Option<Change<'_>>) {
    let Some(usual) = usual else { return };
    if usual.impossible(subject.kind, &subject.name).is_some() {
        let why = "whether there are more calls than usual: a counter had an impossible value in the baseline";
        subject.unknown.push(why.into());
        return;
    }
    if usual.was_reset(subject.kind, &subject.name) {
        let why = "whether there are more calls than usual: its counters restarted from zero during the baseline";
        subject.unknown.push(why.into());
        return;
    }
    subject.surge = flow.surge(&self::flow(subject.kind, &subject.name, usual));
    let grew = subject.surge.filter(|surge| Level::of(*surge) > Level::Calm);
    if let Some(surge) = grew.filter(|_| flow.calls >= FEW && subject.level() == Some(Level::Calm))
    {
        let saw =
            format!("{surge:.1} times the calls of the baseline, and still about one attempt each");
        subject.find(Symptom::Surge, saw);
    }
}

/// Attributes the excess to layers. Layers multiply, so both may have a part in it: a layer that alone would be a storm,
/// and the layer that makes most of it.
fn attribute(subject: &mut Diagnosed, flow: Flow, change: Change<'_>) {
    if subject.level().is_none_or(|level| level == Level::Calm) {
        return;
    }
    let above = flow.from_above().unwrap_or(0.0);
    let is_storm = |ratio: Option<f64>| ratio.is_some_and(|ratio| Level::of(ratio) > Level::Calm);
    let arrived = Flow { attempts: flow.calls, ..flow };
    if above < 0.5 || is_storm(flow.amplification()) {
        attribute_to_client(subject, flow, change);
    }
    if above >= 0.5 || is_storm(arrived.multiplier()) {
        let what = if subject.kind == DiagnosedKind::Server { "requests" } else { "calls" };
        let saw =
            format!("{} of {} {what} are retries of a layer above", flow.inherited, flow.calls);
        subject.find(Symptom::FromAbove, saw);
    }
    if above >= 0.5 {
        subject.findings.reverse();
    }
}

fn attribute_to_client(subject: &mut Diagnosed, flow: Flow, change: Change<'_>) {
    let own = flow.attempts.saturating_sub(flow.calls);
    let hedges = change.count(names::RETRIES, &subject.name, &[("reason", "hedge")]);
    let whose = if subject.kind == DiagnosedKind::Cluster { "of Envoy" } else { "of this client" };
    let saw = format!("{own} of {} attempts are retries {whose}", flow.attempts);
    if hedges.saturating_mul(2) > own {
        let saw = format!("{hedges} of {} attempts are hedges", flow.attempts);
        subject.find(Symptom::Hedges, saw);
    } else if change.to.largest(names::BUDGET_BALANCE, &subject.name).is_some() {
        subject.find(Symptom::LooseBudget, saw);
    } else {
        subject.find(Symptom::Unbounded, saw);
    }
}

fn client_findings(subject: &mut Diagnosed, change: Change<'_>) {
    let name = subject.name.clone();
    let count = |metric, label, value| change.count(metric, &name, &[(label, value)]);
    let open = change.to.gauges(names::BREAKER_STATE, &name, &[("state", "open")]);
    let open = open.fold(0.0, f64::max) as u64;
    for (symptom, n, what) in [
        (
            Symptom::BudgetDry,
            change.count(names::BUDGET_EXHAUSTED, &name, &[]),
            "retries that the budget refused",
        ),
        (
            Symptom::HintsIgnored,
            count(names::HINTS, "result", "ignored"),
            "hints of the server (Retry-After) that were ignored",
        ),
        (
            Symptom::HintsUnreadable,
            count(names::HINTS, "result", "unreadable"),
            "hints of the server (Retry-After) that cannot be parsed",
        ),
        (
            Symptom::TooManyAttempts,
            change.above(names::ATTEMPTS_PER_CALL, &name, MOST_ATTEMPTS),
            "calls that made more than 5 attempts",
        ),
        (
            Symptom::Unsafe,
            count(names::STOPS, "reason", "unsafe"),
            "calls that were not repeated because they are not safe to repeat",
        ),
        (
            Symptom::AttemptsUsed,
            count(names::STOPS, "reason", "attempts"),
            "calls that failed at their last attempt",
        ),
        (Symptom::BreakerOpen, open, "open circuit breakers"),
        (
            Symptom::Stalled,
            count(names::STOPS, "reason", "stalled"),
            "calls that were not sent because only timeouts come back",
        ),
    ] {
        if n > 0 {
            subject.find(symptom, format!("{what}: {n}"));
        }
    }
}

fn envoy_findings(subject: &mut Diagnosed, change: Change<'_>) {
    let name = subject.name.clone();
    let count = |metric| change.count(metric, &name, &[]);
    let overflow = count(names::ENVOY_OVERFLOW);
    if overflow > 0 {
        let saw = format!(
            "retries that the budget, or the limit of concurrent retries, refused: {overflow}"
        );
        subject.find(Symptom::BudgetDry, saw);
    }
    let exceeded = count(names::ENVOY_LIMIT);
    if exceeded > 0 {
        let helped = count(names::ENVOY_SUCCESS);
        let saw = format!(
            "calls that failed after all their retries: {exceeded}; calls that succeeded by a retry: {helped}"
        );
        subject.find(Symptom::AttemptsUsed, saw);
    }
}

/// Records what could not be determined.
fn caveats(subject: &mut Diagnosed, flow: Flow, change: Change<'_>) {
    let level = subject.level();
    let was_reset = change.was_reset(subject.kind, &subject.name);
    let unknown = &mut subject.unknown;
    if was_reset {
        unknown.push(WAS_RESET.to_owned());
    }
    if flow.attempts == 0 {
        return;
    }
    if flow.calls == 0 {
        unknown.push(format!(
            "whether it is a storm: all {} attempts are retries of earlier calls, and no call began in that time; \
             --for 1m measures longer",
            flow.attempts
        ));
    } else if level.is_none() {
        unknown.push(format!(
            "whether it is a storm: {} attempts are too few; --for 1m measures longer",
            flow.attempts
        ));
    } else if flow.calls < FEW {
        unknown.push(format!("much from only {} calls: --for 1m measures longer", flow.calls));
    }
    if subject.of_jobs.is_some() {
        unknown
            .push("which jobs these attempts belong to: retries come long after their jobs".into());
    }
}
