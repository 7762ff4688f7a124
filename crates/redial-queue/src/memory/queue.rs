use std::fmt;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redial_core::schedule::Backoff;
use redial_core::{Span, Time, draw};
use tokio::sync::Notify;
use tokio::time::timeout_at;

use super::build::{Builder, Priority};
use super::keys::{Added, Keys, Taken, WhenFull, later};
use super::work::{End, Work};
use crate::clock::Clock;

/// A queue of keys, for any number of producers and workers. A clone is the same queue.
///
/// ```
/// use redial_queue::{Added, WorkQueue};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let queue = WorkQueue::default();
/// assert_eq!(queue.add("default/web").await, Added::Queued);
/// assert_eq!(queue.add("default/web").await, Added::Coalesced);
/// let work = queue.get().await.unwrap();
/// assert_eq!((*work.key(), work.attempt()), ("default/web", 1));
/// work.done(); // or `failed`, and it comes back after a wait
/// # }
/// ```
pub struct WorkQueue<K: Hash + Eq + Clone>(Arc<Shared<K>>);

struct Shared<K> {
    state: Mutex<State<K>>,
    /// Wakes a worker: there is a key, an earlier time to wait for, or the end. A worker that takes a key and leaves others
    /// behind wakes the next one, so that one waiting worker always knows the next time.
    ready: Notify,
    /// Wakes an adder: there is room. One that does not need it wakes the next one.
    room: Notify,
    /// Wakes a drainer: there are no keys, or the queue was closed once more.
    idle: Notify,
    clock: Clock,
    backoff: Backoff,
    seed: u64,
}

struct State<K> {
    keys: Keys<K>,
    /// How many waits were drawn: each has a stream of its own.
    drawn: u64,
    /// Keys that failed after the queue was closed.
    left: Vec<K>,
    /// How often [`WorkQueue::close`] was called. A drain ends when that changes.
    closes: u64,
    waiters: Waiters,
}

/// How many tasks wait for what, so that none is woken in vain.
#[derive(Clone, Copy, Default)]
struct Waiters {
    workers: usize,
    adders: usize,
    drainers: usize,
}

impl<K: Hash + Eq + Clone> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Hash + Eq + Clone> Default for WorkQueue<K> {
    fn default() -> Self {
        Builder::default().build()
    }
}

impl<K: Hash + Eq + Clone> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("depth", &self.depth()).finish_non_exhaustive()
    }
}

/// How much there is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys that wait until they are due.
    pub later: usize,
    /// Keys that workers have.
    pub busy: usize,
    /// How long the oldest ready key has waited.
    pub age: Duration,
}

impl<K: Hash + Eq + Clone> WorkQueue<K> {
    pub(super) fn with(builder: &Builder) -> Self {
        let keys = Keys::new(builder.bound, builder.when_full, builder.rise.into());
        Self(Arc::new(Shared {
            state: Mutex::new(State {
                keys,
                drawn: 0,
                left: Vec::new(),
                closes: 0,
                waiters: Waiters::default(),
            }),
            ready: Notify::new(),
            room: Notify::new(),
            idle: Notify::new(),
            clock: Clock::start(),
            backoff: builder.backoff,
            seed: builder.seed,
        }))
    }

    /// The random stream that waits are drawn from.
    pub(crate) fn seed(&self) -> u64 {
        self.0.seed
    }

    /// How many keys there are, including the ones that workers have.
    pub(crate) fn len(&self) -> usize {
        self.state().keys.len()
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.state().keys.contains(key)
    }

    pub(crate) fn clock(&self) -> Clock {
        self.0.clock
    }

    fn now(&self) -> Time {
        self.0.clock.now()
    }

    /// Nothing that is done under the lock can panic half-way.
    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a key with the normal priority. Waits for room, if that is what to do when there is none.
    pub async fn add(&self, key: K) -> Added<K> {
        self.add_as(key, Priority::NORMAL, Duration::ZERO).await
    }

