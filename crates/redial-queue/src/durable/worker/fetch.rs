//! Claims as many jobs as there is room for, when there may be some to claim.

use std::time::Duration;

use redial_core::{Deadline, Span, Time};

use super::super::{Claim, Claimed, Claims, DurableQueue};
use super::call::StoreCall;
use super::reporter::Reporter;
use super::{Until, Worker};

pub(super) struct Fetch {
    queue: DurableQueue,
    lease: Duration,
    prefetch: usize,
    pub(super) claim: StoreCall<Claims>,
    /// How many jobs keep the worker from stopping.
    pub(super) count: StoreCall<u64>,
    pub(super) change: StoreCall<()>,
    /// There may be something to claim.
    is_due: bool,
    /// When there may be something to claim, even if nothing changes.
    due_at: Deadline,
    /// When the last claim was sent, and for how many jobs.
    sent: Time,
    most: usize,
    /// How many changes of the queue the last claim has seen.
    seen: u64,
    /// Handlers take so long that nothing is claimed in advance.
    is_slow: bool,
    /// Since when, and until when, the rate of the queue holds back what is due.
    limited: Option<(Time, Time)>,
}

impl Fetch {
    pub(super) fn new(worker: &Worker) -> Self {
        Self {
            queue: worker.queue.clone(),
            lease: worker.lease,
            prefetch: worker.prefetched(),
            claim: StoreCall::default(),
            count: StoreCall::default(),
            change: StoreCall::default(),
            is_due: true,
            due_at: Deadline::NONE,
            sent: Time::ZERO,
            most: 0,
            seen: 0,
            is_slow: false,
            limited: None,
        }
    }

    /// How many jobs are claimed in advance.
    pub(super) fn prefetch(&self) -> usize {
        if self.is_slow { 0 } else { self.prefetch }
    }

    /// Claims up to `room` jobs, or waits for a change of the queue.
    pub(super) fn advance(&mut self, room: usize, reporter: &Reporter, now: Time) {
        if self.due_at.is_over(now) {
            (self.is_due, self.due_at) = (true, Deadline::NONE);
        }
        if self.claim.is_in_flight() || self.count.is_in_flight() {
            return;
        }
        if !self.is_due && self.change.is_free(now) {
            let (queue, seen) = (self.queue.clone(), self.seen);
            let change = async move { queue.store().changed(queue.name(), seen).await };
            self.change.send(Duration::MAX, change);
        } else if self.is_due && room > 0 && self.claim.is_free(now) {
            self.send_claim(room, reporter, now);
        }
    }

    fn send_claim(&mut self, most: usize, reporter: &Reporter, now: Time) {
        (self.is_due, self.sent, self.most) = (false, now, most);
        if let Some((since, until)) = self.limited.take() {
            reporter.limited((now.min(until) - since).into());
        }
        let queue = self.queue.clone();
        let claim = Claim { queue: queue.name().to_owned(), most, lease: self.lease };
        self.claim.send(self.lease, async move { queue.store().claim(&claim).await });
    }

    /// When [`advance`](Self::advance) has something to do, if nothing happens.
    pub(super) fn next(&self) -> Deadline {
        let claim = if self.is_due { self.claim.pause.until } else { self.due_at };
        let listens = self.change.is_in_flight() || self.is_due;
        claim.min(if listens { Deadline::NONE } else { self.change.pause.until })
    }

    /// The store has answered a claim. Returns the jobs, and when the claim was sent.
    pub(super) fn claimed(&mut self, claims: Claims, now: Time) -> (Vec<Claimed>, Time) {
        self.seen = claims.seen;
        if claims.jobs.len() >= self.most {
            self.is_due = true;
        } else {
            // A worker that has stopped may have left a retry that is due sooner.
            let lease = Span::from(self.lease);
            let next = claims.next.map(|next| Span::from(next).max(Span::MILLISECOND));
            let next = now + next.map_or(lease, |next| next.min(lease));
            self.limited = claims.limited.then_some((now, next));
            self.due_at = self.due_at.min(next.into());
        }
        (claims.jobs, self.sent)
    }

    /// Counts the jobs that keep the worker from stopping.
    pub(super) fn count_left(&mut self, until: Until) {
        let queue = self.queue.clone();
        self.count.send(self.lease, async move {
            let counts = queue.counts().await?;
            match until {
                Until::NothingDue if queue.settings().await?.paused => Ok(0),
                Until::NothingDue => Ok(counts.due),
                _ => Ok(counts.due + counts.later + counts.held + counts.running),
            }
        });
    }

    /// A job is due again after this long.
    pub(super) fn due_after(&mut self, wait: Duration, now: Time) {
        self.due_at = self.due_at.min((now + Span::from(wait)).into());
    }

    /// There may be something to claim.
    pub(super) fn look_again(&mut self) {
        self.is_due = true;
    }

    /// A job that was claimed in advance has waited for a third of a lease: others can have it. Until a handler is quicker
    /// than that, only what can be worked on at once is claimed.
    pub(super) fn slow_down(&mut self) {
        self.is_slow = true;
    }

    /// A handler took this long.
    pub(super) fn handler_took(&mut self, took: Duration) {
        self.is_slow &= took >= self.lease / 3;
    }
}
