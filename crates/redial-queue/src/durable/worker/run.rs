//! The loop that owns everything a worker has. It waits for whatever happens next, takes it in, and sends the store what
//! that makes necessary. Nothing is shared, so nothing is locked, and what happens at the same time happens in an order.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use redial_core::{Deadline, Span, Time};
use tokio::task::coop::consume_budget;
use tokio::task::{Id, JoinError};
use tokio::time::{Sleep, sleep_until};

use super::super::{Claimed, Claims, Handler, JobLease, JobVerdict, Settled, StoreError};
use super::attempts::{Attempts, Ended, Finished};
use super::call::Pause;
use super::engine::Engine;
use super::fetch::Fetch;
use super::leases::Leases;
use super::outbox::{Outbox, Outgoing};
use super::reporter::Reporter;
use super::{Until, Worker, WorkerError, WorkerReport, check_policy};
use crate::clock::Clock;

/// The most jobs that are held, settlements in flight included, as a multiple of those that can run or wait. Where a commit
/// takes as long as several attempts, most of them are being settled, and a lower bound would leave workers idle.
const MOST_HELD: usize = 4;

/// A worker that runs.
pub(super) struct Run<H> {
    config: Worker,
    clock: Clock,
    fetch: Fetch,
    leases: Leases,
    attempts: Attempts<H>,
    outbox: Outbox,
    reporter: Reporter,
    /// Set when the worker stops: when handlers are cut off.
    cut_off_at: Option<Time>,
    fatal: Option<WorkerError>,
}

/// What happened.
enum Event {
    Ended(Result<(Id, Ended), JoinError>),
    Claimed(Result<Claims, StoreError>),
    Settled(Result<Vec<Settled>, StoreError>),
    Beaten(Result<Vec<(JobLease, bool)>, StoreError>),
    Counted(Result<u64, StoreError>),
    Changed(Result<(), StoreError>),
    Stop,
}

impl<H: Handler> Run<H> {
    pub(super) fn new(mut config: Worker, handler: H) -> Result<Self, WorkerError> {
        let clock = config.gauge.clock();
        let policy = &*config.policy.get_or_insert_with(|| handler.policy());
        let named = config.policies.values().try_for_each(check_policy);
        named.and_then(|()| check_policy(policy)).map_err(WorkerError::Policy)?;
        let engine = Engine::new(policy, &config.policies, config.observer.clone());
        let (workers, places) = (config.workers, config.places());
        Ok(Self {
            fetch: Fetch::new(&config),
            leases: Leases::new(config.lease),
            attempts: Attempts::new(handler, engine, clock, workers, places),
            outbox: Outbox::default(),
            reporter: Reporter::new(config.gauge.clone(), config.watch.clone(), workers),
            cut_off_at: None,
            fatal: None,
            clock,
            config,
        })
    }

    pub(super) async fn run(
        mut self,
        stop: impl Future<Output = ()>,
    ) -> Result<WorkerReport, WorkerError> {
        let mut stop = pin!(stop);
        let mut alarm = pin!(sleep_until(self.clock.at(Time::ZERO)));
        let mut events = Vec::new();
        loop {
            // What is always ready must not keep the thread from other tasks.
            consume_budget().await;
            let now = self.clock.now();
            self.drop_expired(now);
            self.cut_off(now);
            self.start(now);
            self.beat(now);
            self.settle(now);
            self.fetch(now);
            self.reporter.show(self.attempts.not_started(), self.outbox.len());
            if self.is_over() {
                let report = self.reporter.report();
                return self.fatal.map_or(Ok(report), Err);
            }
            let wake = self.clock.at(self.next_time(now));
            if alarm.deadline() != wake {
                alarm.as_mut().reset(wake);
            }
            poll_fn(|cx| self.poll(cx, stop.as_mut(), alarm.as_mut(), &mut events)).await;
            let now = self.clock.now();
            events.drain(..).for_each(|event| self.take(event, now));
        }
    }

