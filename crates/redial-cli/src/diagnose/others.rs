//! Queues and fleets. They make no calls, so they are never a storm: a queue may retry for days, with waits that bother
//! nobody. But who looks for a storm wants to see them.

use super::names;
use super::scrape::{Change, Scrape};
use super::symptom::Symptom;
use super::{Kind, Subject};

pub(super) fn queues(change: Change<'_>) -> Vec<Subject> {
    let metrics = [names::QUEUE_AGE, names::QUEUE_JOBS, names::QUEUE_RETRIES];
    each(Kind::Queue, &metrics, change.to, |queue, with| {
        let age = |look: &Scrape| look.gauge(names::QUEUE_AGE, with);
        if let (Some(before), Some(now)) = (age(change.from), age(change.to))
            && now > before
            && before > 0.0
        {
            queue.find(
                Symptom::QueueAgeing,
                format!("the oldest job that is due waited {before:.1}s, and now {now:.1}s"),
            );
        }
        let retries = change.count(names::QUEUE_RETRIES, with);
        let ended =
            |result| change.count(names::QUEUE_JOBS, &[with, &[("result", result)]].concat());
        let (done, dead) = (ended("done"), ended("dead"));
        let all = done.saturating_add(dead);
        if retries > all {
            queue.find(
                Symptom::QueueRetries,
                format!("{retries} attempts ended in a retry, and {all} jobs came to an end",),
            );
        }
        if dead > 0 {
            queue.find(Symptom::DeadLetters, format!("{dead} jobs were given up"));
        }
        if change.to.gauge(names::QUEUE_BALANCE, with).is_some_and(|balance| balance < 1.0) {
            queue.find(Symptom::BudgetDry, "the retry budget is empty");
        }
        if change.began_again((Kind::Queue.label(), &queue.name)) {
            queue.unknown.push(BEGAN_AGAIN.to_owned());
        }
    })
}

pub(super) fn fleets(change: Change<'_>) -> Vec<Subject> {
    each(Kind::Fleet, &[names::FLEET_CONNECTED], change.to, |fleet, with| {
        let gauge = |name| change.to.gauge(name, with);
        if gauge(names::FLEET_CONNECTED).is_some_and(|connected| connected < 1.0) {
            fleet.find(Symptom::FleetLost, "the ledger does not answer");
        }
        if gauge(names::FLEET_DIFFERS).is_some_and(|differs| differs > 0.0) {
            fleet.find(
                Symptom::FleetDiffers,
                "another instance configures this fleet more strictly",
            );
        }
        if gauge(names::FLEET_BALANCE).is_some_and(|balance| balance < 1.0) {
            fleet.find(Symptom::FleetDry, "the ledger has nothing left to lease");
        }
    })
}

pub(super) const BEGAN_AGAIN: &str = "what happened before its counters began at zero again: the process has restarted, \
     or the address leads to several";

fn each(
    kind: Kind,
    metrics: &[&'static str],
    look: &Scrape,
    mut examine: impl FnMut(&mut Subject, &[(&str, &str)]),
) -> Vec<Subject> {
    let mut found: Vec<String> =
        metrics.iter().flat_map(|metric| look.values(metric, kind.label())).collect();
    found.sort();
    found.dedup();
    let subject = |name: String| {
        let mut subject = Subject::new(kind, &name);
        examine(&mut subject, &[(kind.label(), &name)]);
        subject
    };
    found.into_iter().map(subject).collect()
}
