//! What goes to an upstream or arrives at a server, by whoever counted it.

use std::collections::BTreeSet;

use redial_core::storm::{Flow, Level};

use super::names;
use super::others::BEGAN_AGAIN;
use super::scrape::{Change, value};
use super::symptom::Symptom;
use super::{Kind, Subject};

/// Fewer calls than this say little, whatever their ratio is.
const FEW: u64 = 20;
/// More attempts of a call than a policy should have: the rule too-many-attempts says so too.
const MOST_ATTEMPTS: f64 = 5.0;

pub(super) fn subjects(change: Change<'_>, usual: Option<Change<'_>>) -> Vec<Subject> {
    let all = [
        (Kind::Upstream, names::ATTEMPTS),
        (Kind::Server, names::SERVER_REQUESTS),
        (Kind::Cluster, names::ENVOY_REQUESTS),
    ];
    let mut subjects = Vec::new();
    for (kind, metric) in all {
        let label = kind.label();
        let (was, is) = (change.from.values(metric, label), change.to.values(metric, label));
        // A name of which only calls are counted so far is one too.
        let (was, is) = match kind {
            Kind::Upstream => (
                was.union(&change.from.values(names::CALLS, label)).cloned().collect(),
                is.union(&change.to.values(names::CALLS, label)).cloned().collect(),
            ),
            _ => (was, is),
        };
        subjects.extend(is.iter().map(|name| examine(kind, name, change, usual)));
        let gone = was.difference(&is).collect::<BTreeSet<_>>();
        subjects.extend(gone.into_iter().map(|name| {
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
    let flow = flow(kind, name, change);
    subject.flow = Some(flow);
    subject.surge = usual.and_then(|usual| flow.surge(&self::flow(kind, name, usual)));
    if kind == Kind::Upstream && is_queue(name, change) {
        subject.of_jobs = change.to.gauge(names::MULTIPLIER, &[(kind.label(), name)]);
    }
    blame(&mut subject, flow, change);
    match kind {
        Kind::Upstream => ours(&mut subject, change),
        Kind::Cluster => envoys(&mut subject, change),
        _ => {}
    }
    doubt(&mut subject, flow, change);
    subject
}

/// Whether it is the workers of a queue whose attempts are counted under this name.
fn is_queue(name: &str, change: Change<'_>) -> bool {
    change.to.values(names::QUEUE_JOBS, Kind::Queue.label()).contains(name)
}

/// What went through it.
fn flow(kind: Kind, name: &str, change: Change<'_>) -> Flow {
    let count = |metric, with: &[(&str, &str)]| {
        change.count(metric, &[&[(kind.label(), name)], with].concat())
    };
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

/// Whose the excess is, and what to do about it.
fn blame(subject: &mut Subject, flow: Flow, change: Change<'_>) {
    let with = [(subject.kind.label(), subject.name.clone())];
    let with = with.each_ref().map(|(label, name)| (*label, name.as_str()));
    let bad = subject.level().is_some_and(|level| level > Level::Calm);
    let above = flow.from_above().unwrap_or(0.0);
    let (inherited, own) = (flow.inherited, flow.attempts.saturating_sub(flow.calls));
    if bad && above >= 0.5 {
        let saw = format!("{inherited} of {} calls are retries of a layer above", flow.calls);
        subject.find(Symptom::FromAbove, saw);
    }
    if bad && above < 0.5 {
        let hedges = change.count(names::RETRIES, &[&with[..], &[("reason", "hedge")]].concat());
        let whose = if subject.kind == Kind::Cluster { "of Envoy" } else { "of this client" };
        let saw = format!("{own} of {} attempts are retries {whose}", flow.attempts);
        if hedges.saturating_mul(2) > own {
            subject.find(Symptom::Hedges, format!("{hedges} of {own} retries are hedges"));
        } else if change.to.gauge(names::BUDGET_BALANCE, &with).is_some() {
            subject.find(Symptom::LooseBudget, saw);
        } else {
            subject.find(Symptom::Unbounded, saw);
        }
    }
    let grew = subject.surge.filter(|surge| Level::of(*surge) > Level::Calm);
    if let Some(surge) = grew.filter(|_| !bad && flow.calls > 0) {
        let saw =
            format!("{surge:.1} times the calls of before, and each is still about one attempt");
        subject.find(Symptom::Surge, saw);
    }
}

fn ours(subject: &mut Subject, change: Change<'_>) {
    let name = subject.name.clone();
    let upstream = ("upstream", name.as_str());
    let count = |metric, label, value| change.count(metric, &[upstream, (label, value)]);
    let refused = change.count(names::BUDGET_EXHAUSTED, &[upstream]);
    if refused > 0 {
        subject.find(Symptom::BudgetDry, format!("the retry budget refused {refused} retries"));
    }
    let ignored = count(names::HINTS, "result", "ignored");
    if ignored > 0 {
        let saw = format!("{ignored} times the server said when to come again, and it was ignored");
        subject.find(Symptom::HintsIgnored, saw);
    }
    let unreadable = count(names::HINTS, "result", "unreadable");
    if unreadable > 0 {
        let saw = format!("{unreadable} times what the server said about when could not be read");
        subject.find(Symptom::HintsUnreadable, saw);
    }
    let many = above_most(change, upstream);
    if many > 0 {
        let saw = format!("{many} calls made more than {MOST_ATTEMPTS} attempts");
        subject.find(Symptom::TooManyAttempts, saw);
    }
    let unsafe_ones = count(names::STOPS, "reason", "unsafe");
    if unsafe_ones > 0 {
        let saw = format!("{unsafe_ones} calls were not repeated because that may do them twice");
        subject.find(Symptom::Unsafe, saw);
    }
    let used = count(names::STOPS, "reason", "attempts");
    if used > 0 {
        let saw = format!("{used} calls failed after all their attempts");
        subject.find(Symptom::AttemptsUsed, saw);
    }
    let open = change.to.gauge(names::BREAKER_STATE, &[upstream, ("state", "open")]);
    if open.is_some_and(|open| open > 0.0) {
        subject.find(Symptom::BreakerOpen, "the circuit breaker is open");
    }
}

/// The calls that made more than [`MOST_ATTEMPTS`].
fn above_most(change: Change<'_>, with: (&str, &str)) -> u64 {
    let series = change.to.of(names::ATTEMPTS_PER_CALL);
    let bounds = series.filter_map(|(labels, _)| value(labels, "le")).collect::<BTreeSet<_>>();
    let up_to = |wanted: f64| {
        let bound = bounds.iter().find(|bound| bound.parse() == Ok(wanted))?;
        Some(change.count(names::ATTEMPTS_PER_CALL, &[with, ("le", bound)]))
    };
    match (up_to(MOST_ATTEMPTS), up_to(f64::INFINITY)) {
        (Some(few), Some(all)) => all.saturating_sub(few),
        _ => 0,
    }
}

fn envoys(subject: &mut Subject, change: Change<'_>) {
    let name = subject.name.clone();
    let count = |metric| change.count(metric, &[(Kind::Cluster.label(), name.as_str())]);
    let overflow = count(names::ENVOY_OVERFLOW);
    if overflow > 0 {
        let saw = format!(
            "the retry budget, or the limit of retries at once, refused {overflow} retries"
        );
        subject.find(Symptom::BudgetDry, saw);
    }
    let exceeded = count(names::ENVOY_LIMIT);
    if exceeded > 0 {
        let helped = count(names::ENVOY_SUCCESS);
        let saw = format!(
            "{exceeded} calls failed after all their retries, and {helped} succeeded by one"
        );
        subject.find(Symptom::AttemptsUsed, saw);
    }
}

/// What could not be known.
fn doubt(subject: &mut Subject, flow: Flow, change: Change<'_>) {
    let began_again = change.began_again((subject.kind.label(), &subject.name));
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
    } else if flow.calls < FEW {
        unknown.push(format!("much from {} calls: --for 1m looks longer", flow.calls));
    }
    if let Some(ratio) = subject.of_jobs {
        unknown.push(format!(
            "to which jobs these attempts belong: retries come long after; over its own window the worker counts \
             {ratio:.1} attempts for each job"
        ));
    }
    if subject.kind == Kind::Cluster {
        unknown.push(
            "whose retries come to Envoy: it does not count requests by attempt, so those of the layers above are calls \
             here"
                .into(),
        );
    }
}
