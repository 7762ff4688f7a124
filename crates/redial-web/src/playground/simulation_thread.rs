//! Simulations are computed beside a sidecar, on the same machine, and a visitor moves sliders faster than they can be
//! computed. A thread computes them, one request after the other: one thread for answers that a visitor waits for, another
//! one for longer runs. The policies of a request may have a thread each. On Linux all of them have a lower priority than the
//! sidecar. Requests that wait are bounded, and a newer request of the same visitor stops the older one.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use http::StatusCode;
use redial_sim::simulate::Watch;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::ApiError;

/// How many requests may wait.
const MOST_WAITING: usize = 8;
/// How long a request may take, with the time that it waits.
const MAX_RESPONSE_TIME: Duration = Duration::from_secs(30);
/// The least urgent value of `nice` is 19.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// What a visitor reads of a simulation that panicked.
pub(super) const FAILED: &str =
    "the simulation failed: this is a bug; the server's stderr has the details";

type Work = Box<dyn FnOnce() + Send>;

/// A thread for simulations.
#[derive(Debug)]
pub(crate) struct SimulationThread {
    queue: SyncSender<Work>,
    /// What each visitor waits for.
    visitors: Mutex<HashMap<String, Arc<Watch>>>,
    /// The work that is done before the first request, and stopped by it.
    warm_up: Arc<Watch>,
}

impl SimulationThread {
    pub(crate) fn new(name: &str) -> Self {
        let (queue, work) = sync_channel(MOST_WAITING);
        let started = thread::Builder::new().name(name.to_owned()).spawn(move || run(&work));
        // Without the thread every request is refused as too many.
        drop(started);
        Self { queue, visitors: Mutex::default(), warm_up: Arc::default() }
    }

    /// Computes something that no visitor waits for: the first simulation of a process takes several times as long as others.
    pub(crate) fn warm_up(&self, compute: impl FnOnce(&Watch) + Send + 'static) {
        let watch = Arc::clone(&self.warm_up);
        let _ = self.queue.try_send(Box::new(move || compute(&watch)));
    }

    /// Computes something in turn, unless a newer request of the same visitor comes in between. Requests without a visitor
    /// are independent of each other.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        visitor: &str,
        compute: impl FnOnce(&Watch) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let watch = Arc::new(Watch::default());
        let turn = Turn { shop: self, visitor, watch: Arc::clone(&watch) };
        let (reply, answer) = oneshot::channel();
        let work: Work = Box::new({
            let watch = Arc::clone(&watch);
            move || {
                if !watch.is_stopped() {
                    let computed = compute(&watch);
                    if !watch.is_stopped() {
                        // A visitor who has left needs no answer.
                        let _ = reply.send(computed);
                    }
                }
            }
        });
        self.submit(work)?;
        // A request that was refused must not stop the older one.
        self.replace(visitor, &watch);
        match timeout(MAX_RESPONSE_TIME, answer).await {
            Ok(Ok(computed)) => Ok(computed),
            Ok(Err(_)) if watch.is_stopped() => {
                Err(ApiError::new(StatusCode::CONFLICT, "replaced by a newer request"))
            }
            Ok(Err(_)) => Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, FAILED)),
            Err(_) => {
                turn.watch.stop();
                Err(unavailable("the simulation takes too long here: make it a longer run"))
            }
        }
    }

    /// Puts work into the queue.
    pub(crate) fn submit(&self, work: Work) -> Result<(), ApiError> {
        self.warm_up.stop();
        self.queue.try_send(work).map_err(|full| match full {
            TrySendError::Full(_) => unavailable("too many simulations are waiting: try again"),
            TrySendError::Disconnected(_) => unavailable("simulations are not available"),
        })
    }

    fn replace(&self, visitor: &str, watch: &Arc<Watch>) {
        if visitor.is_empty() {
            return;
        }
        let mut visitors = self.visitors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(older) = visitors.insert(visitor.to_owned(), Arc::clone(watch)) {
            older.stop();
        }
    }
}

fn unavailable(message: &str) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message)
}

/// A request that is waiting. A visitor who leaves drops it, which stops the work.
struct Turn<'a> {
    shop: &'a SimulationThread,
    visitor: &'a str,
    watch: Arc<Watch>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.watch.stop();
        let mut visitors = self.shop.visitors.lock().unwrap_or_else(PoisonError::into_inner);
        if visitors.get(self.visitor).is_some_and(|newest| Arc::ptr_eq(newest, &self.watch)) {
            visitors.remove(self.visitor);
        }
    }
}

fn run(work: &Receiver<Work>) {
    lower_priority();
    for job in work {
        // The panic is reported on stderr, and the job's request gets no answer; the next one does.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

/// For this thread, and for those that it starts.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    // On Linux it is the priority of a thread. Where it is not allowed, it stays as it is.
    let _ = rustix::process::setpriority_process(None, NICE);
}
