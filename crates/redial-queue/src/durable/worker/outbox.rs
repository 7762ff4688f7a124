//! The outcome of a job goes to the store at once when the store is free. When it is not, it goes together with everything
//! that ended meanwhile.

use std::collections::HashSet;
use std::time::Duration;

use redial_core::{Deadline, Time};

use super::super::{DurableQueue, JobLease, JobVerdict, Settled, Settlement};
use super::call::StoreCall;
use super::engine::Decision;

/// The most jobs that are settled at once.
const MAX_SETTLED_JOBS: usize = 1000;

/// The outcomes that the store does not have yet.
#[derive(Default)]
pub(super) struct Outbox {
    waiting: Vec<Outgoing>,
    sent: Vec<Outgoing>,
    pub(super) settle: StoreCall<Vec<Settled>>,
}

/// An outcome that the store does not have yet.
pub(super) struct Outgoing {
    pub(super) lease: JobLease,
    pub(super) decision: Decision,
    pub(super) took: Duration,
    /// Whether the job was claimed in advance, and is given back because this worker will not get to it soon.
    pub(super) returned: bool,
    /// Whether the store may have it already: it was sent, and there was no answer.
    pub(super) was_sent: bool,
}

impl Outgoing {
    pub(super) fn new(lease: JobLease, decision: Decision, took: Duration) -> Self {
        Self { lease, decision, took, returned: false, was_sent: false }
    }

    /// Gives a job back that was not looked at.
    pub(super) fn returned(lease: JobLease) -> Self {
        let decision = Decision::new(JobVerdict::Postpone { wait: Duration::ZERO }, String::new());
        Self { returned: true, ..Self::new(lease, decision, Duration::ZERO) }
    }

    fn settlement(&self) -> Settlement {
        let Decision { verdict, outcome, .. } = &self.decision;
        let (verdict, outcome) = (verdict.clone(), outcome.clone());
        Settlement { lease: self.lease, verdict, took: self.took, outcome }
    }
}

impl Outbox {
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.sent.len()
    }

    pub(super) fn push(&mut self, out: Outgoing) {
        self.waiting.push(out);
    }

    /// When there is something to send.
    pub(super) fn next(&self) -> Deadline {
        if self.waiting.is_empty() { Deadline::NONE } else { self.settle.pause.until }
    }

    pub(super) fn send(&mut self, queue: &DurableQueue, lease: Duration, now: Time) {
        if self.waiting.is_empty() || !self.settle.is_free(now) {
            return;
        }
        let rest = self.waiting.split_off(self.waiting.len().min(MAX_SETTLED_JOBS));
        self.sent = std::mem::replace(&mut self.waiting, rest);
        let settlements = self.sent.iter().map(Outgoing::settlement).collect();
        let store = queue.store().clone();
        self.settle.send(lease, async move { store.settle(settlements).await });
    }

    /// What the store has answered about.
    pub(super) fn take_sent(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.sent)
    }

    /// There was no answer: it is sent again, before anything else.
    pub(super) fn send_again(&mut self) {
        let mut again = std::mem::take(&mut self.sent);
        again.iter_mut().for_each(|out| out.was_sent = true);
        again.append(&mut self.waiting);
        self.waiting = again;
    }

    /// The leases that are with the store.
    pub(super) fn sent(&self) -> HashSet<JobLease> {
        self.sent.iter().map(|out| out.lease).collect()
    }

    pub(super) fn remove(&mut self, lease: JobLease) {
        self.waiting.retain(|out| out.lease != lease);
    }
}
