//! The loop that owns everything a worker has. It waits for whatever happens next, takes it in, and asks the store for what
//! that makes necessary. Nothing is shared, so nothing is locked, and what happens at the same time happens in an order.

use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use redial_core::schedule::Backoff;
use redial_core::{NEVER, Nanos, nanos};
use tokio::task::coop::consume_budget;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Sleep, sleep_until, timeout};

use super::super::{Claims, Handler, Job, Lease, Settled, Settlement, StoreError};
use super::engine::{Attempt, Engine};
use super::lanes::Lanes;
use super::work::{Ended, Look};
use super::{Happening, Report, Worker, WorkerError};
use crate::clock::Clock;

/// Something that was asked of the store.
pub(super) type Asked<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// A worker at work.
pub(super) struct Shift<H> {
    pub(super) with: Worker,
    pub(super) handler: Arc<H>,
    pub(super) engine: Engine,
    pub(super) clock: Clock,
    /// Every claim that is not settled.
    pub(super) held: HashMap<Lease, Held>,
    /// Those that wait for a worker, oldest first.
    pub(super) ready: VecDeque<Lease>,
    /// Those that wait for a place at their destination.
    pub(super) lanes: Lanes,
    pub(super) tasks: JoinSet<Ended>,
    pub(super) by_task: HashMap<Id, Lease>,
    /// What is over and not yet with the store.
    pub(super) outbox: Vec<Outgoing>,
    /// What is with the store.
    pub(super) sent: Vec<Outgoing>,
    pub(super) claiming: Option<Asked<Claims>>,
    pub(super) settling: Option<Asked<Vec<Settled>>>,
    /// Never at the same time as a settlement: a heartbeat that comes after it would look stale.
    pub(super) beating: Option<Asked<Vec<(Lease, bool)>>>,
    pub(super) counting: Option<Asked<u64>>,
    pub(super) changing: Option<Asked<()>>,
    pub(super) fetch: super::fetch::Fetch,
    pub(super) heart: super::beat::Heart,
    pub(super) settle_trouble: Trouble,
    /// No lease is over before this.
    pub(super) earliest: Nanos,
    /// Set when the worker stops: when handlers are cut off.
    pub(super) cut_off: Option<Nanos>,
    pub(super) fatal: Option<WorkerError>,
    pub(super) report: Report,
}

/// A claim that this worker has.
pub(super) struct Held {
    pub(super) job: Arc<Job>,
    /// When it was asked for, and how long the job had been begun by then.
    pub(super) claimed: Nanos,
    pub(super) age: Duration,
    /// What the handler says about the job before it is tried.
    pub(super) look: Look,
    /// When the lease runs out, at the earliest.
    pub(super) expires: Nanos,
    pub(super) stage: Stage,
}

pub(super) enum Stage {
    Ready,
    Running {
        attempt: Box<Attempt>,
        task: AbortHandle,
        began: Nanos,
    },
    /// What came of it is in the outbox, or with the store.
    Settling,
}

/// A settlement on its way to the store, and what to say of it when it is there.
pub(super) struct Outgoing {
    pub(super) settlement: Settlement,
    pub(super) stop: Option<redial_core::Stop>,
    pub(super) class: Option<&'static str>,
    /// Whether it is given back because nobody here will work on it soon.
    pub(super) returned: bool,
    /// Whether the store may have it already: it was asked, and did not answer.
    pub(super) asked: bool,
}

/// What happened.
enum Event {
    Ended(Result<(Id, Ended), JoinError>),
    Claimed(Result<Claims, StoreError>),
    Settled(Result<Vec<Settled>, StoreError>),
    Beaten(Result<Vec<(Lease, bool)>, StoreError>),
    Counted(Result<u64, StoreError>),
    Changed(Result<(), StoreError>),
    Stop,
}

impl<H: Handler> Shift<H> {
    pub(super) fn new(mut with: Worker, handler: H) -> Self {
        let clock = with.gauge.clock();
        with.gauge.tally().stats.workers = with.workers;
        let policy = with.policy.get_or_insert_with(|| handler.policy());
        Self {
            engine: Engine::new(policy, &with.policies, with.observer.clone()),
            lanes: Lanes::new(with.lane()),
            clock,
            handler: Arc::new(handler),
            held: HashMap::new(),
            ready: VecDeque::new(),
            tasks: JoinSet::new(),
            by_task: HashMap::new(),
            outbox: Vec::new(),
            sent: Vec::new(),
            claiming: None,
            settling: None,
            beating: None,
            counting: None,
            changing: None,
            fetch: super::fetch::Fetch::new(),
            heart: super::beat::Heart::default(),
            settle_trouble: Trouble::default(),
            earliest: NEVER,
            cut_off: None,
            fatal: None,
            report: Report::default(),
            with,
        }
    }

