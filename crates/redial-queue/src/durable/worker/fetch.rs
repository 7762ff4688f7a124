//! Claims as much as there is room for, when there may be something to claim.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use redial_core::{MS, NEVER, Nanos, nanos};

use super::super::{Claim, Claims, Handler, Lease, StoreError, Verdict};
use super::Until;
use super::run::{Held, Shift, Stage, Trouble};
use super::work::Look;

/// When to claim.
pub(super) struct Fetch {
    /// There may be something to claim.
    look: bool,
    /// Look again then, even if nothing changes.
    look_at: Nanos,
    /// When the claim that is with the store was asked for, and for how many.
    asked: Nanos,
    most: usize,
    /// How many changes the last claim has seen.
    seen: u64,
    /// Handlers take so long that nothing is claimed in advance.
    pub(super) slow: bool,
    /// Since when, and until when, the rate of the queue keeps what is due.
    limited: Option<(Nanos, Nanos)>,
    trouble: Trouble,
    changed: Trouble,
}

impl Fetch {
    pub(super) fn new() -> Self {
        let (trouble, changed) = (Trouble::default(), Trouble::default());
        let (look, look_at, limited) = (true, NEVER, None);
        Self { look, look_at, asked: 0, most: 0, seen: 0, slow: false, limited, trouble, changed }
    }

    /// A job of this worker is due again after this long.
    pub(super) fn due_after(&mut self, wait: Duration, now: Nanos) {
        self.look_at = self.look_at.min(now.saturating_add(nanos(wait)));
    }

    /// There may be something to claim.
    pub(super) fn again(&mut self) {
        self.look = true;
    }
}

impl<H: Handler> Shift<H> {
    pub(super) fn fetch(&mut self, now: Nanos) {
        if self.is_stopping() {
            return;
        }
        if now >= self.fetch.look_at {
            (self.fetch.look, self.fetch.look_at) = (true, NEVER);
        }
        let asks = self.claiming.is_some() || self.counting.is_some();
        if !asks && !self.fetch.look {
            self.listen(now);
        }
        if asks || !self.fetch.look || now < self.fetch.trouble.until {
            return;
        }
        let prefetch = self.prefetch();
        let most = self.with.workers.saturating_add(prefetch);
        let unfinished = self.waiting() + self.by_task.len();
        // The next ones are claimed while the last ones are settled, but not more of them than are waiting for that.
        let unsettled = self.held.len().saturating_sub(unfinished);
        let room = most.saturating_sub(unfinished.max(unsettled));
        // A claim for every job that ends would be a write for every job: it waits until half of what was claimed in
        // advance is used up.
        if room > 0 && !self.is_crowded() {
            self.claim(room, now);
        }
    }

    fn prefetch(&self) -> usize {
        if self.fetch.slow { 0 } else { self.with.prefetched() }
    }

    /// Whether so many jobs wait here that no others are claimed.
    pub(super) fn is_crowded(&self) -> bool {
        self.waiting() > self.prefetch() / 2
    }

    fn listen(&mut self, now: Nanos) {
        if self.changing.is_none() && now >= self.fetch.changed.until {
            let (queue, seen) = (self.with.queue.clone(), self.fetch.seen);
            self.changing =
                Some(Box::pin(async move { queue.store().changed(queue.name(), seen).await }));
        }
    }

    fn claim(&mut self, most: usize, now: Nanos) {
        (self.fetch.look, self.fetch.asked, self.fetch.most) = (false, now, most);
        if let Some((since, until)) = self.fetch.limited.take() {
            let waited = Duration::from_nanos(now.min(until).saturating_sub(since));
            self.with.gauge.tally().stats.limiter_wait += waited;
        }
        let queue = self.with.queue.clone();
        let claim = Claim { queue: queue.name().to_owned(), most, lease: self.with.lease };
        let asked = async move { queue.store().claim(&claim).await };
        self.claiming = self.ask(self.with.lease, asked);
    }

    pub(super) fn next_fetch(&self) -> Nanos {
        if self.is_stopping() {
            return NEVER;
        }
        let look = if self.fetch.look { self.fetch.trouble.until } else { self.fetch.look_at };
        let listens = self.changing.is_some() || self.fetch.look;
        look.min(if listens { NEVER } else { self.fetch.changed.until })
    }

