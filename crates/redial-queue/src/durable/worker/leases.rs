//! The store considers a worker dead that sends no heartbeat for the length of a lease, and gives its jobs to others. So
//! this one sends three in a lease. Where they do not arrive, or another worker has the job, the handler is aborted before
//! two of them work on the same job.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use redial_core::{Deadline, Span, Time};

use super::super::{DurableQueue, Job, JobLease};
use super::call::StoreCall;

/// The claims that this worker holds, until the store has the outcome of each.
pub(super) struct Leases {
    held: HashMap<JobLease, Held>,
    /// How long a lease is.
    length: Duration,
    /// No lease has to be dropped before this.
    earliest: Deadline,
    /// When the next heartbeat is due.
    due: Time,
    /// When the last heartbeat was sent.
    sent: Time,
    pub(super) beat: StoreCall<Vec<(JobLease, bool)>>,
}

pub(super) struct Held {
    pub(super) job: Arc<Job>,
    /// When the lease runs out, at the earliest.
    pub(super) expires: Time,
    /// Its outcome is in the outbox, or with the store.
    is_over: bool,
}

impl Leases {
    pub(super) fn new(length: Duration) -> Self {
        let beat = StoreCall::default();
        Self {
            held: HashMap::new(),
            length,
            earliest: Deadline::NONE,
            due: Time::ZERO,
            sent: Time::ZERO,
            beat,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn length(&self) -> Span {
        self.length.into()
    }

    /// A tenth of a lease before it runs out, the handler is aborted, so that it has ended when another worker begins.
    fn margin(&self) -> Span {
        self.length() / 10
    }

    /// Holds a job that was claimed then.
    pub(super) fn add(&mut self, lease: JobLease, job: Arc<Job>, claimed: Time) {
        if self.held.is_empty() {
            self.due = claimed + self.length() / 3;
        }
        let expires = claimed + self.length();
        self.earliest = self.earliest.min((expires - self.margin()).into());
        self.held.insert(lease, Held { job, expires, is_over: false });
    }

    /// The work on a job is over. Returns whether it is still held.
    pub(super) fn end(&mut self, lease: JobLease) -> bool {
        self.held.get_mut(&lease).is_some_and(|held| {
            held.is_over = true;
            true
        })
    }

    pub(super) fn remove(&mut self, lease: JobLease) -> Option<Held> {
        self.held.remove(&lease)
    }

    pub(super) fn is_beat_due(&self, now: Time) -> bool {
        !self.held.is_empty() && now >= self.due && self.beat.is_free(now)
    }

    pub(super) fn next_beat(&self) -> Deadline {
        if self.held.is_empty() {
            return Deadline::NONE;
        }
        self.beat.pause.until.max(self.due.into())
    }

    /// Sends a heartbeat for all of them.
    pub(super) fn send_beat(&mut self, queue: &DurableQueue, now: Time) {
        self.sent = now;
        let leases: Vec<JobLease> = self.held.keys().copied().collect();
        let (store, length) = (queue.store().clone(), self.length);
        // A late answer would still count, but settlements wait for it.
        self.beat.send(length / 2, async move {
            let alive = store.beat(&leases, length).await?;
            Ok(leases.into_iter().zip(alive).collect())
        });
    }

    /// The store has the heartbeat. Returns the jobs that other workers have. A worker that stops extends no lease of a job
    /// that is over: it tries to settle until the lease runs out, and not longer.
    pub(super) fn beaten(
        &mut self,
        alive: Vec<(JobLease, bool)>,
        is_stopping: bool,
    ) -> Vec<JobLease> {
        self.due = self.sent + self.length() / 3;
        let expires = self.sent + self.length();
        let mut stale = Vec::new();
        for (lease, alive) in alive {
            let Some(held) = self.held.get_mut(&lease) else { continue };
            if alive && !(held.is_over && is_stopping) {
                held.expires = held.expires.max(expires);
            } else if !alive && !held.is_over {
                stale.push(lease);
            }
        }
        stale
    }

    /// When the next lease may have to be dropped.
    pub(super) fn next_expiry(&self) -> Deadline {
        self.earliest
    }

    /// Looks at all of them again: what may be dropped has changed.
    pub(super) fn look_again(&mut self) {
        self.earliest = Time::ZERO.into();
    }

    /// The leases that are nearly over. One whose job is over is kept, as long as no other worker has claimed the job, so
    /// that it can be settled; a worker that stops drops it too. What is with the store, in `sent`, is kept.
    pub(super) fn expired(
        &mut self,
        now: Time,
        is_stopping: bool,
        sent: impl FnOnce() -> HashSet<JobLease>,
    ) -> Vec<JobLease> {
        if !self.earliest.is_over(now) {
            return Vec::new();
        }
        let (margin, sent) = (self.margin(), sent());
        let mut expired = Vec::new();
        self.earliest = Deadline::NONE;
        for (lease, held) in &self.held {
            let drop_at = held.expires - margin;
            if held.is_over && !is_stopping || sent.contains(lease) {
                continue;
            } else if drop_at <= now {
                expired.push(*lease);
            } else {
                self.earliest = self.earliest.min(drop_at.into());
            }
        }
        expired
    }
}
