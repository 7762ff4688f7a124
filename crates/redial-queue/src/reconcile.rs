//! A controller brings the actual state in line with the desired one, key by key, and tries again when that fails. A thousand
//! keys that are tried again at once can be an outage of their own.
//!
//! A [`Reconciler`] is a pool of workers over a [`WorkQueue`]. The number of workers bounds how many attempts run at once, and
//! a token bucket how often one starts. Each key is a call of the engine: it backs off on its own, with jitter, and all keys
//! share one budget and one breaker.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redial_core::admit::{Guards, RateLimit, RateRule};
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::{Call, Context, Deadline, Observer, Policy, Request, Stop, Time, Verdict, draw};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::clock::Clock;
use crate::memory::{Depth, Work, WorkQueue};
use crate::observer::KeyedObserver;
use crate::stats::{Tally, WorkStats};
use crate::watch::{Trend, Watcher, WorkEvent};

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconciled {
    /// The state is as desired.
    Done,
    /// It is for now; look again after this long.
    After(Duration),
    /// It is not, for this reason.
    Failed(Failure),
}

/// What a pool of workers is doing, and has done since it was made. Beside each is the metric.
#[derive(Clone, Debug)]
pub struct PoolStats {
    /// What every kind of worker counts.
    pub work: WorkStats,
    /// The keys of the queue, and how long the oldest has waited: `redial_queue_depth`, `redial_queue_age_seconds`.
    pub depth: Depth,
    /// Keys that failed and wait for their retry.
    pub failing: usize,
    /// Attempts that succeeded: `redial_queue_jobs_total`.
    pub done: u64,
    /// Retries that the budget would pay for now; `None` without a budget: `redial_queue_retry_budget_balance`.
    pub balance: Option<u64>,
}

