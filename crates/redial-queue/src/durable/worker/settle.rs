//! What came of jobs goes to the store at once when the store is free, and together with everything else that ended
//! meanwhile when it is not.

use std::time::Duration;

use redial_core::Nanos;

use super::super::{Handler, Job, Lease, Settled, Settlement, StoreError, Verdict};
use super::Happening;
use super::run::{Outgoing, Shift, Stage, Trouble};

/// How many are settled at once.
const MOST: usize = 1000;

impl<H: Handler> Shift<H> {
    /// A job is over for this worker; the store will hear of it.
    pub(super) fn post(&mut self, lease: Lease, verdict: Verdict, outcome: String, took: Duration) {
        let Some(held) = self.held.get_mut(&lease) else { return };
        held.stage = Stage::Settling;
        let settlement = Settlement { lease, verdict, took, outcome };
        let (stop, class) = (None, None);
        self.outbox.push(Outgoing { settlement, stop, class, returned: false, asked: false });
    }

    pub(super) fn settle(&mut self, now: Nanos) {
        let waits = self.settling.is_some() || self.beating.is_some();
        if waits || self.outbox.is_empty() || now < self.settle_trouble.until {
            return;
        }
        let rest = self.outbox.split_off(self.outbox.len().min(MOST));
        self.sent = std::mem::replace(&mut self.outbox, rest);
        let settlements: Vec<Settlement> =
            self.sent.iter().map(|out| out.settlement.clone()).collect();
        let store = self.with.queue.store().clone();
        let settle = async move { store.settle(settlements).await };
        self.settling = self.ask(self.with.lease, settle);
    }

    pub(super) fn settled(&mut self, answer: Result<Vec<Settled>, StoreError>, now: Nanos) {
        let mut sent = std::mem::take(&mut self.sent);
        match answer {
            Ok(settled) => {
                self.settle_trouble = Trouble::default();
                for (out, settled) in sent.into_iter().zip(settled) {
                    self.written(&out, settled, now);
                }
                if self.held.is_empty() {
                    // Whether that was all is for another look to say.
                    self.fetch.again();
                }
            }
            Err(error @ StoreError::Unavailable(_)) => {
                self.settle_trouble.failures += 1;
                let failures = self.settle_trouble.failures;
                self.settle_trouble.until = self.trouble(error, failures, now);
                sent.iter_mut().for_each(|out| out.asked = true);
                sent.append(&mut self.outbox);
                self.outbox = sent;
                if self.is_stopping() {
                    self.earliest = 0;
                }
            }
            Err(error) => {
                self.trouble(error, 1, now);
                for out in sent {
                    self.held.remove(&out.settlement.lease);
                }
            }
        }
    }

    /// The store has answered: whatever it was, the claim is over.
    fn written(&mut self, out: &Outgoing, settled: Settled, now: Nanos) {
        let Some(held) = self.held.remove(&out.settlement.lease) else { return };
        let job = &*held.job;
        // Before the lease runs out nobody else can have ended the claim: it was an answer that did not arrive.
        let known = out.asked && now < held.expires;
        if settled == Settled::Stale && !known {
            self.report.stale += 1;
            self.tell(&Happening::Stale(job));
            return;
        }
        self.count(out);
        let Settlement { verdict, took, outcome, .. } = &out.settlement;
        if let Verdict::Retry { wait, .. } | Verdict::Postpone { wait } = verdict {
            self.fetch.due_after(*wait, now);
        }
        self.tell(&said(job, verdict, out.stop, *took, outcome));
    }

    fn count(&mut self, out: &Outgoing) {
        let report = &mut self.report;
        match out.settlement.verdict {
            Verdict::Done => report.done += 1,
            Verdict::Retry { .. } => report.retried += 1,
            Verdict::Postpone { .. } if out.returned => report.returned += 1,
            Verdict::Postpone { .. } => report.postponed += 1,
            Verdict::Dead { .. } => report.dead += 1,
        }
        let mut tally = self.with.gauge.tally();
        let retried = matches!(out.settlement.verdict, Verdict::Retry { .. });
        if let Some(class) = out.class.filter(|_| retried) {
            *tally.stats.retries.entry(class).or_default() += 1;
        }
        if let Some(stop) = out.stop {
            *tally.stats.stops.entry(stop.name()).or_default() += 1;
        }
    }
}

fn said<'a>(
    job: &'a Job,
    verdict: &'a Verdict,
    stop: Option<redial_core::Stop>,
    took: Duration,
    outcome: &'a str,
) -> Happening<'a> {
    match verdict {
        Verdict::Done => Happening::Done { job, took },
        Verdict::Retry { wait, .. } => Happening::Retry { job, wait: *wait, cause: outcome },
        Verdict::Postpone { wait } => {
            Happening::Postponed { job, wait: *wait, stop, cause: outcome }
        }
        Verdict::Dead { reason } => Happening::Dead { job, reason, outcome },
    }
}
