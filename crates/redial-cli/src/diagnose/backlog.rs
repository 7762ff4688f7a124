//! Queues and fleet budgets. They make no calls themselves, so they are never a storm: a queue may retry for days with
//! long waits. But a growing backlog or an empty budget explains one.

use std::collections::BTreeSet;

use redial_sim::report::milliseconds;

use super::names;
use super::scrape::{Change, Scrape};
use super::symptom::Symptom;
use super::{Diagnosed, DiagnosedKind};

/// The queue is ageing if the age of its oldest job grows by at least so many seconds a second. The alert
/// `RedialQueueAgeing` has the same threshold.
const AGEING: f64 = 0.2;

pub(super) fn queues(change: Change<'_>) -> Vec<Diagnosed> {
    let metrics = [names::QUEUE_AGE, names::QUEUE_JOBS, names::QUEUE_RETRIES];
    each(DiagnosedKind::Queue, &metrics, change.to, |queue| {
        let name = queue.name.clone();
        if let Some((metric, value)) = change.impossible(DiagnosedKind::Queue, &name) {
            queue
                .unknown
                .push(format!("what its counters mean: {metric} is {value}, which {NOT_A_COUNT}"));
            queue.is_unreliable = true;
            return;
        }
        let age = |scrape: &Scrape| scrape.largest(names::QUEUE_AGE, &name);
        if let (Some(before), Some(now)) = (age(change.from), age(change.to))
            && now - before > AGEING * change.over().as_secs_f64()
            && before > 0.0
        {
            queue.find(
                Symptom::QueueAgeing,
                format!(
                    "the age of the oldest due job grew from {} to {}",
                    milliseconds(before * 1e3),
                    milliseconds(now * 1e3)
                ),
            );
        }
        let retries = change.count(names::QUEUE_RETRIES, &name, &[]);
        let ended = |result| change.count(names::QUEUE_JOBS, &name, &[("result", result)]);
        let (done, dead) = (ended("done"), ended("dead"));
        let all = done.saturating_add(dead);
        if retries > all {
            queue.find(
                Symptom::QueueRetries,
                format!("attempts that ended in a retry: {retries}, jobs that ended: {all}"),
            );
        }
        if dead > 0 {
            queue.find(Symptom::DeadLetters, format!("jobs that were given up: {dead}"));
        }
        // It may be empty while nothing fails.
        if retries > 0 && is_empty(change.to.largest(names::QUEUE_BALANCE, &name)) {
            queue.find(Symptom::BudgetDry, "jobs fail, and the retry budget is empty");
        }
        if change.was_reset(DiagnosedKind::Queue, &name) {
            queue.unknown.push(WAS_RESET.to_owned());
        }
    })
}

pub(super) fn fleets(change: Change<'_>) -> Vec<Diagnosed> {
    let mut upstreams = change.to.subjects(names::BUDGET_EXHAUSTED).into_iter();
    let refused = upstreams.any(|name| change.count(names::BUDGET_EXHAUSTED, name, &[]) > 0);
    each(DiagnosedKind::Fleet, &[names::FLEET_CONNECTED], change.to, |fleet| {
        let name = fleet.name.clone();
        if change.to.gauges(names::FLEET_CONNECTED, &name, &[]).any(|connected| connected < 1.0) {
            fleet.find(Symptom::FleetLost, "the ledger does not answer");
        }
        if change.to.largest(names::FLEET_DIFFERS, &name).is_some_and(|differs| differs > 0.0) {
            fleet.find(
                Symptom::FleetDiffers,
                "another instance configures this fleet more strictly",
            );
        }
        // A small fleet without failures may not have earned a whole token yet.
        if refused && is_empty(change.to.largest(names::FLEET_BALANCE, &name)) {
            let saw = "retries were refused, and the ledger has nothing to lease";
            fleet.find(Symptom::FleetDry, saw);
        }
    })
}

fn is_empty(balance: Option<f64>) -> bool {
    balance.is_some_and(|balance| balance < 1.0)
}

pub(super) const NOT_A_COUNT: &str = "is not a count: counters have values from 0 to 2^53";

pub(super) const WAS_RESET: &str = "what happened before its counters restarted from zero: the process restarted, or the \
     address leads to several processes";

fn each(
    kind: DiagnosedKind,
    metrics: &[&'static str],
    scrape: &Scrape,
    examine: impl Fn(&mut Diagnosed),
) -> Vec<Diagnosed> {
    let found: BTreeSet<_> = metrics.iter().flat_map(|metric| scrape.subjects(metric)).collect();
    let subject = |name| {
        let mut subject = Diagnosed::new(kind, name);
        examine(&mut subject);
        subject
    };
    found.into_iter().map(subject).collect()
}
