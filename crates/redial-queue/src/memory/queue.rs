use std::fmt;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redial_core::schedule::Backoff;
use redial_core::{Nanos, draw, nanos};
use tokio::sync::Notify;
use tokio::time::timeout_at;

use super::build::{Builder, Priority};
use super::keys::{Added, Keys, Taken};
use crate::clock::Clock;

/// A queue of keys, for any number of producers and workers. A clone is the same queue.
pub struct WorkQueue<K: Hash + Eq + Clone>(Arc<Shared<K>>);

struct Shared<K> {
    state: Mutex<State<K>>,
    /// A worker has something to look at: a key, an earlier time to wait for, or the end. Whoever takes a key and leaves
    /// others behind passes it on, so one of the workers that wait always knows the next time.
    ready: Notify,
    room: Notify,
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
    /// Keys that wait for their turn.
    pub ready: usize,
    /// Keys that wait for their time.
    pub later: usize,
    /// Keys that somebody works on.
    pub busy: usize,
    /// For how long the oldest of those that wait for their turn has waited.
    pub age: Duration,
}

impl<K: Hash + Eq + Clone> WorkQueue<K> {
    pub(super) fn with(builder: &Builder) -> Self {
        let keys = Keys::new(builder.bound, builder.when_full, nanos(builder.rise));
        Self(Arc::new(Shared {
            state: Mutex::new(State { keys, drawn: 0, left: Vec::new() }),
            ready: Notify::new(),
            room: Notify::new(),
            idle: Notify::new(),
            clock: Clock::start(),
            backoff: builder.backoff,
            seed: builder.seed,
        }))
    }

    /// The name of the random stream that waits are drawn from.
    pub(crate) fn seed(&self) -> u64 {
        self.0.seed
    }

    /// How many keys there are, those that somebody works on among them.
    pub(crate) fn known(&self) -> usize {
        self.state().keys.known()
    }

    pub(crate) fn knows(&self, key: &K) -> bool {
        self.state().keys.knows(key)
    }

    pub(crate) fn clock(&self) -> Clock {
        self.0.clock
    }

    fn now(&self) -> Nanos {
        self.0.clock.now()
    }

    /// Nothing that is done under the lock can panic half-way.
    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a key with the usual priority. Waits for room, if that is how the queue was made.
    pub async fn add(&self, key: K) -> Added<K> {
        self.add_as(key, Priority::NORMAL, Duration::ZERO).await
    }

    /// Adds a key that runs after this long, or earlier if somebody asks for it.
    pub async fn add_after(&self, key: K, after: Duration) -> Added<K> {
        self.add_as(key, Priority::NORMAL, after).await
    }

    /// As [`add_after`](Self::add_after), with a priority.
    pub async fn add_as(&self, key: K, priority: Priority, after: Duration) -> Added<K> {
        loop {
            let mut room = pin!(self.0.room.notified());
            room.as_mut().enable();
            match self.try_add(key.clone(), priority, after) {
                Added::Full => room.await,
                added => return added,
            }
        }
    }

    /// Adds a key, and does not wait for room: [`Added::Full`] says that there is none.
    pub fn try_add(&self, key: K, priority: Priority, after: Duration) -> Added<K> {
        let now = self.now();
        let due = now.saturating_add(nanos(after));
        let added = self.state().keys.add_at(key, priority.0, due, now);
        if !matches!(added, Added::Full | Added::Closed) {
            self.0.ready.notify_one();
        }
        added
    }

    /// The next key to work on; `None` when the queue was closed and nothing is left to do.
    pub async fn get(&self) -> Option<Work<K>> {
        loop {
            let mut ready = pin!(self.0.ready.notified());
            ready.as_mut().enable();
            let due = {
                let mut state = self.state();
                if let Some((taken, key)) = state.keys.take(self.now()) {
                    return Some(self.hand_out(&state, taken, key));
                }
                if state.keys.is_over() {
                    // The others may go home too.
                    self.0.ready.notify_one();
                    return None;
                }
                state.keys.next_due()
            };
            match due {
                Some(due) => {
                    let _ = timeout_at(self.0.clock.at(due), ready).await;
                }
                None => ready.await,
            }
        }
    }

