//! The threads of the proxy, each with a runtime of its own.
//!
//! The first one also accepts connections, and hands each to the thread that has the fewest: with few callers, the kernel
//! would spread them unevenly.

use std::io;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle as Thread};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::caller::listener::{self, Accepted, Bound, Listener};
use crate::limits;
use crate::shared::Shared;
use crate::upstream::endpoint::Endpoint;
use crate::upstream::pool;

/// The threads. They end when the drain has ended.
pub(crate) struct Threads(Vec<Thread<()>>);

/// Opens and closes the listeners of the threads.
pub(crate) struct ListenerChanges(UnboundedSender<Change>);

/// A change of the listeners.
enum Change {
    Open(Bound),
    Close(Arc<Listener>),
}

impl Threads {
    pub(crate) fn start(
        shared: &Arc<Shared>,
        drain: Duration,
    ) -> io::Result<(Self, ListenerChanges)> {
        let runtime = |_| Builder::new_current_thread().enable_all().build();
        let runtimes: Vec<Runtime> = shared.open.iter().map(runtime).collect::<Result<_, _>>()?;
        let (sender, changes) = unbounded_channel();
        let (senders, receivers): (Vec<_>, Vec<_>) =
            shared.open.iter().map(|_| unbounded_channel()).unzip();
        let mut changes = Some(changes);
        let mut all = Vec::new();
        for (number, (runtime, receiver)) in runtimes.into_iter().zip(receivers).enumerate() {
            let listening = changes.take().map(|changes| (changes, senders.clone()));
            let shared = Arc::clone(shared);
            let run = move || {
                pool::enter(number);
                runtime.block_on(run(receiver, listening, shared, drain));
            };
            all.push(thread::Builder::new().name(format!("proxy-{number}")).spawn(run)?);
        }
        Ok((Self(all), ListenerChanges(sender)))
    }

    pub(crate) fn join(&mut self) {
        for thread in self.0.drain(..) {
            // A thread that panicked has ended as well.
            drop(thread.join());
        }
    }
}

impl ListenerChanges {
    pub(crate) fn open(&self, listener: Bound) {
        self.change(Change::Open(listener));
    }

    pub(crate) fn close(&self, listener: &Arc<Listener>) {
        self.change(Change::Close(Arc::clone(listener)));
    }

    fn change(&self, change: Change) {
        // Fails only when the threads have ended.
        let _ = self.0.send(change);
    }
}

type Senders = Vec<UnboundedSender<Accepted>>;

/// Runs a thread until the drain has ended.
async fn run(
    accepted: UnboundedReceiver<Accepted>,
    listening: Option<(UnboundedReceiver<Change>, Senders)>,
    shared: Arc<Shared>,
    drain: Duration,
) {
    tokio::spawn(serve(accepted, Arc::clone(&shared)));
    tokio::spawn(sweep(Arc::clone(&shared)));
    let acceptor = listening
        .map(|(changes, threads)| tokio::spawn(accept(changes, threads, Arc::clone(&shared))));
    shared.drain.wait().await;
    sleep(limits::LINGER).await;
    if let Some(acceptor) = acceptor {
        acceptor.abort();
    }
    // What is still open afterwards is dropped with the runtime.
    let _ = timeout(drain, shared.all_ended()).await;
}

/// Serves the connections that are handed to this thread.
async fn serve(mut accepted: UnboundedReceiver<Accepted>, shared: Arc<Shared>) {
    while let Some(accepted) = accepted.recv().await {
        tokio::spawn(accepted.serve(Arc::clone(&shared)));
    }
}

/// Keeps the time of this thread's pools, and closes the connections in them that have expired. An idle caller keeps the
/// endpoints of the snapshot of its last request, so those that a reload has removed are swept as well.
pub(crate) async fn sweep(shared: Arc<Shared>) {
    let (mut generation, mut known) = (0, Vec::<Weak<Endpoint>>::new());
    loop {
        if generation != shared.snapshot.generation() {
            generation = shared.snapshot.generation();
            for endpoint in shared.snapshot.load().endpoints().map(Arc::downgrade) {
                if !known.iter().any(|known| known.ptr_eq(&endpoint)) {
                    known.push(endpoint);
                }
            }
        }
        sleep(Duration::from_millis(pool::TICK_MILLIS)).await;
        pool::tick();
        known.retain(|endpoint| endpoint.upgrade().inspect(|it| it.pool.sweep()).is_some());
    }
}

/// Opens and closes listeners. Closes all when it ends.
async fn accept(mut changes: UnboundedReceiver<Change>, threads: Senders, shared: Arc<Shared>) {
    let mut listeners = JoinSet::new();
    let mut open: Vec<(Arc<Listener>, AbortHandle)> = Vec::new();
    while let Some(change) = changes.recv().await {
        match change {
            Change::Open(bound) => {
                let threads = threads.clone();
                let hand_over = move |accepted: Accepted| {
                    // Fails only after the drain, when the connection is dropped.
                    let _ = threads[accepted.admitted.thread()].send(accepted);
                };
                let listener = Arc::clone(&bound.listener);
                let handle =
                    listeners.spawn(listener::accept(bound, Arc::clone(&shared), hand_over));
                open.push((listener, handle));
            }
            Change::Close(closed) => open.retain(|(listener, handle)| {
                let is_other = !Arc::ptr_eq(listener, &closed);
                if !is_other {
                    handle.abort();
                }
                is_other
            }),
        }
    }
}
