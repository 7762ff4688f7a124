//! The threads of the proxy, each with a runtime of its own.
//!
//! The first one also accepts connections, and hands each to the thread that has the fewest: with few callers, the kernel
//! would spread them unevenly.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::listen::{self, Accepted, Bound};
use crate::pool;
use crate::shared::Shared;
use crate::tend;

/// Starts the threads. They end when the drain has ended.
pub(crate) fn start(
    shared: &Arc<Shared>,
    bound: Vec<Bound>,
    drain: Duration,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut senders = Vec::new();
    let mut threads = Vec::new();
    let mut receivers = Vec::new();
    for _ in 0..shared.open.len() {
        let (sender, receiver) = unbounded_channel();
        senders.push(sender);
        receivers.push(receiver);
    }
    let mut first = Some(bound);
    for (number, receiver) in receivers.into_iter().enumerate() {
        let (bound, senders) = (first.take().unwrap_or_default(), senders.clone());
        let shared = Arc::clone(shared);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            pool::enter(number);
            runtime.block_on(run(&shared, bound, senders, receiver, drain));
        };
        threads.push(thread::Builder::new().name(format!("proxy-{number}")).spawn(run)?);
    }
    Ok(threads)
}

/// Runs a thread until the drain has ended.
async fn run(
    shared: &Arc<Shared>,
    bound: Vec<Bound>,
    senders: Vec<UnboundedSender<Accepted>>,
    mut receiver: UnboundedReceiver<Accepted>,
    drain: Duration,
) {
    let mut listeners = JoinSet::new();
    for bound in bound {
        let (senders, shared) = (senders.clone(), Arc::clone(shared));
        let hand_over = move |accepted: Accepted| {
            // Fails only after the drain, when the connection is dropped.
            let _ = senders[accepted.admitted.thread()].send(accepted);
        };
        listeners.spawn(listen::accept(bound, shared, hand_over));
    }
    let connections = Arc::clone(shared);
    tokio::spawn(async move {
        while let Some(accepted) = receiver.recv().await {
            tokio::spawn(accepted.serve(Arc::clone(&connections)));
        }
    });
    tokio::spawn(tend::sweep(Arc::clone(shared)));
    shared.drain.wait().await;
    listeners.shutdown().await;
    // What is still open then is dropped with the runtime.
    let _ = timeout(drain, shared.all_ended()).await;
}
