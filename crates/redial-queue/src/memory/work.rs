use std::hash::Hash;
use std::time::Duration;

use super::keys::Taken;
use super::queue::WorkQueue;

/// How an attempt ended.
pub(super) enum End {
    Done,
    After(Duration),
    /// With this wait, or the queue's own.
    Failed(Option<Duration>),
}

/// A key that only this worker has. If it is dropped, as by a panic, it has failed. It ends once:
///
/// ```compile_fail,E0382
/// # let queue = redial_queue::WorkQueue::<u32>::default();
/// let work = queue.try_get().unwrap();
/// work.done();
/// work.done();
/// ```
#[derive(Debug)]
#[must_use = "work that is dropped has failed"]
pub struct Work<K: Hash + Eq + Clone> {
    queue: WorkQueue<K>,
    key: K,
    attempt: u32,
    /// `None` once it has ended.
    taken: Option<Taken>,
}

impl<K: Hash + Eq + Clone> Work<K> {
    pub(super) fn new(queue: WorkQueue<K>, key: K, attempt: u32, taken: Taken) -> Self {
        Self { queue, key, attempt, taken: Some(taken) }
    }

    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// 1 is the first; it is one more than the failures in a row before it.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// It is done, and its failures are forgotten. If it was added meanwhile, it runs again.
    pub fn done(mut self) {
        self.end(End::Done);
    }

    /// It is done for now, and runs again after this long, or earlier if it is added.
    pub fn again_after(mut self, after: Duration) {
        self.end(End::After(after));
    }

    /// It failed, and runs again after its backoff, or earlier if it is added.
    pub fn failed(mut self) {
        self.end(End::Failed(None));
    }

    /// It failed, and runs again after this long, or earlier if it is added.
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