    /// Everything that has happened, so that nothing waits behind what happens more often. Answers of the store come
    /// first: they make room for what the others bring.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stop: Pin<&mut impl Future<Output = ()>>,
        alarm: Pin<&mut Sleep>,
        events: &mut Vec<Event>,
    ) -> Poll<()> {
        events.extend(self.outbox.settle.answer(cx).map(Event::Settled));
        events.extend(self.leases.beat.answer(cx).map(Event::Beaten));
        events.extend(self.fetch.claim.answer(cx).map(Event::Claimed));
        events.extend(self.fetch.count.answer(cx).map(Event::Counted));
        if self.cut_off_at.is_none() && stop.poll(cx).is_ready() {
            events.push(Event::Stop);
        }
        while let Some(ended) = self.attempts.poll_ended(cx) {
            events.push(Event::Ended(ended));
        }
        events.extend(self.fetch.change.answer(cx).map(Event::Changed));
        if events.is_empty() { alarm.poll(cx) } else { Poll::Ready(()) }
    }

    fn take(&mut self, event: Event, now: Time) {
        match event {
            Event::Ended(ended) => self.ended(ended, now),
            Event::Claimed(answer) => self.claimed(answer, now),
            Event::Settled(answer) => self.settled(answer, now),
            Event::Beaten(answer) => self.beaten(answer, now),
            Event::Counted(answer) => self.counted(answer, now),
            Event::Changed(answer) => {
                if let Err(error) = answer {
                    self.store_failed(error, |run| &mut run.fetch.change.pause, now);
                }
                self.fetch.look_again();
            }
            Event::Stop => self.stop(now),
        }
    }

    /// When to look again if nothing happens. What was due at `now` has been looked at.
    fn next_time(&self, now: Time) -> Deadline {
        let cut_off = self.cut_off_at.filter(|_| self.attempts.running() > 0);
        let fetch = if self.is_stopping() { Deadline::NONE } else { self.fetch.next() };
        let (beat, expiry) = (self.leases.next_beat(), self.leases.next_expiry());
        let (cut_off, stuck) = (cut_off.into(), self.attempts.next_stuck(now).into());
        let times = [cut_off, fetch, beat, expiry, self.outbox.next(), stuck];
        times.into_iter().filter(|time| !time.is_over(now)).min().unwrap_or_default()
    }

    // === stopping ===

    /// Claims nothing more. What waits for a worker is given back, and the rest has until the cut-off.
    fn stop(&mut self, now: Time) {
        if self.cut_off_at.is_none() {
            self.cut_off_at = Some(now + self.config.drain_time());
            self.fetch.change.cancel();
            // What is over and not settled can be dropped from now on.
            self.leases.look_again();
            self.give_back(Deadline::NONE);
        }
    }

    fn is_stopping(&self) -> bool {
        self.cut_off_at.is_some()
    }

    fn is_over(&self) -> bool {
        self.is_stopping()
            && self.leases.is_empty()
            && !self.fetch.claim.is_in_flight()
            && !self.outbox.settle.is_in_flight()
    }

    fn cut_off(&mut self, now: Time) {
        if self.cut_off_at.is_some_and(|time| now >= time) {
            let aborted = self.attempts.cut_off(&self.reporter, now);
            aborted.into_iter().for_each(|out| self.post(out));
        }
    }

    /// Stops the worker with this error.
    fn fail(&mut self, error: WorkerError, now: Time) {
        self.fatal.get_or_insert(error);
        self.stop(now);
    }

    /// A request failed. A store that cannot be reached is left alone for a while; any other error stops the worker.
    fn store_failed(&mut self, error: StoreError, pause: fn(&mut Self) -> &mut Pause, now: Time) {
        if !matches!(error, StoreError::Unavailable(_)) {
            pause(self).until = Deadline::NONE;
            return self.fail(error.into(), now);
        }
        let (lease, seed) = (self.config.lease, self.attempts.next_seed());
        let wait = pause(self).failed(lease, seed, now);
        self.reporter.store_unavailable(&error, wait);
    }

    // === jobs ===

    fn fetch(&mut self, now: Time) {
        if !self.is_stopping() {
            let room = self.room(now);
            self.fetch.advance(room, &self.reporter, now);
        }
    }

    /// How many jobs to claim. A claim for every job that ends would be a write for every job, so the next one waits until
    /// half of what was claimed in advance is used up. Jobs are claimed while others are settled, within [`MOST_HELD`].
    fn room(&self, now: Time) -> usize {
        let (prefetch, waiting) = (self.fetch.prefetch(), self.attempts.waiting(now));
        if waiting > prefetch / 2 {
            return 0;
        }
        let most = self.config.workers.saturating_add(prefetch);
        let room = most.saturating_sub(waiting + self.attempts.running());
        room.min(most.saturating_mul(MOST_HELD).saturating_sub(self.leases.len()))
    }

    fn claimed(&mut self, answer: Result<Claims, StoreError>, now: Time) {
        let claims = match answer {
            Ok(claims) => claims,
            Err(error) => return self.fetch_failed(error, now),
        };
        let (jobs, claimed) = self.fetch.claimed(claims, now);
        for Claimed { job, lease, age } in jobs {
            let job = Arc::new(job);
            self.leases.add(lease, Arc::clone(&job), claimed);
            self.attempts.push(lease, job, claimed, age);
        }
        if self.is_stopping() {
            self.give_back(Deadline::NONE);
        } else if self.leases.is_empty() && self.config.until != Until::Stopped {
            self.fetch.count_left(self.config.until);
        }
    }

    /// Nothing could be claimed and nothing is held here. If nothing is left, the worker stops.
    fn counted(&mut self, answer: Result<u64, StoreError>, now: Time) {
        match answer {
            Ok(0) => self.stop(now),
            // Nothing reports when the jobs of other workers are done.
            Ok(_) => self.fetch.due_after(Duration::from_secs(1), now),
            Err(error) => self.fetch_failed(error, now),
        }
    }

    fn fetch_failed(&mut self, error: StoreError, now: Time) {
        self.store_failed(error, |run| &mut run.fetch.claim.pause, now);
        self.fetch.look_again();
    }

    /// Starts jobs, and gives those back that are in the way of others.
    fn start(&mut self, now: Time) {
        let refused = self.attempts.start(&self.reporter, now);
        let stuck = self.attempts.take_stuck(self.fetch.prefetch() / 2, now);
        refused.into_iter().chain(stuck).for_each(|out| self.post(out));
    }

    fn ended(&mut self, ended: Result<(Id, Ended), JoinError>, now: Time) {
        let finished = self.attempts.ended(ended, &self.reporter, now);
        let Some(Finished { out, fatal }) = finished else { return };
        self.fetch.handler_took(out.took);
        self.post(out);
        fatal.into_iter().for_each(|error| self.fail(error, now));
    }

    /// Gives back what was claimed by then and has not started.
    fn give_back(&mut self, by: Deadline) -> usize {
        let waiting = self.attempts.take_waiting(by);
        let count = waiting.len();
        waiting.into_iter().for_each(|lease| self.post(Outgoing::returned(lease)));
        count
    }

    /// The work on a job is over: its outcome goes to the store.
    fn post(&mut self, out: Outgoing) {
        if self.leases.end(out.lease) {
            self.outbox.push(out);
        }
    }

    // === settlements and heartbeats, never at the same time: a heartbeat that follows a settlement would look stale ===

    fn settle(&mut self, now: Time) {
        if !self.leases.beat.is_in_flight() {
            self.outbox.send(&self.config.queue, self.config.lease, now);
        }
    }

    fn settled(&mut self, answer: Result<Vec<Settled>, StoreError>, now: Time) {
        match answer {
            Ok(settled) => {
                for (out, settled) in self.outbox.take_sent().into_iter().zip(settled) {
                    self.settled_one(&out, settled, now);
                }
                if self.leases.is_empty() {
                    // Whether that was all is for the next claim to find out.
                    self.fetch.look_again();
                }
            }
            Err(error @ StoreError::Unavailable(_)) => {
                self.store_failed(error, |run| &mut run.outbox.settle.pause, now);
                self.outbox.send_again();
                if self.is_stopping() {
                    self.leases.look_again();
                }
            }
            Err(error) => {
                for out in self.outbox.take_sent() {
                    self.leases.remove(out.lease);
                }
                self.fail(error.into(), now);
            }
        }
    }

    /// The store has answered: whatever it was, the claim is over.
    fn settled_one(&mut self, out: &Outgoing, settled: Settled, now: Time) {
        let Some(held) = self.leases.remove(out.lease) else { return };
        // Before the lease runs out no other worker can have ended the claim: the store has answered this already, and the
        // answer did not arrive.
        let is_known = out.was_sent && now < held.expires;
        if settled == Settled::Stale && !is_known {
            return self.reporter.stale(&held.job);
        }
        if let JobVerdict::Retry { wait, .. } | JobVerdict::Postpone { wait } = out.decision.verdict
        {
            self.fetch.due_after(wait, now);
        }
        self.reporter.settled(&held.job, out);
    }

    fn beat(&mut self, now: Time) {
        if self.outbox.settle.is_in_flight() || !self.leases.is_beat_due(now) {
            return;
        }
        let third = Span::from(self.config.lease) / 3;
        if self.give_back((now - third).into()) > 0 {
            self.fetch.slow_down();
        }
        self.leases.send_beat(&self.config.queue, now);
    }

    fn beaten(&mut self, answer: Result<Vec<(JobLease, bool)>, StoreError>, now: Time) {
        let alive = match answer {
            Ok(alive) => alive,
            Err(error) => {
                return self.store_failed(error, |run| &mut run.leases.beat.pause, now);
            }
        };
        let is_stopping = self.is_stopping();
        for lease in self.leases.beaten(alive, is_stopping) {
            let Some(held) = self.leases.remove(lease) else { continue };
            self.attempts.remove(lease, &self.reporter, now);
            self.reporter.stale(&held.job);
        }
    }

    fn drop_expired(&mut self, now: Time) {
        let (stopping, outbox) = (self.is_stopping(), &self.outbox);
        for lease in self.leases.expired(now, stopping, || outbox.sent()) {
            let Some(held) = self.leases.remove(lease) else { continue };
            self.outbox.remove(lease);
            self.attempts.remove(lease, &self.reporter, now);
            self.reporter.lost(&held.job);
        }
    }
}
