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
use super::keys::{Added, Keys, Taken, WhenFull, later};
use super::work::{End, Work};
use crate::clock::Clock;

/// A queue of keys, for any number of producers and workers. A clone is the same queue.
pub struct WorkQueue<K: Hash + Eq + Clone>(Arc<Shared<K>>);

struct Shared<K> {
    state: Mutex<State<K>>,
    /// A worker has something to look at: a key, an earlier time to wait for, or the end. Whoever takes a key and leaves
    /// others behind passes it on, so one of the workers that wait always knows the next time.
    ready: Notify,
    /// There is room. Whoever was told and does not need it passes it on.
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
    waiters: Waiters,
}

/// How many wait for what, so that nobody is called when nobody waits.
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
            state: Mutex::new(State {
                keys,
                drawn: 0,
                left: Vec::new(),
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
        self.with_room(|| self.try_add(key.clone(), priority, after)).await
    }

    /// Adds a key that something went wrong with: it has failed once more and runs after its backoff, or earlier if somebody
    /// asks for it. A key that is to run already has not failed again, however often this is said. A worker says
    /// [`Work::failed`] instead.
    pub async fn add_failed(&self, key: K) -> Added<K> {
        self.with_room(|| self.try_add_failed(key.clone(), Priority::NORMAL)).await
    }

    /// Adds a key, and does not wait for room: [`Added::Full`] says that there is none.
    pub fn try_add(&self, key: K, priority: Priority, after: Duration) -> Added<K> {
        let mut state = self.state();
        let added = if after.is_zero() {
            state.keys.add(key, priority.0, || self.now())
        } else {
            state.keys.add_at(key, priority.0, later(self.now(), nanos(after)))
        };
        self.call(&state);
        added
    }

    /// As [`add_failed`](Self::add_failed), and does not wait for room.
    pub fn try_add_failed(&self, key: K, priority: Priority) -> Added<K> {
        let mut state = self.state();
        let wait = self.draw(&mut state);
        let added = state.keys.add_failed(key, priority.0, wait, self.now());
        self.call(&state);
        added
    }

    /// Forgets how often a key has failed, and says whether it had. If it waits, it goes on waiting.
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

    /// Waits until there is something. Whoever calls looks under the same lock, so no call is missed; and a waiter that is
    /// dropped passes its call on.
    async fn wait_until<T>(
        &self,
        bell: &Notify,
        count: fn(&mut Waiters) -> &mut usize,
        look: impl Fn(&mut State<K>) -> Option<T>,
    ) -> T {
        loop {
            let mut call = pin!(bell.notified());
            let mut waits = {
                let mut state = self.state();
                if let Some(found) = look(&mut state) {
                    return found;
                }
                call.as_mut().enable();
                *count(&mut state.waiters) += 1;
                Waits { queue: self, count, leaves: true }
            };
            call.await;
            waits.leaves = false;
        }
    }

    /// The next key to work on; `None` when the queue was closed and nothing is left to do.
    pub async fn get(&self) -> Option<Work<K>> {
        loop {
            let mut ready = pin!(self.0.ready.notified());
            let (due, mut waits) = {
                let mut state = self.state();
                if let Some((taken, key)) = state.keys.take(|| self.now()) {
                    return Some(self.hand_out(&state, taken, key));
                }
                if state.keys.is_over() {
                    // The others may go home too.
                    self.call(&state);
                    return None;
                }
                ready.as_mut().enable();
                state.waiters.workers += 1;
                let count: fn(&mut Waiters) -> &mut usize = |waiters| &mut waiters.workers;
                (state.keys.next_due(), Waits { queue: self, count, leaves: true })
            };
            match due {
                Some(due) => {
                    let _ = timeout_at(self.0.clock.at(due), ready).await;
                }
                None => ready.await,
            }
            waits.leaves = false;
        }
    }

    /// The next key, if there is one now.
    pub fn try_get(&self) -> Option<Work<K>> {
        let mut state = self.state();
        let (taken, key) = state.keys.take(|| self.now())?;
        Some(self.hand_out(&state, taken, key))
    }

    fn hand_out(&self, state: &State<K>, taken: Taken, key: K) -> Work<K> {
        self.call(state);
        let attempt = state.keys.failures(taken).saturating_add(1);
        Work::new(self.clone(), key, attempt, taken)
    }

    /// Calls those that wait for what there is now.
    fn call(&self, state: &State<K>) {
        let (keys, waiters) = (&state.keys, state.waiters);
        if waiters.workers > 0 && (keys.waiting() > 0 || keys.is_over()) {
            self.0.ready.notify_one();
        }
        if waiters.adders > 0 && (keys.has_room() || keys.closed) {
            self.0.room.notify_one();
        }
        if waiters.drainers > 0 && keys.known() == 0 {
            self.0.idle.notify_one();
        }
    }

    /// Takes nothing any more; what waits for its time runs now. Workers get what is left, and then `None`.
    pub fn close(&self) {
        let mut state = self.state();
        state.keys.close(self.now());
        self.call(&state);
    }

    /// Closes the queue and waits until nobody works on anything. The keys that failed once more meanwhile come back: they
    /// are not done.
    pub async fn drain(&self) -> Vec<K> {
        self.close();
        let left = |state: &mut State<K>| {
            (state.keys.known() == 0).then(|| std::mem::take(&mut state.left))
        };
        let left = self.wait_until(&self.0.idle, |waiters| &mut waiters.drainers, left).await;
        self.call(&self.state());
        left
    }

    /// How much there is to do.
    pub fn depth(&self) -> Depth {
        let mut state = self.state();
        let now = self.now();
        state.keys.ripen(now, now);
        let age = state.keys.oldest().map_or(0, |since| now.saturating_sub(since));
        Depth {
            ready: state.keys.ready(),
            later: state.keys.waiting() - state.keys.ready(),
            busy: state.keys.busy(),
            age: Duration::from_nanos(age),
        }
    }

    /// A wait of this queue's backoff, from a stream of its own.
    fn draw(&self, state: &mut State<K>) -> impl FnOnce(u32, Nanos) -> Nanos + use<K> {
        state.drawn += 1;
        let (backoff, seed) = (self.0.backoff, draw(self.0.seed, state.drawn));
        move |failures, last| backoff.delay(failures, last, seed)
    }

    /// Ends the work on a key.
    pub(super) fn finish(&self, taken: Taken, end: End) {
        let mut state = self.state();
        let state = &mut *state;
        match end {
            End::Done => state.keys.forgive(taken),
            End::After(after) => {
                state.keys.forgive(taken);
                state.keys.again_at(taken, later(self.now(), nanos(after)));
            }
            End::Failed(given) => {
                let draw = self.draw(state);
                let wait = |failures, last| given.map_or_else(|| draw(failures, last), nanos);
                state.left.extend(state.keys.fail(taken, wait, self.now()));
            }
        }
        state.keys.finish(taken, || self.now());
        self.call(state);
    }
}

/// One that waits, until it no longer does.
struct Waits<'a, K: Hash + Eq + Clone> {
    queue: &'a WorkQueue<K>,
    count: fn(&mut Waiters) -> &mut usize,
    /// It goes away without having been called. It may be the only one that knew the next time.
    leaves: bool,
}

impl<K: Hash + Eq + Clone> Drop for Waits<'_, K> {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        *(self.count)(&mut state.waiters) -= 1;
        if self.leaves {
            self.queue.call(&state);
        }
    }
}
