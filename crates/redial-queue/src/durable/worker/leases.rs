//! The store considers a worker dead that sends no heartbeat for the length of a lease, and gives its jobs to others. So
//! this one sends three in a lease. Where they do not arrive, or another worker has the job, the handler is aborted before
//! two of them work on the same job.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use redial_core::{NEVER, Nanos, nanos};

use super::super::{DurableQueue, Job, Lease};
use super::call::StoreCall;

/// The claims that this worker holds, until the store has the outcome of each.
pub(super) struct Leases {
    held: HashMap<Lease, Held>,
    /// How long a lease is.
    length: Duration,
    /// No lease has to be dropped before this.
    earliest: Nanos,
    /// When the next heartbeat is due.
    due: Nanos,
    /// When the last heartbeat was sent.
    sent: Nanos,
    pub(super) beat: StoreCall<Vec<(Lease, bool)>>,
}

pub(super) struct Held {
    pub(super) job: Arc<Job>,
    /// When the lease runs out, at the earliest.
    pub(super) expires: Nanos,
    /// Its outcome is in the outbox, or with the store.
    is_over: bool,
}

impl Leases {
    pub(super) fn new(length: Duration) -> Self {
        let beat = StoreCall::default();
        Self { held: HashMap::new(), length, earliest: NEVER, due: 0, sent: 0, beat }
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn length(&self) -> Nanos {
        nanos(self.length)
    }

    /// A tenth of a lease before it runs out, the handler is aborted, so that it has ended when another worker begins.
    fn margin(&self) -> Nanos {
        self.length() / 10
    }

    /// Holds a job that was claimed then.
    pub(super) fn add(&mut self, lease: Lease, job: Arc<Job>, claimed: Nanos) {
        if self.held.is_empty() {
            self.due = claimed.saturating_add(self.length() / 3);
        }
        let expires = claimed.saturating_add(self.length());
        self.earliest = self.earliest.min(expires.saturating_sub(self.margin()));
        self.held.insert(lease, Held { job, expires, is_over: false });
    }

    /// The work on a job is over. Returns whether it is still held.
    pub(super) fn end(&mut self, lease: Lease) -> bool {
        self.held.get_mut(&lease).is_some_and(|held| {
            held.is_over = true;
            true
        })
    }

    pub(super) fn remove(&mut self, lease: Lease) -> Option<Held> {
        self.held.remove(&lease)
    }

    pub(super) fn is_beat_due(&self, now: Nanos) -> bool {
        !self.held.is_empty() && now >= self.due && self.beat.is_free(now)
    }

    pub(super) fn next_beat(&self) -> Nanos {
        if self.held.is_empty() { NEVER } else { self.due.max(self.beat.pause.until) }
    }

    /// Sends a heartbeat for all of them.
    pub(super) fn send_beat(&mut self, queue: &DurableQueue, now: Nanos) {
        self.sent = now;
        let leases: Vec<Lease> = self.held.keys().copied().collect();
        let (store, length) = (queue.store().clone(), self.length);
        // A late answer would still count, but settlements wait for it.
        self.beat.send(length / 2, async move {
            let alive = store.beat(&leases, length).await?;
            Ok(leases.into_iter().zip(alive).collect())
        });
    }

    /// The store has the heartbeat. Returns the jobs that other workers have. A worker that stops extends no lease of a job
    /// that is over: it tries to settle until the lease runs out, and not longer.
    pub(super) fn beaten(&mut self, alive: Vec<(Lease, bool)>, is_stopping: bool) -> Vec<Lease> {
        self.due = self.sent.saturating_add(self.length() / 3);
        let expires = self.sent.saturating_add(self.length());
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
    pub(super) fn next_expiry(&self) -> Nanos {
        self.earliest
    }

    /// Looks at all of them again: what may be dropped has changed.
    pub(super) fn look_again(&mut self) {
        self.earliest = 0;
    }

    /// The leases that are nearly over. One whose job is over is kept, as long as no other worker has claimed the job, so
    /// that it can be settled; a worker that stops drops it too. What is with the store, in `sent`, is kept.
    pub(super) fn expired(
        &mut self,
        now: Nanos,
        is_stopping: bool,
        sent: impl FnOnce() -> HashSet<Lease>,
    ) -> Vec<Lease> {
        if now < self.earliest {
            return Vec::new();
        }
        let (margin, sent) = (self.margin(), sent());
        let mut expired = Vec::new();
        self.earliest = NEVER;
        for (lease, held) in &self.held {
            let drop_at = held.expires.saturating_sub(margin);
            if held.is_over && !is_stopping || sent.contains(lease) {
                continue;
            } else if drop_at <= now {
                expired.push(*lease);
            } else {
                self.earliest = self.earliest.min(drop_at);
            }
        }
        expired
    }
}