    /// The next key, if there is one now.
    pub fn try_get(&self) -> Option<Work<K>> {
        let mut state = self.state();
        let (taken, key) = state.keys.take(self.now())?;
        Some(self.hand_out(&state, taken, key))
    }

    fn hand_out(&self, state: &State<K>, taken: Taken, key: K) -> Work<K> {
        if state.keys.waiting() > 0 {
            self.0.ready.notify_one();
        }
        self.0.room.notify_one();
        let attempt = state.keys.failures(taken).saturating_add(1);
        Work { queue: self.clone(), key, attempt, taken: Some(taken) }
    }

    /// Takes nothing any more; what waits for its time runs now. Workers get what is left, and then `None`.
    pub fn close(&self) {
        let now = self.now();
        self.state().keys.close(now);
        self.0.ready.notify_one();
        self.0.room.notify_waiters();
    }

    /// Closes the queue and waits until nobody works on anything. The keys that failed once more meanwhile come back: they
    /// are not done.
    pub async fn drain(&self) -> Vec<K> {
        self.close();
        loop {
            let mut idle = pin!(self.0.idle.notified());
            idle.as_mut().enable();
            {
                let mut state = self.state();
                if state.keys.known() == 0 {
                    return std::mem::take(&mut state.left);
                }
            }
            idle.await;
        }
    }

    /// How much there is to do.
    pub fn depth(&self) -> Depth {
        let (state, now) = (self.state(), self.now());
        let age = state.keys.oldest().map_or(0, |since| now.saturating_sub(since));
        Depth {
            ready: state.keys.ready(),
            later: state.keys.waiting() - state.keys.ready(),
            busy: state.keys.busy(),
            age: Duration::from_nanos(age),
        }
    }

    /// Ends the work on a key.
    fn finish(&self, taken: Taken, end: End) {
        let now = self.now();
        let mut state = self.state();
        let state = &mut *state;
        match end {
            End::Done => state.keys.forgive(taken),
            End::After(after) => {
                state.keys.forgive(taken);
                state.keys.again_at(taken, now.saturating_add(nanos(after)));
            }
            End::Failed(given) => {
                state.drawn += 1;
                let seed = draw(self.0.seed, state.drawn);
                let drawn = |failures, drawn| self.0.backoff.delay(failures, drawn, seed);
                let wait = |failures, last| given.map_or_else(|| drawn(failures, last), nanos);
                state.left.extend(state.keys.fail(taken, wait, now));
            }
        }
        state.keys.finish(taken, now);
        self.0.ready.notify_one();
        if state.keys.known() == 0 {
            self.0.idle.notify_waiters();
        }
    }
}

/// How the work on a key ended.
enum End {
    Done,
    After(Duration),
    /// With another wait than the queue's own, if there is one.
    Failed(Option<Duration>),
}

/// A key that this worker works on, and nobody else. Dropped without a word, as by a panic, it has failed.
#[derive(Debug)]
#[must_use = "work that is dropped has failed"]
pub struct Work<K: Hash + Eq + Clone> {
    queue: WorkQueue<K>,
    key: K,
    attempt: u32,
    /// Until it has ended.
    taken: Option<Taken>,
}

impl<K: Hash + Eq + Clone> Work<K> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// 1 is the first; it counts the failures in a row before this.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// It is done, and its failures are forgotten. If it was added meanwhile, it runs once more.
    pub fn done(mut self) {
        self.end(End::Done);
    }

    /// It is done for now, and runs again after this long, or earlier if somebody asks for it.
    pub fn again_after(mut self, after: Duration) {
        self.end(End::After(after));
    }

    /// It failed, and runs again after its backoff, or earlier if somebody asks for it.
    pub fn failed(mut self) {
        self.end(End::Failed(None));
    }

    /// It failed, and runs again after this long, or earlier if somebody asks for it.
    pub fn failed_for(mut self, wait: Duration) {
        self.end(End::Failed(Some(wait)));
    }

    fn end(&mut self, end: End) {
        if let Some(taken) = self.taken.take() {
            self.queue.finish(taken, end);
        }
    }
}

impl<K: Hash + Eq + Clone> Drop for Work<K> {
    fn drop(&mut self) {
        self.end(End::Failed(None));
    }
}
