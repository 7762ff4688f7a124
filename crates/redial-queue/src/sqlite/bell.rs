//! A worker has found nothing; before it gets around to waiting, a job is enqueued. The wake-up must not be lost. So changes
//! are counted, and whoever waits says how many it has seen.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::durable::StoreError;

/// Who waits for changes of which queue.
#[derive(Debug)]
pub(super) struct Bell {
    queues: Mutex<Queues>,
    /// Something has changed somewhere, or the store has stopped.
    rung: watch::Sender<()>,
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct Queues {
    /// Changes of each queue.
    by_name: HashMap<Box<str>, u64>,
    /// Changes that may concern any queue.
    all: u64,
    stopped: Option<String>,
}

/// Somebody waits, until this is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Bell {
    pub(super) fn new() -> Self {
        Self { queues: Mutex::default(), rung: watch::channel(()).0, waiting: AtomicUsize::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody waits.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// The changes of a queue so far.
    pub(super) fn changes(&self, queue: &str) -> u64 {
        self.lock().changes(queue)
    }

    /// Something about this queue has changed.
    pub(super) fn ring(&self, queue: &str) {
        *self.lock().by_name.entry(queue.into()).or_default() += 1;
        self.rung.send_replace(());
    }

    /// Something has changed, and nobody knows what.
    pub(super) fn ring_all(&self) {
        self.lock().all += 1;
        self.rung.send_replace(());
    }

    /// Nothing will change any more.
    pub(super) fn stop(&self, why: &str) {
        self.lock().stopped.get_or_insert_with(|| why.to_owned());
        self.rung.send_replace(());
    }

    /// Why the store has stopped.
    pub(super) fn stopped(&self) -> Result<(), StoreError> {
        self.lock().stopped.clone().map_or(Ok(()), |why| Err(StoreError::Stopped(why)))
    }

    /// Ends when there are other changes than those that were seen. `poke` is called once somebody waits.
    pub(super) async fn changed(
        &self,
        queue: &str,
        seen: u64,
        poke: impl FnOnce(),
    ) -> Result<(), StoreError> {
        let mut rung = self.rung.subscribe();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = Waits(&self.waiting);
        poke();
        loop {
            self.stopped()?;
            if self.changes(queue) != seen {
                return Ok(());
            }
            // The sender is ours and lives as long.
            let _ = rung.changed().await;
        }
    }
}

impl Queues {
    fn changes(&self, queue: &str) -> u64 {
        self.all + self.by_name.get(queue).copied().unwrap_or(0)
    }
}
