//! A controller moves the world towards what it should be, one key at a time, and when the world does not move, it tries
//! again. A thousand keys that try again at once are the outage.
//!
//! A [`Reconciler`] is a pool of workers over a [`WorkQueue`]. How many there are bounds what is under way; a token bucket
//! bounds how often anything is; each key is a call of the engine, so it backs off on its own, with jitter, and all
//! of them draw on one budget and stop at one breaker.

mod stats;
mod watch;

pub use stats::Stats;
pub use watch::{Happened, Trend, Watch};

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redial_core::admit::{Guards, RateLimit, RateRule};
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::schedule::{Backoff, Jitter};
use redial_core::{Call, Context, NEVER, Nanos, Observer, Policy, Request, Stop, Verdict, draw};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::clock::Clock;
use crate::memory::{Work, WorkQueue};
use crate::told::{Told, seen};
use stats::Counters;

/// What came of working on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconciled {
    /// The world is as it should be.
    Done,
    /// It is for now; look again after this long.
    After(Duration),
    /// It is not, for this reason.
    Failed(Failure),
}

/// A pool of workers over a queue of keys.
///
/// Defaults: 4 workers, no token bucket. A key whose call stops (its attempts are used up, the budget is dry, the
/// breaker is open) rests, for half of the policy's longest wait or up to all of it, and then starts anew: a key is not
/// lost, and those that stop together do not come back together.
pub struct Reconciler<K: Hash + Eq + Clone> {
    queue: WorkQueue<K>,
    policy: Policy,
    guards: Guards,
    workers: usize,
    bucket: Option<RateLimit>,
    watch: Option<Arc<dyn Watch<K>>>,
    observer: Option<Arc<dyn Observer>>,
    /// Calls that wait for their retry: keys of the queue, so at most as many.
    calls: Mutex<HashMap<K, Call>>,
    counters: Counters,
    clock: Clock,
    seed: u64,
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Reconciler<K> {
    /// Workers over this queue, with this policy.
    pub fn new(queue: WorkQueue<K>, policy: Policy) -> Self {
        let (seed, clock) = (queue.seed(), queue.clock());
        Self {
            guards: Guards::new(&policy, 1, seed),
            queue,
            policy,
            workers: 4,
            bucket: None,
            watch: None,
            observer: None,
            calls: Mutex::default(),
            counters: Counters::default(),
            clock,
            seed,
        }
    }

    /// How many keys are worked on at once.
    pub fn workers(self, workers: usize) -> Self {
        Self { workers: workers.max(1), ..self }
    }

    /// How often work begins, over all workers. One that has to wait keeps its key.
    pub fn rate(self, rule: &RateRule) -> Self {
        Self { bucket: Some(RateLimit::new(rule)), ..self }
    }

    /// Who wants to know what becomes of keys.
    pub fn watch(self, watch: impl Watch<K> + 'static) -> Self {
        Self { watch: Some(Arc::new(watch)), ..self }
    }

    /// Who sees the engine's events, such as a meter or what writes log lines; the keys that it is given are hashes of ours.
    pub fn observe(self, observer: impl Observer + 'static) -> Self {
        Self { observer: Some(Arc::new(observer)), ..self }
    }

    /// What is going on.
    pub fn stats(&self) -> Stats {
        let now = self.now();
        Stats {
            failing: self.calls().len(),
            workers: self.workers,
            balance: self.guards.balance(now),
            ..self.counters.stats(self.queue.depth(), now)
        }
    }

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<K, Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until the queue is closed and everything that was in it is done. `work` is given a key and the number of its
    /// attempt, and runs as a task of its own: one that panics has failed.
    pub async fn run<F, R>(self: Arc<Self>, work: F)
    where
        F: Fn(K, u32) -> R + Send + Sync + 'static,
        R: Future<Output = Reconciled> + Send + 'static,
    {
        let (mut pool, work) = (JoinSet::new(), Arc::new(work));
        for _ in 0..self.workers {
            let (this, work) = (Arc::clone(&self), Arc::clone(&work));
            pool.spawn(async move {
                while let Some(item) = this.queue.get().await {
                    this.reconcile(item, &work).await;
                }
            });
        }
        pool.join_all().await;
    }

    async fn reconcile<F, R>(&self, item: Work<K>, work: &Arc<F>)
    where
        F: Fn(K, u32) -> R + Send + Sync + 'static,
        R: Future<Output = Reconciled> + Send + 'static,
    {
        self.wait_for_token().await;
        let key = item.key().clone();
        let told = self.told(&key);
        let cx = self.context(told.as_ref());
        let mut call = self.call(&item, &cx);
        let permit = match call.admit(&cx, self.now()) {
            Ok(permit) => permit,
            Err(stop) => return self.rest(item, stop, None),
        };
        let running = self.counters.begin(self.now());
        let mut task = JoinSet::new();
        task.spawn({
            let (work, key, number) = (Arc::clone(work), key.clone(), permit.number);
            async move { work(key, number).await }
        });
        let end = finish(task, self.clock.at(permit.expires)).await;
        self.counters.end(running);
        let (outcome, after) = match end {
            Reconciled::Done => (Outcome::Success, None),
            Reconciled::After(after) => (Outcome::Success, Some(after)),
            Reconciled::Failed(failure) => (failure.into(), None),
        };
        let (number, now) = (permit.number, self.now());
        let verdict = call.settle(&cx, permit, &outcome, now, || self.next_seed());
        match (verdict, outcome) {
            (Verdict::Done, _) => self.done(item, number, after),
            (Verdict::Wait(until), Outcome::Failure(failure)) => {
                let wait = Duration::from_nanos(until.saturating_sub(now));
                let trend = self.trend(&item, number);
                self.counters.retry(failure.class);
                self.tell(&key, &Happened::Failed { failure, failures: number, wait, trend });
                self.keep(key, call);
                item.failed_for(wait);
            }
            (Verdict::Stop(stop), Outcome::Failure(failure)) => {
                self.rest(item, stop, Some(failure));
            }
            (Verdict::Stop(stop), _) => self.rest(item, stop, None),
            (Verdict::Wait(_) | Verdict::InFlight, _) => item.failed(),
        }
    }

    /// The call of a key that failed, or a new one. Whoever forgets the failures of a key, or drops it, has ended its call.
    fn call(&self, item: &Work<K>, cx: &Context<'_>) -> Call {
        let known = self.calls().remove(item.key());
        let fresh = Call::new(&self.policy, self.now(), NEVER);
        match known {
            Some(call) if item.attempt() > 1 => call,
            Some(mut call) => {
                call.cancel(cx, self.now());
                fresh
            }
            None => fresh,
        }
    }

    fn done(&self, item: Work<K>, number: u32, after: Option<Duration>) {
        self.counters.done();
        if number > 1 {
            self.tell(item.key(), &Happened::Recovered { failures: number - 1 });
        }
        match after {
            Some(after) => item.again_after(after),
            None => item.done(),
        }
    }

    fn trend(&self, item: &Work<K>, number: u32) -> Trend {
        let ceiling = |retry| self.policy.backoff().ceiling(retry);
        match number {
            1 if item.attempt() == 1 => Trend::First,
            1 => Trend::Repeated,
            _ if ceiling(number) > ceiling(number - 1) => Trend::Growing,
            _ => Trend::Repeated,
        }
    }

    fn next_seed(&self) -> u64 {
        draw(self.seed, self.counters.next_seed())
    }

    /// Keeps a call until its retry. A full queue may drop keys, and their calls go when they outnumber the others.
    fn keep(&self, key: K, call: Call) {
        let mut calls = self.calls();
        calls.insert(key, call);
        if calls.len() > 2 * self.queue.known() + 64 {
            let now = self.now();
            calls.retain(|key, call| {
                let kept = self.queue.knows(key);
                if !kept {
                    let told = self.told(key);
                    call.cancel(&self.context(told.as_ref()), now);
                }
                kept
            });
        }
    }

    /// The call of a key is over, and the key is not done.
    fn rest(&self, item: Work<K>, stop: Stop, failure: Option<Failure>) {
        let longest = Duration::from_nanos(self.policy.backoff().cap());
        let rest = Backoff::constant(longest).jitter(Jitter::Equal);
        let wait = Duration::from_nanos(rest.delay(1, 0, self.next_seed()));
        self.counters.stop(stop);
        self.tell(item.key(), &Happened::Stopped { reason: stop, failure, wait });
        item.failed_for(wait);
    }

    async fn wait_for_token(&self) {
        let Some(bucket) = &self.bucket else { return };
        let asked = self.now();
        while let Err(next) = bucket.take(self.now()) {
            sleep_until(self.clock.at(next)).await;
        }
        self.counters.waited(self.now().saturating_sub(asked));
    }

    fn told(&self, key: &K) -> Option<Told> {
        let observer = Arc::clone(self.observer.as_ref()?);
        let key = foldhash::quality::FixedState::with_seed(self.seed).hash_one(key);
        Some(Told { observer, key, goes_on: |_| false })
    }

    fn context<'a>(&'a self, told: Option<&'a Told>) -> Context<'a> {
        // Whoever reconciles says that it can be done twice: it is what reconciling is.
        let request = Request { safety: Safety::Idempotent, ..Request::default() };
        Context { policy: &self.policy, guards: &self.guards, observer: seen(told), request }
    }

    fn tell(&self, key: &K, happened: &Happened) {
        if let Some(watch) = &self.watch {
            watch.happened(key, happened);
        }
    }
}

/// What came of the only task of this set; cut off at its time. It is over then, also if this is dropped: nobody else gets
/// the key while it runs.
async fn finish(mut task: JoinSet<Reconciled>, expires: Instant) -> Reconciled {
    let class = match timeout_at(expires, task.join_next()).await {
        Ok(Some(Ok(reconciled))) => return reconciled,
        Ok(_) => Class::Transient,
        Err(_) => {
            task.shutdown().await;
            Class::Timeout
        }
    };
    Reconciled::Failed(Failure::new(class))
}