/// A pool of workers over a queue of keys.
///
/// Defaults: 4 workers, no token bucket. A key whose call stops (its attempts are used up, the budget is dry, the breaker is
/// open) rests for half of the policy's longest wait or up to all of it, and is then tried once; if that fails, it rests
/// again. So no key is lost, and keys that stop together do not start together. One attempt after a rest tells as much as four.
///
/// ```
/// use std::sync::Arc;
///
/// use redial::Preset;
/// use redial_queue::{Reconciled, Reconciler, WorkQueue};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let queue = WorkQueue::default();
/// queue.add("default/web").await;
/// let pool = Arc::new(Reconciler::new(queue.clone(), Preset::ControlPlane.into()).workers(2));
/// queue.close(); // `run` returns when everything in the queue is done
/// Arc::clone(&pool).run(|_key, _attempt| async { Reconciled::Done }).await;
/// assert_eq!(pool.stats().done, 1);
/// # }
/// ```
pub struct Reconciler<K: Hash + Eq + Clone> {
    queue: WorkQueue<K>,
    policy: Policy,
    guards: Guards,
    workers: usize,
    bucket: Option<RateLimit>,
    watch: Option<Arc<dyn Watcher<K>>>,
    observer: Option<Arc<dyn Observer>>,
    /// Calls that wait for their retry: keys of the queue, so at most as many.
    calls: Mutex<HashMap<K, Call>>,
    tally: Tally,
    done: AtomicU64,
    clock: Clock,
    seed: u64,
    /// How many waits were drawn: each has a stream of its own.
    drawn: AtomicU64,
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Reconciler<K> {
    /// Workers over this queue, with this policy. Its budget is that of this pool, even if the policy names a fleet.
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
            tally: Tally::default(),
            done: AtomicU64::new(0),
            clock,
            seed,
            drawn: AtomicU64::new(0),
        }
    }

    /// How many keys are worked on at once.
    pub fn workers(self, workers: usize) -> Self {
        Self { workers: workers.max(1), ..self }
    }

    /// How often attempts start, over all workers. A worker that has to wait keeps its key.
    pub fn rate(self, rule: &RateRule) -> Self {
        Self { bucket: Some(RateLimit::new(rule)), ..self }
    }

    /// Notifies `watch` of what becomes of keys.
    pub fn watch(self, watch: impl Watcher<K> + 'static) -> Self {
        Self { watch: Some(Arc::new(watch)), ..self }
    }

    /// Passes the engine's events to an observer, such as a meter or one that writes log lines. It sees hashes of the keys.
    pub fn observe(self, observer: impl Observer + 'static) -> Self {
        Self { observer: Some(Arc::new(observer)), ..self }
    }

    /// The current numbers.
    pub fn stats(&self) -> PoolStats {
        let now = self.now();
        PoolStats {
            work: WorkStats { workers: self.workers, ..self.tally.read(now) },
            depth: self.queue.depth(),
            failing: self.calls().len(),
            done: self.done.load(Relaxed),
            balance: self.guards.balance(now),
        }
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<K, Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until the queue is closed and everything that was in it is done. `work` receives a key and the number of its
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
        let observer = self.observer(item.key());
        let mut cx = self.context(observer.as_ref());
        let mut call = self.call(&item, &cx);
        if item.attempt() > 1 && call.attempts() == 0 {
            cx.request.off = Request::RESTED;
        }
        let permit = match call.admit(&cx, self.now()) {
            Ok(permit) => permit,
            Err(stop) => return self.rest(item, stop, None),
        };
        let attempt = permit.number;
        self.notify(&WorkEvent::Started { item: item.key(), attempt });
        let running = self.tally.begin(self.now());
        let mut task = JoinSet::new();
        task.spawn({
            let (work, key) = (Arc::clone(work), item.key().clone());
            async move { work(key, attempt).await }
        });
        let end = finish(task, self.clock.at(permit.expires)).await;
        self.tally.end(running);
        let (outcome, after) = match end {
            Reconciled::Done => (Outcome::Success, None),
            Reconciled::After(after) => (Outcome::Success, Some(after)),
            Reconciled::Failed(failure) => (failure.into(), None),
        };
        let now = self.now();
        let took = Duration::from(now - running.began);
        let verdict = call.settle(&cx, permit, &outcome, now, || self.next_seed());
        match (verdict, outcome) {
            (Verdict::Done, _) => {
                self.done.fetch_add(1, Relaxed);
                self.notify(&WorkEvent::Done { item: item.key(), attempt, took });
                match after {
                    Some(after) => item.again_after(after),
                    None => item.done(),
                }
            }
            (Verdict::Wait(until), Outcome::Failure(failure)) => {
                let wait = Duration::from(until - now);
                self.retry(&item, attempt, failure, wait);
                self.keep(item.key().clone(), call);
                item.failed_for(wait);
            }
            (Verdict::Stop(stop), Outcome::Failure(failure)) => {
                self.rest(item, stop, Some(failure));
            }
            (Verdict::Stop(stop), _) => self.rest(item, stop, None),
            (Verdict::Wait(_) | Verdict::InFlight, _) => item.failed(),
        }
    }

    /// The call of a key that failed, or a new one. The call has ended if the failures of the key were forgotten, or the key
    /// was dropped.
    fn call(&self, item: &Work<K>, cx: &Context<'_>) -> Call {
        let known = self.calls().remove(item.key());
        let fresh = Call::new(&self.policy, self.now(), Deadline::NONE);
        match known {
            Some(call) if item.attempt() > 1 => call,
            Some(mut call) => {
                call.cancel(cx, self.now());
                fresh
            }
            None => fresh,
        }
    }

    fn retry(&self, item: &Work<K>, attempt: u32, failure: Failure, wait: Duration) {
        let cause = failure.class.name();
        self.tally.retried(cause);
        let trend = Trend::of(attempt, self.policy.backoff());
        let (item, failure) = (item.key(), Some(failure));
        self.notify(&WorkEvent::Retry { item, attempt, wait, failure, cause, trend });
    }

    fn next_seed(&self) -> u64 {
        draw(self.seed, self.drawn.fetch_add(1, Relaxed))
    }

    /// Keeps a call until its retry. A full queue may drop keys; their calls are removed before they outnumber the others.
    fn keep(&self, key: K, call: Call) {
        let mut calls = self.calls();
        calls.insert(key, call);
        if calls.len() > 2 * self.queue.len() + 64 {
            let now = self.now();
            calls.retain(|key, call| {
                let kept = self.queue.contains(key);
                if !kept {
                    let observer = self.observer(key);
                    call.cancel(&self.context(observer.as_ref()), now);
                }
                kept
            });
        }
    }

    /// The call of a key is over, and the key is not done.
    fn rest(&self, item: Work<K>, stop: Stop, failure: Option<Failure>) {
        let wait = Duration::from(self.policy.backoff().rest(self.next_seed()));
        self.tally.stopped(stop);
        let (key, cause) =
            (item.key(), failure.map_or(stop.name(), |failure| failure.class.name()));
        let stop = Some(stop);
        self.notify(&WorkEvent::Postponed { item: key, wait, stop, failure, cause });
        item.failed_for(wait);
    }

    async fn wait_for_token(&self) {
        let Some(bucket) = &self.bucket else { return };
        let asked = self.now();
        while let Err(next) = bucket.take(self.now()) {
            sleep_until(self.clock.at(next)).await;
        }
        self.tally.limited((self.now() - asked).into());
    }

    fn observer(&self, key: &K) -> Option<KeyedObserver> {
        let observer = Arc::clone(self.observer.as_ref()?);
        let key = foldhash::quality::FixedState::with_seed(self.seed).hash_one(key);
        Some(KeyedObserver { observer, key, continues: |_| false })
    }

    fn context<'a>(&'a self, observer: Option<&'a KeyedObserver>) -> Context<'a> {
        // Reconciling is idempotent by definition.
        let request = Request { safety: Safety::Idempotent, ..Request::default() };
        let observer = KeyedObserver::of(observer);
        Context { policy: &self.policy, guards: &self.guards, observer, request }
    }

    fn notify(&self, event: &WorkEvent<'_, K>) {
        if let Some(watch) = &self.watch {
            watch.event(event);
        }
    }
}

/// The result of the only task of this set, which is aborted when it expires. The task has ended when this returns or is
/// dropped, so no other worker gets the key while it runs.
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
