//! What all threads of the proxy share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::access_log::Access;
use crate::config::snapshot::{Quota, Snapshot};
use crate::config::versioned::Versioned;
use crate::log::{Line, Log};

pub(crate) struct Shared {
    /// Receives events.
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) access: Option<Access>,
    pub(crate) snapshot: Versioned<Snapshot>,
    pub(crate) quota: Quota,
    pub(crate) drain: Drain,
    /// Connections of callers that may still be accepted.
    pub(crate) room: Arc<Semaphore>,
    /// The open connections of each thread.
    pub(crate) open: Box<[AtomicUsize]>,
    /// Notified when a connection ends.
    pub(crate) ended: Notify,
    pub(crate) reloads: Reloads,
}

/// How many new files were used, and how many were refused.
#[derive(Default)]
pub(crate) struct Reloads {
    pub(crate) applied: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// The end of the proxy: no more connections and no more requests on those that are open.
#[derive(Default)]
pub(crate) struct Drain {
    has_started: AtomicBool,
    started: Notify,
}

impl Drain {
    pub(crate) fn start(&self) {
        self.has_started.store(true, Ordering::Release);
        self.started.notify_waiters();
    }

    pub(crate) fn has_started(&self) -> bool {
        self.has_started.load(Ordering::Acquire)
    }

    pub(crate) async fn wait(&self) {
        let started = self.started.notified();
        if !self.has_started() {
            started.await;
        }
    }

    /// Ready when the drain starts. After the first poll, [`has_started`](Self::has_started) has to be asked.
    pub(crate) fn started(&self) -> impl Future<Output = ()> {
        self.started.notified()
    }
}

/// A connection of a caller on one of the threads.
pub(crate) struct Admitted {
    shared: Arc<Shared>,
    thread: usize,
    _permit: OwnedSemaphorePermit,
}

impl Shared {
    /// Logs a change of the proxy's state.
    pub(crate) fn event(&self, name: &'static str, message: String) {
        if let Some(log) = &self.log {
            log(Line::Event { name, message });
        }
    }

    /// Puts a connection on the thread that has the fewest.
    pub(crate) fn admit(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Admitted {
        let open = |thread: &usize| self.open[*thread].load(Ordering::Relaxed);
        let thread = (0..self.open.len()).min_by_key(open).unwrap_or(0);
        self.open[thread].fetch_add(1, Ordering::Relaxed);
        Admitted { shared: Arc::clone(self), thread, _permit: permit }
    }

    pub(crate) fn open(&self) -> usize {
        self.open.iter().map(|open| open.load(Ordering::Relaxed)).sum()
    }

    /// Ready when no connection is open.
    pub(crate) async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.open() == 0 {
                return;
            }
            ended.await;
        }
    }
}

impl Admitted {
    pub(crate) fn thread(&self) -> usize {
        self.thread
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.shared.open[self.thread].fetch_sub(1, Ordering::Relaxed);
        self.shared.ended.notify_waiters();
    }
}
