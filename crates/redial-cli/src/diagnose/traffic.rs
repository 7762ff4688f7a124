//! What goes to an upstream or arrives at a server, by whoever counted it.

use std::collections::BTreeSet;

use redial_core::storm::{Flow, Level};

use super::names;
use super::others::{BEGAN_AGAIN, NO_COUNT};
use super::scrape::{Change, Scrape};
use super::symptom::Symptom;
use super::{FEW, Kind, Subject};

/// More attempts of a call than a policy should have: the rule too-many-attempts says so too.
const MOST_ATTEMPTS: f64 = 5.0;

pub(super) fn subjects(change: Change<'_>, usual: Option<Change<'_>>) -> Vec<Subject> {
    // A name of which only calls are counted so far is one too.
    let all: [(Kind, &[&'static str]); 3] = [
        (Kind::Upstream, &[names::ATTEMPTS, names::CALLS]),
        (Kind::Server, &[names::SERVER_REQUESTS]),
        (Kind::Cluster, &[names::ENVOY_REQUESTS]),
    ];
    let mut subjects = Vec::new();
    for (kind, metrics) in all {
        let named = |look: &'_ Scrape| -> BTreeSet<String> {
            metrics.iter().flat_map(|metric| look.subjects(metric)).map(str::to_owned).collect()
        };
        let (was, is) = (named(change.from), named(change.to));
        subjects.extend(is.iter().map(|name| examine(kind, name, change, usual)));
        subjects.extend(was.difference(&is).map(|name| {
            let mut subject = Subject::new(kind, name);
            subject.unknown.push(
                "what it does: it was there at the first look and not at the last one".into(),
            );
            subject
        }));
    }
    subjects
}

fn examine(kind: Kind, name: &str, change: Change<'_>, usual: Option<Change<'_>>) -> Subject {
    let mut subject = Subject::new(kind, name);
    if let Some((metric, value)) = change.impossible(kind.label(), name) {
        subject.distrust(metric, value, NO_COUNT);
        return subject;
    }
    let flow = flow(kind, name, change);
    subject.flow = Some(flow);
    if kind == Kind::Upstream && change.to.is_about(names::QUEUE_JOBS, name) {
        subject.of_jobs = change.to.largest(names::MULTIPLIER, name).filter(|ratio| *ratio >= 0.0);
        if subject.of_jobs.is_none() && change.to.is_about(names::MULTIPLIER, name) {
            subject.distrust(names::MULTIPLIER, f64::NAN, "is not a ratio");
        }
    }
    compare(&mut subject, flow, usual);
    blame(&mut subject, flow, change);
    match kind {
        Kind::Upstream => ours(&mut subject, change),
        Kind::Cluster => envoys(&mut subject, change),
        _ => {}
    }
    doubt(&mut subject, flow, change);
    subject
}

/// What went through it.
fn flow(kind: Kind, name: &str, change: Change<'_>) -> Flow {
    let count = |metric, with: &[(&str, &str)]| change.count(metric, name, with);
    let over = change.over();
    match kind {
        Kind::Cluster => {
            let attempts = count(names::ENVOY_REQUESTS, &[]);
            let retries = count(names::ENVOY_RETRIES, &[]);
            Flow { calls: attempts.saturating_sub(retries), inherited: 0, attempts, over }
        }
        Kind::Server => {
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

/// How it is beside what is usual.
fn compare(subject: &mut Subject, flow: Flow, usual: Option<Change<'_>>) {
    let Some(usual) = usual else { return };
    if usual.impossible(subject.kind.label(), &subject.name).is_some() {
        let why = "whether there are more calls than usual: a counter had a value in the time before that none can have";
        subject.unknown.push(why.into());
        return;
    }
    if usual.began_again(subject.kind.label(), &subject.name) {
        let why = "whether there are more calls than usual: its counters began at zero again in the time before";
        subject.unknown.push(why.into());
        return;
    }
    subject.surge = flow.surge(&self::flow(subject.kind, &subject.name, usual));
    let grew = subject.surge.filter(|surge| Level::of(*surge) > Level::Calm);
    if let Some(surge) = grew.filter(|_| flow.calls >= FEW && subject.level() == Some(Level::Calm))
    {
        let saw =
            format!("{surge:.1} times the calls of before, and each is still about one attempt");
        subject.find(Symptom::Surge, saw);
    }
}

/// Whose the excess is, and what to do about it. Layers multiply, so that each may have its part in it: whoever would be
/// a storm alone, and whoever makes most of one.
fn blame(subject: &mut Subject, flow: Flow, change: Change<'_>) {
    if subject.level().is_none_or(|level| level == Level::Calm) {
        return;
    }
    let above = flow.from_above().unwrap_or(0.0);
    let is_storm = |ratio: Option<f64>| ratio.is_some_and(|ratio| Level::of(ratio) > Level::Calm);
    let arrived = Flow { attempts: flow.calls, ..flow };
    if above < 0.5 || is_storm(flow.amplification()) {
        ours_or_hedges(subject, flow, change);
    }
    if above >= 0.5 || is_storm(arrived.multiplier()) {
        let what = if subject.kind == Kind::Server { "requests" } else { "calls" };
        let saw =
            format!("{} of {} {what} are retries of a layer above", flow.inherited, flow.calls);
        subject.find(Symptom::FromAbove, saw);
    }
    if above >= 0.5 {
        subject.findings.reverse();
    }
}

fn ours_or_hedges(subject: &mut Subject, flow: Flow, change: Change<'_>) {
    let own = flow.attempts.saturating_sub(flow.calls);
    let hedges = change.count(names::RETRIES, &subject.name, &[("reason", "hedge")]);
    let whose = if subject.kind == Kind::Cluster { "of Envoy" } else { "of this client" };
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

fn ours(subject: &mut Subject, change: Change<'_>) {
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
            "times that the server said when to come again, and it was ignored",
        ),
        (
            Symptom::HintsUnreadable,
            count(names::HINTS, "result", "unreadable"),
            "times that what the server said about when could not be read",
        ),
        (
            Symptom::TooManyAttempts,
            change.above(names::ATTEMPTS_PER_CALL, &name, MOST_ATTEMPTS),
            "calls that made more than 5 attempts",
        ),
        (
            Symptom::Unsafe,
            count(names::STOPS, "reason", "unsafe"),
            "calls that were not repeated because that may do them twice",
        ),
        (
            Symptom::AttemptsUsed,
            count(names::STOPS, "reason", "attempts"),
            "calls that failed at their last attempt",
        ),
        (Symptom::BreakerOpen, open, "circuit breakers that are open"),
    ] {
        if n > 0 {
            subject.find(symptom, format!("{what}: {n}"));
        }
    }
}

fn envoys(subject: &mut Subject, change: Change<'_>) {
    let name = subject.name.clone();
    let count = |metric| change.count(metric, &name, &[]);
    let overflow = count(names::ENVOY_OVERFLOW);
    if overflow > 0 {
        let saw = format!(
            "retries that the budget, or the limit of retries at once, refused: {overflow}"
        );
        subject.find(Symptom::BudgetDry, saw);
    }
    let exceeded = count(names::ENVOY_LIMIT);
    if exceeded > 0 {
        let helped = count(names::ENVOY_SUCCESS);
        let saw = format!(
            "calls that failed after all their retries: {exceeded}; that a retry saved: {helped}"
        );
        subject.find(Symptom::AttemptsUsed, saw);
    }
}

/// What could not be known.
fn doubt(subject: &mut Subject, flow: Flow, change: Change<'_>) {
    let level = subject.level();
    let began_again = change.began_again(subject.kind.label(), &subject.name);
    let unknown = &mut subject.unknown;
    if began_again {
        unknown.push(BEGAN_AGAIN.to_owned());
    }
    if flow.attempts == 0 {
        return;
    }
    if flow.calls == 0 {
        unknown.push(format!(
            "whether it is a storm: {} attempts are retries of calls that began before, and no call began in that \
             time; --for 1m looks longer",
            flow.attempts
        ));
    } else if level.is_none() {
        unknown.push(format!(
            "whether it is a storm: {} attempts are few; --for 1m looks longer",
            flow.attempts
        ));
    } else if flow.calls < FEW {
        unknown.push(format!("much from {} calls: --for 1m looks longer", flow.calls));
    }
    if subject.of_jobs.is_some() {
        unknown.push("to which jobs these attempts belong: retries come long after".into());
    }
}
