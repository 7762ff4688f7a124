//! A worker has found nothing; before it gets around to waiting, a job is enqueued. The wake-up must not be lost, though a
//! store does not know who asks. So each claim that left nothing behind is remembered with the number of changes that it
//! had seen, and whoever waits next takes the oldest of these: at worst it is woken for nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::durable::StoreError;

/// So many claims are remembered for each queue. One that is forgotten is a wake-up for nothing.
const KEPT: usize = 256;

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
    by_name: HashMap<Box<str>, Seen>,
    /// Changes that may concern any queue.
    all: u64,
    stopped: Option<String>,
}

#[derive(Debug, Default)]
struct Seen {
    changes: u64,
    claims: VecDeque<u64>,
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

    /// A claim has left nothing behind that is due, and these were the changes that it knew of.
    pub(super) fn seen(&self, queue: &str, changes: u64) {
        let mut queues = self.lock();
        let claims = &mut queues.by_name.entry(queue.into()).or_default().claims;
        if claims.len() < KEPT {
            claims.push_back(changes);
        }
    }

    /// Something about this queue has changed.
    pub(super) fn ring(&self, queue: &str) {
        self.lock().by_name.entry(queue.into()).or_default().changes += 1;
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

    /// Ends when something has changed since the oldest claim that nobody has waited for yet. `poke` is called once
    /// somebody waits.
    pub(super) async fn changed(&self, queue: &str, poke: impl FnOnce()) -> Result<(), StoreError> {
        let mut rung = self.rung.subscribe();
        let seen = self.lock().by_name.get_mut(queue).and_then(|seen| seen.claims.pop_front());
        let Some(seen) = seen else { return self.stopped() };
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
        self.all + self.by_name.get(queue).map_or(0, |seen| seen.changes)
    }
}