    /// Adds a key that runs after this long, or earlier if it is added again.
    pub async fn add_after(&self, key: K, after: Duration) -> Added<K> {
        self.add_as(key, Priority::NORMAL, after).await
    }

    /// As [`add_after`](Self::add_after), with a priority.
    pub async fn add_as(&self, key: K, priority: Priority, after: Duration) -> Added<K> {
        self.with_room(|| self.try_add(key.clone(), priority, after)).await
    }

    /// Adds a key that has failed: it runs after its backoff, or earlier if it is added again. A key that is to run already
    /// has not failed again, however often this is called. A worker calls [`Work::failed`] instead.
    pub async fn add_failed(&self, key: K) -> Added<K> {
        self.with_room(|| self.try_add_failed(key.clone(), Priority::NORMAL)).await
    }

    /// Adds a key without waiting for room: returns [`Added::Full`] if there is none.
    pub fn try_add(&self, key: K, priority: Priority, after: Duration) -> Added<K> {
        let mut state = self.state();
        let added = if after.is_zero() {
            state.keys.add(key, priority.0, || self.now())
        } else {
            state.keys.add_at(key, priority.0, later(self.now(), after.into()))
        };
        self.notify(&state);
        added
    }

    /// As [`add_failed`](Self::add_failed), without waiting for room.
    pub fn try_add_failed(&self, key: K, priority: Priority) -> Added<K> {
        let mut state = self.state();
        let wait = self.draw(&mut state);
        let added = state.keys.add_failed(key, priority.0, wait, self.now());
        self.notify(&state);
        added
    }

    /// Forgets how often a key has failed. Returns whether it had. If it waits, it continues to.
    pub fn forget(&self, key: &K) -> bool {
        self.state().keys.forget(key)
    }

    async fn with_room(&self, add: impl Fn() -> Added<K>) -> Added<K> {
        let mut added = add();
        while added == Added::Full && self.state().keys.when_full == WhenFull::Wait {
            let has_room =
                |state: &mut State<K>| (state.keys.has_room() || state.keys.closed).then_some(());
            self.wait_until(&self.0.room, |waiters| &mut waiters.adders, has_room).await;
            added = add();
        }
        added
    }

    /// Waits until `look` finds something. A task that notifies holds the same lock, so no notification is missed; a waiter
    /// that is dropped passes its notification on.
    async fn wait_until<T>(
        &self,
        notify: &Notify,
        count: fn(&mut Waiters) -> &mut usize,
        look: impl Fn(&mut State<K>) -> Option<T>,
    ) -> T {
        loop {
            let mut notified = pin!(notify.notified());
            let mut waiter = {
                let mut state = self.state();
                if let Some(found) = look(&mut state) {
                    return found;
                }
                notified.as_mut().enable();
                *count(&mut state.waiters) += 1;
                Waiter { queue: self, count, was_dropped: true }
            };
            notified.await;
            waiter.was_dropped = false;
        }
    }

    /// The next key to work on; `None` when the queue was closed and nothing is left to do.
    pub async fn get(&self) -> Option<Work<K>> {
        loop {
            let mut ready = pin!(self.0.ready.notified());
            let (due, mut waiter) = {
                let mut state = self.state();
                if let Some((taken, key)) = state.keys.take(|| self.now()) {
                    return Some(self.hand_out(&state, taken, key));
                }
                if state.keys.is_over() {
                    // The other workers can end too.
                    self.notify(&state);
                    return None;
                }
                ready.as_mut().enable();
                state.waiters.workers += 1;
                let count: fn(&mut Waiters) -> &mut usize = |waiters| &mut waiters.workers;
                (state.keys.next_due(), Waiter { queue: self, count, was_dropped: true })
            };
            match due {
                Some(due) => {
                    let _ = timeout_at(self.0.clock.at(due), ready).await;
                }
                None => ready.await,
            }
            waiter.was_dropped = false;
        }
    }

