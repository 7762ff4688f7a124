use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};

use super::names::{self, AGE, DEPTH, JOBS};
use crate::durable::{Counts, State};

/// The metrics of a queue in a store, over all its workers. While the store does not answer, gauges are `NaN`: old values
/// would hide that.
pub struct QueueMetrics {
    depth: [(State, Gauge); 4],
    age: Gauge,
    jobs: [Counter; 5],
}

impl QueueMetrics {
    /// Makes the handles, with the recorder that is installed now. The name becomes a label, so the number of names should be
    /// bounded.
    pub fn new(queue: &str) -> Self {
        names::describe();
        let label = || queue.to_owned();
        let depth = |state: State| {
            let gauge = gauge!(DEPTH.name, "queue" => label(), "state" => state.name());
            gauge.set(f64::NAN);
            (state, gauge)
        };
        let age = gauge!(AGE.name, "queue" => label());
        age.set(f64::NAN);
        let jobs = |result| counter!(JOBS.name, "queue" => label(), "result" => result);
        Self {
            depth: [State::Waiting, State::Held, State::Running, State::Dead].map(depth),
            age,
            jobs: ["done", "dead", "dropped", "lost", "stale"].map(jobs),
        }
    }

    /// Publishes how many jobs there are, and what became of the others; `None` if the store did not answer.
    pub fn publish_counts(&self, counts: Option<&Counts>) {
        for (state, gauge) in &self.depth {
            let jobs = counts.map(|counts| match state {
                State::Waiting => counts.due + counts.later,
                State::Held => counts.held,
                State::Running => counts.running,
                State::Dead => counts.dead,
            });
            gauge.set(jobs.map_or(f64::NAN, |jobs| jobs as f64));
        }
        let Some(counts) = counts else { return };
        let Counts { done, died, dropped, lost, stale, .. } = *counts;
        for (counter, jobs) in self.jobs.iter().zip([done, died, dropped, lost, stale]) {
            counter.absolute(jobs);
        }
    }

    /// Publishes how long the oldest due job has waited; `None` if the store did not answer.
    pub fn publish_age(&self, age: Option<Duration>) {
        self.age.set(age.map_or(f64::NAN, |age| age.as_secs_f64()));
    }
}