    pub(super) async fn run(
        mut self,
        stop: impl Future<Output = ()>,
    ) -> Result<Report, WorkerError> {
        let mut stop = pin!(stop);
        let mut alarm = pin!(sleep_until(self.clock.at(0)));
        let mut events = Vec::new();
        loop {
            // Whatever is always ready must not keep the thread from others.
            consume_budget().await;
            let now = self.clock.now();
            self.let_go(now);
            self.cut_off(now);
            self.start(now);
            self.leave_stuck(now);
            self.beat(now);
            self.settle(now);
            self.fetch(now);
            self.show();
            if self.is_over() {
                return self.fatal.map_or(Ok(self.report), Err);
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
        events.extend(answered(&mut self.settling, cx).map(Event::Settled));
        events.extend(answered(&mut self.beating, cx).map(Event::Beaten));
        events.extend(answered(&mut self.claiming, cx).map(Event::Claimed));
        events.extend(answered(&mut self.counting, cx).map(Event::Counted));
        if self.cut_off.is_none() && stop.poll(cx).is_ready() {
            events.push(Event::Stop);
        }
        while let Poll::Ready(Some(ended)) = self.tasks.poll_join_next_with_id(cx) {
            events.push(Event::Ended(ended));
        }
        events.extend(answered(&mut self.changing, cx).map(Event::Changed));
        if events.is_empty() { alarm.poll(cx) } else { Poll::Ready(()) }
    }

    fn take(&mut self, event: Event, now: Nanos) {
        match event {
            Event::Ended(ended) => self.ended(ended, now),
            Event::Claimed(answer) => self.claimed(answer, now),
            Event::Settled(answer) => self.settled(answer, now),
            Event::Beaten(answer) => self.beaten(answer, now),
            Event::Counted(answer) => self.counted(answer, now),
            Event::Changed(answer) => self.changed(answer, now),
            Event::Stop => self.stop(now),
        }
    }

    /// Claims nothing more. What waits for a worker is given back, and the rest has until the cut-off.
    pub(super) fn stop(&mut self, now: Nanos) {
        if self.cut_off.is_none() {
            self.cut_off = Some(now.saturating_add(self.with.drain_time()));
            self.changing = None;
            // What is over and not settled can be let go from now on.
            self.earliest = 0;
            self.give_back(NEVER);
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.cut_off.is_some()
    }

    fn is_over(&self) -> bool {
        self.is_stopping()
            && self.held.is_empty()
            && self.claiming.is_none()
            && self.settling.is_none()
    }

    /// When to look again if nothing happens. What was due at `now` has been looked at.
    fn next_time(&self, now: Nanos) -> Nanos {
        let drain = self.cut_off.filter(|_| !self.by_task.is_empty()).unwrap_or(NEVER);
        let settle = if self.outbox.is_empty() { NEVER } else { self.settle_trouble.until };
        let beat = if self.held.is_empty() { NEVER } else { self.heart.next() };
        let stuck = if self.is_crowded() { self.lanes.next_stuck() } else { NEVER };
        let fetch = self.next_fetch();
        let times = [drain, settle, beat, fetch, stuck, self.earliest_let_go()];
        times.into_iter().filter(|time| *time > now).min().unwrap_or(NEVER)
    }

    /// Ends the shift with this error.
    pub(super) fn fail(&mut self, error: WorkerError, now: Nanos) {
        self.fatal.get_or_insert(error);
        self.stop(now);
    }

    /// The store did not do what it was asked to. Says for how long to leave it alone, or ends the shift.
    pub(super) fn trouble(&mut self, error: StoreError, failures: u32, now: Nanos) -> Nanos {
        if !matches!(error, StoreError::Unavailable(_)) {
            self.fail(error.into(), now);
            return NEVER;
        }
        let cap = (self.with.lease / 6).min(Duration::from_secs(5));
        let backoff = Backoff::exponential(Duration::from_millis(100).min(cap), cap);
        let seed = self.engine.next_seed();
        let wait = backoff.delay(failures, 0, seed);
        self.tell(&Happening::Trouble { error: &error, wait: Duration::from_nanos(wait) });
        now.saturating_add(wait)
    }

    /// Asks the store for something, and no longer than this: an answer that comes later is worth nothing.
    pub(super) fn ask<T>(
        &self,
        most: Duration,
        asked: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Option<Asked<T>> {
        Some(Box::pin(async move {
            let silent = |_| StoreError::Unavailable(format!("no answer in {most:?}").into());
            timeout(most, asked).await.map_err(silent)?
        }))
    }

    /// How many jobs wait for a worker, or for a place at their destination.
    pub(super) fn waiting(&self) -> usize {
        self.ready.len() + self.lanes.waiting()
    }

    pub(super) fn lease(&self) -> Nanos {
        nanos(self.with.lease)
    }

    pub(super) fn tell(&self, happening: &Happening<'_>) {
        if let Some(watch) = &self.with.watch {
            watch.happened(happening);
        }
    }

    fn show(&self) {
        let mut tally = self.with.gauge.tally();
        tally.stats.ready = self.waiting();
        tally.stats.unsettled = self.outbox.len() + self.sent.len();
        tally.stats.report = self.report;
    }
}

/// Failures in a row, and until when to leave the store alone.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    pub(super) failures: u32,
    pub(super) until: Nanos,
}

/// The answer, if it is there.
fn answered<T>(
    asked: &mut Option<Asked<T>>,
    cx: &mut Context<'_>,
) -> Option<Result<T, StoreError>> {
    let Poll::Ready(answer) = asked.as_mut()?.as_mut().poll(cx) else { return None };
    *asked = None;
    Some(answer)
}
