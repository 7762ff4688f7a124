//! An idle worker must learn of a job that another machine enqueues, without polling.
//!
//! A process that adds jobs to a queue sends a NOTIFY, and each process that waits has one connection that listens. A NOTIFY
//! inside of the transaction would serialise all commits, because the server holds a lock from there to the end of the commit. So
//! notifications are sent after the commit, one statement at a time, for all changes since the last one. A notification can get
//! lost, but not a wake-up: a waiting worker looks again when the listening connection is replaced, and every few seconds.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redial::Key;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};

use super::pool::{Driver, Pool};

/// A waiting worker looks again after this long, with or without a notification.
const POLL: Duration = Duration::from_secs(5);
/// How long to wait before listening again, when a connection has ended or could not be opened.
const PAUSE: Duration = Duration::from_secs(1);

/// Counts the changes of queues, and exchanges notifications about them with other processes.
pub(super) struct Changes {
    /// Tells our own notifications from others.
    sender: String,
    channel: String,
    /// Changes so far, for the queues that this process claims from.
    counts: Mutex<HashMap<String, watch::Sender<u64>>>,
    unsent: Mutex<Unsent>,
    /// The last ticket that was sent. The lock is held while sending.
    sent: AsyncMutex<u64>,
}

#[derive(Default)]
struct Unsent {
    queues: BTreeSet<String>,
    ticket: u64,
}

/// The task that listens, started by the first wait. Dropping this ends it.
#[derive(Default)]
pub(super) struct Listener(Mutex<Option<AbortHandle>>);

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.0).take() {
            task.abort();
        }
    }
}

impl Listener {
    /// Starts listening, unless it does already.
    pub(super) fn start(&self, changes: &Arc<Changes>, pool: &Arc<Pool>) {
        let mut running = lock(&self.0);
        if running.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (changes, pool) = (Arc::clone(changes), Arc::clone(pool));
        let task = tokio::spawn(async move {
            loop {
                if let Some((client, driver)) = pool.connect_unpooled().await {
                    changes.listen(&client, driver).await;
                }
                sleep(PAUSE).await;
            }
        });
        *running = Some(task.abort_handle());
    }
}

impl Changes {
    pub(super) fn new(schema: &str) -> Self {
        Self {
            sender: Key::fresh().to_string(),
            channel: format!("redial_{schema}"),
            counts: Mutex::default(),
            unsent: Mutex::default(),
            sent: AsyncMutex::new(0),
        }
    }

    /// The channel and payload of a notification that is part of a user's transaction. It names no sender, so that this process
    /// receives it too: only the server knows when the transaction ends.
    pub(super) fn message(&self, queue: &str) -> (&str, String) {
        (&self.channel, format!(" {queue}"))
    }

    /// The changes that a claim which begins now will have seen.
    pub(super) fn now(&self, queue: &str) -> u64 {
        *self.count(queue).borrow()
    }

    /// Waits until the number of changes differs from `seen`. May return earlier.
    pub(super) async fn changed(&self, queue: &str, seen: u64) {
        let mut count = self.count(queue).subscribe();
        let _ = timeout(POLL, count.wait_for(|count| *count != seen)).await;
    }

    /// Notifies this process and the others of changes. The changes are committed already, so errors are ignored.
    pub(super) async fn notify(&self, pool: &Pool, queues: &[String]) {
        if queues.is_empty() {
            return;
        }
        queues.iter().for_each(|queue| self.bump(queue));
        let ticket = {
            let mut unsent = lock(&self.unsent);
            unsent.queues.extend(queues.iter().cloned());
            unsent.ticket += 1;
            unsent.ticket
        };
        let mut sent = self.sent.lock().await;
        if *sent >= ticket {
            return;
        }
        let (queues, last) = {
            let mut unsent = lock(&self.unsent);
            (std::mem::take(&mut unsent.queues), unsent.ticket)
        };
        let quoted = |text: &str| text.replace('\'', "''");
        let one = |queue: &String| {
            format!("select pg_notify('{}', '{} {}');", self.channel, self.sender, quoted(queue))
        };
        let all: String = queues.iter().map(one).collect();
        // A notification does not survive a crash of the server, so nothing has to reach the disk.
        let text = format!("begin; set local synchronous_commit = off; {all} commit");
        let _ = pool.execute(&text).await;
        *sent = last;
    }

    fn count(&self, queue: &str) -> watch::Sender<u64> {
        lock(&self.counts).entry(queue.to_owned()).or_default().clone()
    }

    fn bump(&self, queue: &str) {
        if let Some(count) = lock(&self.counts).get(queue) {
            count.send_modify(|count| *count += 1);
        }
    }

    fn bump_all(&self) {
        lock(&self.counts).values().for_each(|count| count.send_modify(|count| *count += 1));
    }

    /// Listens until the connection ends.
    async fn listen(&self, client: &Client, mut driver: Driver) {
        let listen = format!("listen {}", self.channel);
        let mut starting = pin!(client.batch_execute(&listen));
        let mut started = false;
        let mut next = async || {
            poll_fn(|context| {
                if !started && starting.as_mut().poll(context).is_ready() {
                    started = true;
                    // Notifications from before are lost.
                    self.bump_all();
                }
                driver.poll_message(context)
            })
            .await
        };
        while let Some(Ok(message)) = next().await {
            let AsyncMessage::Notification(notification) = message else { continue };
            match notification.payload().split_once(' ') {
                Some((sender, _)) if sender == self.sender => {}
                Some((_, queue)) => self.bump(queue),
                // Not a payload of ours: any queue may have changed.
                None => self.bump_all(),
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