    /// The next key, if there is one now.
    pub fn try_get(&self) -> Option<Work<K>> {
        let mut state = self.state();
        let (taken, key) = state.keys.take(|| self.now())?;
        Some(self.hand_out(&state, taken, key))
    }

    fn hand_out(&self, state: &State<K>, taken: Taken, key: K) -> Work<K> {
        self.notify(state);
        let attempt = state.keys.failures(taken).saturating_add(1);
        Work::new(self.clone(), key, attempt, taken)
    }

    /// Wakes the tasks that wait for what there is now.
    fn notify(&self, state: &State<K>) {
        let (keys, waiters) = (&state.keys, state.waiters);
        if waiters.workers > 0 && (keys.waiting() > 0 || keys.is_over()) {
            self.0.ready.notify_one();
        }
        if waiters.adders > 0 && (keys.has_room() || keys.closed) {
            self.0.room.notify_one();
        }
        if waiters.drainers > 0 && keys.len() == 0 {
            self.0.idle.notify_one();
        }
    }

    /// Accepts no more keys; delayed keys run now. Workers get what is left, and then `None`. A [`drain`](Self::drain) that
    /// has begun ends at once: without this, a worker that hangs would block it forever.
    pub fn close(&self) {
        let mut state = self.state();
        state.closes += 1;
        state.keys.close(self.now());
        self.0.idle.notify_waiters();
        self.notify(&state);
    }

    /// Closes the queue and waits until no worker has a key, or until [`close`](Self::close) is called. Returns the keys that
    /// failed meanwhile: they are not done.
    pub async fn drain(&self) -> Vec<K> {
        let begun = {
            let mut state = self.state();
            state.keys.close(self.now());
            self.notify(&state);
            state.closes
        };
        let left = |state: &mut State<K>| {
            let over = state.keys.len() == 0 || state.closes != begun;
            over.then(|| std::mem::take(&mut state.left))
        };
        let left = self.wait_until(&self.0.idle, |waiters| &mut waiters.drainers, left).await;
        self.notify(&self.state());
        left
    }

    /// How much there is to do.
    pub fn depth(&self) -> Depth {
        let mut state = self.state();
        let now = self.now();
        state.keys.take_due(now.into(), now);
        let age = state.keys.oldest().map_or(Span::ZERO, |since| now - since);
        Depth {
            ready: state.keys.ready(),
            later: state.keys.waiting() - state.keys.ready(),
            busy: state.keys.busy(),
            age: age.into(),
        }
    }

    /// A wait of this queue's backoff, from a stream of its own.
    fn draw(&self, state: &mut State<K>) -> impl FnOnce(u32, Span) -> Span + use<K> {
        state.drawn += 1;
        let (backoff, seed) = (self.0.backoff, draw(self.0.seed, state.drawn));
        move |failures, last| backoff.delay(failures, last, seed)
    }

    /// Ends an attempt.
    pub(super) fn finish(&self, taken: Taken, end: End) {
        let mut state = self.state();
        let state = &mut *state;
        match end {
            End::Done => state.keys.reset(taken),
            End::After(after) => {
                state.keys.reset(taken);
                state.keys.again_at(taken, later(self.now(), after.into()));
            }
            End::Failed(given) => {
                let draw = self.draw(state);
                let wait = |failures, last| given.map_or_else(|| draw(failures, last), Span::from);
                state.left.extend(state.keys.fail(taken, wait, self.now()));
            }
        }
        state.keys.finish(taken, || self.now());
        self.notify(state);
    }
}

/// A task that waits.
struct Waiter<'a, K: Hash + Eq + Clone> {
    queue: &'a WorkQueue<K>,
    count: fn(&mut Waiters) -> &mut usize,
    /// It was dropped before it was woken. It may be the only one that knew the next time.
    was_dropped: bool,
}

impl<K: Hash + Eq + Clone> Drop for Waiter<'_, K> {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        *(self.count)(&mut state.waiters) -= 1;
        if self.was_dropped {
            self.queue.notify(&state);
        }
    }
}
