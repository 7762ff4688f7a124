//! The store takes a worker that it does not hear from for dead, and gives its jobs to others. So it hears from us three
//! times in a lease; and where it does not, or says that somebody else has the job, the handler is aborted before two work
//! on the same job.

use std::collections::HashSet;

use redial_core::{NEVER, Nanos};

use super::super::{Handler, Lease, StoreError};
use super::Happening;
use super::run::{Shift, Stage, Trouble};

/// When to beat.
#[derive(Default)]
pub(super) struct Heart {
    next: Nanos,
    /// When the beat that is with the store was asked for.
    asked: Nanos,
    trouble: Trouble,
}

impl Heart {
    pub(super) fn next(&self) -> Nanos {
        self.next.max(self.trouble.until)
    }

    /// There is something to beat for since then.
    pub(super) fn starts(&mut self, since: Nanos, lease: Nanos) {
        self.next = since.saturating_add(lease / 3);
    }
}

impl<H: Handler> Shift<H> {
    pub(super) fn beat(&mut self, now: Nanos) {
        let waits = self.beating.is_some() || self.settling.is_some() || now < self.heart.next();
        if waits || self.held.is_empty() {
            return;
        }
        self.leave_to_others(now);
        self.heart.asked = now;
        let leases: Vec<Lease> = self.held.keys().copied().collect();
        let (store, lease) = (self.with.queue.store().clone(), self.with.lease);
        // A late one would still count, but settlements wait for it.
        self.beating = self.ask(lease / 2, async move {
            let alive = store.beat(&leases, lease).await?;
            Ok(leases.into_iter().zip(alive).collect())
        });
    }

    pub(super) fn beaten(&mut self, answer: Result<Vec<(Lease, bool)>, StoreError>, now: Nanos) {
        let alive = match answer {
            Ok(alive) => alive,
            Err(error) => {
                self.heart.trouble.failures += 1;
                self.heart.trouble.until = self.trouble(error, self.heart.trouble.failures, now);
                return;
            }
        };
        self.heart.trouble = Trouble::default();
        self.heart.next = self.heart.asked.saturating_add(self.lease() / 3);
        let expires = self.heart.asked.saturating_add(self.lease());
        let stopping = self.is_stopping();
        for (lease, alive) in alive {
            let Some(held) = self.held.get_mut(&lease) else { continue };
            let over = matches!(held.stage, Stage::Settling);
            if alive && !(over && stopping) {
                held.expires = held.expires.max(expires);
            } else if !alive && !over {
                self.report.stale += 1;
                let job = held.job.clone();
                self.drop_claim(lease, now);
                self.tell(&Happening::Stale(&job));
            }
        }
    }

    /// A tenth of a lease before it is over, so that the handler is gone when somebody else begins.
    fn margin(&self) -> Nanos {
        self.lease() / 10
    }

    pub(super) fn earliest_let_go(&self) -> Nanos {
        match self.earliest {
            NEVER => NEVER,
            earliest => earliest.saturating_sub(self.margin()),
        }
    }

    /// Lets go of what is nearly over. What is done already is still worth settling, as long as nobody has claimed it; a
    /// worker that stops tries that until the lease runs out, which heartbeats do not extend any more.
    pub(super) fn let_go(&mut self, now: Nanos) {
        if now < self.earliest_let_go() {
            return;
        }
        let (margin, stopping) = (self.margin(), self.is_stopping());
        let sent: HashSet<Lease> = self.sent.iter().map(|out| out.settlement.lease).collect();
        let mut over = Vec::new();
        self.earliest = NEVER;
        for (lease, held) in &self.held {
            if matches!(held.stage, Stage::Settling) && !stopping || sent.contains(lease) {
                continue;
            } else if held.expires.saturating_sub(margin) <= now {
                over.push(*lease);
            } else {
                self.earliest = self.earliest.min(held.expires);
            }
        }
        for lease in over {
            let Some(job) = self.held.get(&lease).map(|held| held.job.clone()) else { continue };
            self.outbox.retain(|out| out.settlement.lease != lease);
            self.drop_claim(lease, now);
            self.report.lost += 1;
            self.tell(&Happening::Lost(&job));
        }
    }

    /// Forgets a claim; what comes of it does not count.
    pub(super) fn drop_claim(&mut self, lease: Lease, now: Nanos) {
        let Some(held) = self.held.remove(&lease) else { return };
        match held.stage {
            Stage::Running { attempt, task, began } => {
                task.abort();
                self.by_task.remove(&task.id());
                self.freed(lease, &held.look, began, false, now);
                let seed = self.engine.next_seed();
                attempt.abandon(now, seed);
            }
            Stage::Ready => {
                self.ready.retain(|ready| *ready != lease);
                self.lanes.remove(|waiting| waiting == lease);
                self.ready.extend(self.lanes.take_free());
            }
            Stage::Settling => {}
        }
    }
}