    pub(super) fn claimed(&mut self, answer: Result<Claims, StoreError>, now: Nanos) {
        let claims = match answer {
            Ok(claims) => claims,
            Err(error) => return self.fetch_failed(error, now),
        };
        self.fetch.trouble = Trouble::default();
        self.fetch.seen = claims.seen;
        let none = claims.jobs.is_empty();
        if claims.jobs.len() >= self.fetch.most {
            self.fetch.look = true;
        } else {
            // Another worker that has stopped may have left a retry that nobody here knows of.
            let next = claims.next.map_or(NEVER, |next| nanos(next).max(MS)).min(self.lease());
            let next = now.saturating_add(next);
            self.fetch.limited = claims.limited.then_some((now, next));
            self.fetch.look_at = self.fetch.look_at.min(next);
        }
        let expires = self.fetch.asked.saturating_add(self.lease());
        if self.held.is_empty() {
            self.heart.starts(self.fetch.asked, self.lease());
        }
        for claimed in claims.jobs {
            let (lease, age) = (claimed.lease, claimed.age);
            let held = Held {
                look: Look::at(&*self.handler, &claimed.job),
                job: Arc::new(claimed.job),
                claimed: self.fetch.asked,
                age,
                expires,
                stage: Stage::Ready,
            };
            self.held.insert(lease, held);
            self.ready.push_back(lease);
            self.earliest = self.earliest.min(expires);
        }
        if self.is_stopping() {
            self.give_back(NEVER);
        } else if none && self.held.is_empty() && self.with.until != Until::Stopped {
            self.count_left();
        }
    }

    /// How many jobs keep the worker from going home.
    fn count_left(&mut self) {
        let (queue, until) = (self.with.queue.clone(), self.with.until);
        self.counting = self.ask(self.with.lease, async move {
            let counts = queue.counts().await?;
            match until {
                Until::NothingDue if queue.settings().await?.paused => Ok(0),
                Until::NothingDue => Ok(counts.due),
                _ => Ok(counts.due + counts.later + counts.held + counts.running),
            }
        });
    }

    /// Nothing could be claimed and nothing is held here. Is that the end?
    pub(super) fn counted(&mut self, answer: Result<u64, StoreError>, now: Nanos) {
        match answer {
            Ok(0) => self.stop(now),
            // Nobody says when another worker's job is done.
            Ok(_) => self.fetch.due_after(Duration::from_secs(1), now),
            Err(error) => self.fetch_failed(error, now),
        }
    }

    fn fetch_failed(&mut self, error: StoreError, now: Nanos) {
        self.fetch.trouble.failures += 1;
        self.fetch.trouble.until = self.trouble(error, self.fetch.trouble.failures, now);
        self.fetch.look = true;
    }

    pub(super) fn changed(&mut self, answer: Result<(), StoreError>, now: Nanos) {
        match answer {
            Ok(()) => self.fetch.changed = Trouble::default(),
            Err(error) => {
                self.fetch.changed.failures += 1;
                self.fetch.changed.until = self.trouble(error, self.fetch.changed.failures, now);
            }
        }
        self.fetch.look = true;
    }

    /// Whoever takes long leaves what it has claimed in advance to others: it has waited for a third of a lease. Until
    /// something goes quicker again, only what can be worked on at once is claimed.
    pub(super) fn leave_to_others(&mut self, now: Nanos) {
        let before = self.outbox.len();
        self.give_back(now.saturating_sub(self.lease() / 3));
        self.fetch.slow |= self.outbox.len() > before;
    }

    /// Nobody here will work soon on what is ready and was claimed by then.
    pub(super) fn give_back(&mut self, by: Nanos) {
        let waits = |lease: &Lease| self.held.get(lease).is_some_and(|held| held.claimed > by);
        let (kept, back): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.ready).into_iter().partition(waits);
        self.ready = kept;
        let held = &self.held;
        let over = |lease| held.get(&lease).is_none_or(|held| held.claimed <= by);
        let at_destinations = self.lanes.remove(over);
        for lease in back.into_iter().chain(at_destinations) {
            let verdict = Verdict::Postpone { wait: Duration::ZERO };
            self.post(lease, verdict, String::new(), Duration::ZERO);
            if let Some(last) = self.outbox.last_mut() {
                last.returned = true;
            }
        }
    }
}
