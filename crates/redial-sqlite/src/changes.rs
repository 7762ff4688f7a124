//! A worker has found nothing; before it starts to wait, a job is enqueued. The wake-up must not be lost. So changes are counted,
//! and a waiting worker passes the count that its claim has seen.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::fault::SqliteFault;

/// Counts the changes of each queue, and wakes the workers that wait for them.
#[derive(Debug)]
pub struct ChangeCounts {
    counts: Mutex<Counts>,
    /// Signals that a count has changed, or the store has stopped.
    signal: watch::Sender<()>,
    waiters: AtomicUsize,
}

#[derive(Debug, Default)]
struct Counts {
    by_queue: HashMap<Box<str>, u64>,
    /// Changes that may concern any queue.
    all: u64,
    stopped: Option<String>,
}

/// Counts a waiter until it is dropped.
struct Waiter<'a>(&'a AtomicUsize);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ChangeCounts {
    pub(crate) fn new() -> Self {
        let signal = watch::channel(()).0;
        Self { counts: Mutex::default(), signal, waiters: AtomicUsize::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_waiters(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) > 0
    }

    /// The changes of a queue so far.
    pub fn count(&self, queue: &str) -> u64 {
        let counts = self.lock();
        counts.all + counts.by_queue.get(queue).copied().unwrap_or(0)
    }

    /// A queue has changed.
    pub(crate) fn bump(&self, queue: &str) {
        *self.lock().by_queue.entry(queue.into()).or_default() += 1;
        self.signal.send_replace(());
    }

    /// Any queue may have changed.
    pub(crate) fn bump_all(&self) {
        self.lock().all += 1;
        self.signal.send_replace(());
    }

    /// The store has stopped: every wait ends with this error.
    pub(crate) fn stop(&self, why: &str) {
        self.lock().stopped.get_or_insert_with(|| why.to_owned());
        self.signal.send_replace(());
    }

    /// An error if the store has stopped.
    pub(crate) fn check_running(&self) -> Result<(), SqliteFault> {
        self.lock().stopped.clone().map_or(Ok(()), |why| Err(SqliteFault::Stop(why)))
    }

    /// Waits until the number of changes differs from `seen`. Calls `on_wait` once it counts as a waiter.
    pub(crate) async fn changed(
        &self,
        queue: &str,
        seen: u64,
        on_wait: impl FnOnce(),
    ) -> Result<(), SqliteFault> {
        let mut signal = self.signal.subscribe();
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let _waiter = Waiter(&self.waiters);
        on_wait();
        loop {
            self.check_running()?;
            if self.count(queue) != seen {
                return Ok(());
            }
            // The sender lives as long as `self`.
            let _ = signal.changed().await;
        }
    }
}
