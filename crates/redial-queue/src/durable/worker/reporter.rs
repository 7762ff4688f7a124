use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redial_core::Time;

use super::super::{Job, JobVerdict, StoreError};
use super::WorkerReport;
use super::engine::Decision;
use super::outbox::Outgoing;
use crate::clock::Clock;
use crate::stats::{Running, Tally, WorkStats};
use crate::watch::{Watcher, WorkEvent};

/// What a worker is doing, and has done so far.
#[derive(Clone, Debug, Default)]
pub struct WorkerStats {
    /// What every kind of worker counts.
    pub work: WorkStats,
    /// How many jobs it has claimed in advance.
    pub ready: usize,
    /// How many are over and not yet in the store.
    pub unsettled: usize,
    /// What became of the jobs.
    pub report: WorkerReport,
}

/// Reads what a worker is doing, from another task.
#[derive(Clone, Debug)]
pub struct Gauge {
    shared: Arc<Shared>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Shared {
    tally: Tally,
    /// Without what the tally counts.
    stats: Mutex<WorkerStats>,
}

impl Gauge {
    pub(super) fn new(clock: Clock) -> Self {
        Self { shared: Arc::default(), clock }
    }

    /// The current numbers.
    pub fn read(&self) -> WorkerStats {
        let work = self.shared.tally.read(self.clock.now());
        let stats = self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner);
        WorkerStats { work, ..stats.clone() }
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }
}

/// Counts what becomes of jobs, and notifies the watcher.
pub(super) struct Reporter {
    gauge: Gauge,
    watch: Option<Arc<dyn Watcher<Job>>>,
    report: WorkerReport,
}

impl Reporter {
    pub(super) fn new(gauge: Gauge, watch: Option<Arc<dyn Watcher<Job>>>, workers: usize) -> Self {
        gauge.shared.tally.set_workers(workers);
        Self { gauge, watch, report: WorkerReport::default() }
    }

    pub(super) fn report(&self) -> WorkerReport {
        self.report
    }

    fn notify(&self, event: &WorkEvent<'_, Job>) {
        if let Some(watch) = &self.watch {
            watch.event(event);
        }
    }

    fn tally(&self) -> &Tally {
        &self.gauge.shared.tally
    }

    pub(super) fn started(&self, job: &Job, now: Time) -> Running {
        self.notify(&WorkEvent::Started { item: job, attempt: job.progress.attempts });
        self.tally().begin(now)
    }

    pub(super) fn ended(&self, running: Running) {
        self.tally().end(running);
    }

    pub(super) fn limited(&self, wait: Duration) {
        self.tally().limited(wait);
    }

    pub(super) fn lost(&mut self, job: &Job) {
        self.report.lost += 1;
        self.notify(&WorkEvent::Lost(job));
    }

    pub(super) fn stale(&mut self, job: &Job) {
        self.report.stale += 1;
        self.notify(&WorkEvent::Stale(job));
    }

    pub(super) fn store_unavailable(&self, error: &StoreError, wait: Duration) {
        self.notify(&WorkEvent::StoreUnavailable { error, wait });
    }

    /// The store has the outcome of a job.
    pub(super) fn settled(&mut self, item: &Job, out: &Outgoing) {
        let Decision { verdict, outcome: cause, stop, failure, trend } = &out.decision;
        let (stop, failure) = (*stop, *failure);
        if let Some(stop) = stop {
            self.tally().stopped(stop);
        }
        let attempt = item.progress.attempts;
        let event = match verdict {
            JobVerdict::Done => {
                self.report.done += 1;
                WorkEvent::Done { item, attempt, took: out.took }
            }
            JobVerdict::Retry { wait, progress } => {
                self.report.retried += 1;
                let polls = progress.poll.then_some("not-yet");
                let reason = failure.map(|failure| failure.class.name()).or(polls);
                reason.into_iter().for_each(|reason| self.tally().retried(reason));
                WorkEvent::Retry { item, attempt, wait: *wait, failure, cause, trend: *trend }
            }
            JobVerdict::Postpone { wait } => {
                let count = match out.returned {
                    true => &mut self.report.returned,
                    false => &mut self.report.postponed,
                };
                *count += 1;
                WorkEvent::Postponed { item, wait: *wait, stop, failure, cause }
            }
            JobVerdict::Dead { reason } => {
                self.report.dead += 1;
                WorkEvent::Dead { item, reason, cause }
            }
        };
        self.notify(&event);
    }

    /// Shows the gauge what there is now.
    pub(super) fn show(&self, ready: usize, unsettled: usize) {
        let mut stats = self.gauge.shared.stats.lock().unwrap_or_else(PoisonError::into_inner);
        (stats.ready, stats.unsettled, stats.report) = (ready, unsettled, self.report);
    }
}
