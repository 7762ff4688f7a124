//! A worker that has nothing to do must hear of a job that another machine enqueues, without asking all the time.
//!
//! Whoever puts something into a queue tells it with NOTIFY, and each process that waits has one connection that listens. To
//! notify inside of the transaction would make every commit wait for the one before it, because the server takes a lock from
//! there to the end of the commit. So we notify after the commit, one at a time, for all that came meanwhile. What can get lost is
//! a notification, never a wake-up: whoever waits looks again when the listening connection is new, and every few seconds.

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

use super::pool::{Pool, Wire};

/// After this long a waiting worker looks again, whatever it has heard.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How long to wait after the engine has given up connecting.
const REST: Duration = Duration::from_secs(1);

/// What has changed in which queue.
pub(super) struct Changes {
    /// Tells our own notifications from those of others.
    me: String,
    channel: String,
    /// Changes so far of the queues that somebody here has asked about.
    marks: Mutex<HashMap<String, watch::Sender<u64>>>,
    to_tell: Mutex<ToTell>,
    /// The last ticket that was told. Who holds it is telling.
    told: AsyncMutex<u64>,
}

#[derive(Default)]
struct ToTell {
    queues: BTreeSet<String>,
    ticket: u64,
}

/// The task that listens, once somebody waits. It ends with this.
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
    /// Listens from now on.
    pub(super) fn start(&self, changes: &Arc<Changes>, pool: &Arc<Pool>) {
        let mut running = lock(&self.0);
        if running.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (changes, pool) = (Arc::clone(changes), Arc::clone(pool));
        let task = tokio::spawn(async move {
            loop {
                if let Ok((client, wire)) = pool.retry().run(|_| pool.connect()).await {
                    changes.hear(&client, wire).await;
                }
                sleep(REST).await;
            }
        });
        *running = Some(task.abort_handle());
    }
}

impl Changes {
    pub(super) fn new(schema: &str) -> Self {
        Self {
            me: Key::fresh().to_string(),
            channel: format!("redial_{schema}"),
            marks: Mutex::default(),
            to_tell: Mutex::default(),
            told: AsyncMutex::new(0),
        }
    }

    /// The channel, and what a transaction says on it whose end only the server knows: it is nobody's, so we hear it too.
    pub(super) fn message(&self, queue: &str) -> (&str, String) {
        (&self.channel, format!(" {queue}"))
    }

    /// How far a claim that begins now will have seen.
    pub(super) fn now(&self, queue: &str) -> u64 {
        *self.mark(queue).borrow()
    }

    /// Ends when there are other changes than those that were seen.
    pub(super) async fn changed(&self, queue: &str, seen: u64) {
        let mut count = self.mark(queue).subscribe();
        // Past the time it ends without a reason.
        let _ = timeout(LOOK_AGAIN, count.wait_for(|count| *count != seen)).await;
    }

    /// Tells everybody, here and elsewhere, that there is something new. It is done already, so nothing here is an error.
    pub(super) async fn tell(&self, pool: &Pool, queues: &[String]) {
        if queues.is_empty() {
            return;
        }
        queues.iter().for_each(|queue| self.bump(queue));
        let ticket = {
            let mut to_tell = lock(&self.to_tell);
            to_tell.queues.extend(queues.iter().cloned());
            to_tell.ticket += 1;
            to_tell.ticket
        };
        let mut told = self.told.lock().await;
        if *told >= ticket {
            return;
        }
        let (queues, last) = {
            let mut to_tell = lock(&self.to_tell);
            (std::mem::take(&mut to_tell.queues), to_tell.ticket)
        };
        let quoted = |text: &str| text.replace('\'', "''");
        let one = |queue: &String| {
            format!("select pg_notify('{}', '{} {}');", self.channel, self.me, quoted(queue))
        };
        let all: String = queues.iter().map(one).collect();
        // A notification does not outlive the server anyway, so nothing has to reach the disk.
        let text = format!("begin; set local synchronous_commit = off; {all} commit");
        let _ = pool.run(&text).await;
        *told = last;
    }

    fn mark(&self, queue: &str) -> watch::Sender<u64> {
        lock(&self.marks).entry(queue.to_owned()).or_default().clone()
    }

    fn bump(&self, queue: &str) {
        if let Some(mark) = lock(&self.marks).get(queue) {
            mark.send_modify(|count| *count += 1);
        }
    }

    fn bump_all(&self) {
        lock(&self.marks).values().for_each(|mark| mark.send_modify(|count| *count += 1));
    }

    /// Listens until the connection ends.
    async fn hear(&self, client: &Client, mut wire: Wire) {
        let listen = format!("listen {}", self.channel);
        let mut asking = pin!(client.batch_execute(&listen));
        let mut listens = false;
        let mut next = async || {
            poll_fn(|context| {
                if !listens && asking.as_mut().poll(context).is_ready() {
                    listens = true;
                    // Nobody knows what was said while nobody listened.
                    self.bump_all();
                }
                wire.poll_message(context)
            })
            .await
        };
        while let Some(Ok(message)) = next().await {
            let AsyncMessage::Notification(heard) = message else { continue };
            match heard.payload().split_once(' ') {
                Some((who, _)) if who == self.me => {}
                Some((_, queue)) => self.bump(queue),
                // Somebody who does not know our form has something to say.
                None => self.bump_all(),
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
