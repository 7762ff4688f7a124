//! Queues and fleets. They make no calls, so they are never a storm: a queue may retry for days, with waits that bother
//! nobody. But who looks for a storm wants to see them.

use std::collections::BTreeSet;

use super::names;
use super::scrape::{Change, Scrape};
use super::symptom::Symptom;
use super::{Kind, Subject};

/// Seconds by which the oldest job gets older in a second, at least, when work comes faster than it is done. The alert has
/// the same.
const AGEING: f64 = 0.2;

pub(super) fn queues(change: Change<'_>) -> Vec<Subject> {
    let metrics = [names::QUEUE_AGE, names::QUEUE_JOBS, names::QUEUE_RETRIES];
    each(Kind::Queue, &metrics, change.to, |queue| {
        let name = queue.name.clone();
        if let Some((metric, value)) = change.impossible(Kind::Queue.label(), &name) {
            queue
                .unknown
                .push(format!("what its counters say: {metric} is {value}, which {NO_COUNT}"));
            queue.is_unreliable = true;
            return;
        }
        let age = |look: &Scrape| look.largest(names::QUEUE_AGE, &name);
        if let (Some(before), Some(now)) = (age(change.from), age(change.to))
            && now - before > AGEING * change.over() as f64 / 1e9
            && before > 0.0
        {
            queue.find(
                Symptom::QueueAgeing,
                format!("the oldest job that is due waited {before:.1}s, and now {now:.1}s"),
            );
        }
        let retries = change.count(names::QUEUE_RETRIES, &name, &[]);
        let ended = |result| change.count(names::QUEUE_JOBS, &name, &[("result", result)]);
        let (done, dead) = (ended("done"), ended("dead"));
        let all = done.saturating_add(dead);
        if retries > all {
            queue.find(
                Symptom::QueueRetries,
                format!(
                    "attempts that ended in a retry: {retries}, jobs that came to an end: {all}"
                ),
            );
        }
        if dead > 0 {
            queue.find(Symptom::DeadLetters, format!("jobs that were given up: {dead}"));
        }
        // Where nothing fails, it may well be empty.
        if retries > 0 && is_empty(change.to.largest(names::QUEUE_BALANCE, &name)) {
            queue.find(Symptom::BudgetDry, "jobs fail, and the retry budget is empty");
        }
        if change.began_again(Kind::Queue.label(), &name) {
            queue.unknown.push(BEGAN_AGAIN.to_owned());
        }
    })
}

pub(super) fn fleets(change: Change<'_>) -> Vec<Subject> {
    let mut upstreams = change.to.subjects(names::BUDGET_EXHAUSTED).into_iter();
    let refused = upstreams.any(|name| change.count(names::BUDGET_EXHAUSTED, name, &[]) > 0);
    each(Kind::Fleet, &[names::FLEET_CONNECTED], change.to, |fleet| {
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
        // A small fleet in which nothing fails has earned no whole token either.
        if refused && is_empty(change.to.largest(names::FLEET_BALANCE, &name)) {
            let saw = "retries were refused, and the ledger has nothing to lease";
            fleet.find(Symptom::FleetDry, saw);
        }
    })
}

fn is_empty(balance: Option<f64>) -> bool {
    balance.is_some_and(|balance| balance < 1.0)
}

pub(super) const NO_COUNT: &str = "is not a count: a counter has a value from 0 to 2^53";

pub(super) const BEGAN_AGAIN: &str = "what happened before its counters began at zero again: the process has restarted, \
     or the address leads to several";

fn each(
    kind: Kind,
    metrics: &[&'static str],
    look: &Scrape,
    examine: impl Fn(&mut Subject),
) -> Vec<Subject> {
    let found: BTreeSet<_> = metrics.iter().flat_map(|metric| look.subjects(metric)).collect();
    let subject = |name| {
        let mut subject = Subject::new(kind, name);
        examine(&mut subject);
        subject
    };
    found.into_iter().map(subject).collect()
}
