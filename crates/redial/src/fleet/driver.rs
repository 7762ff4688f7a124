//! The background thread of a fleet. It has its own runtime, so that it also works for blocking callers and while the
//! program's runtime is busy.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use redial_core::fleet::Grant;
use redial_core::{Deadline, Span, Time};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{timeout, timeout_at};

use super::error::LedgerError;
use super::event::FleetEvent;
use super::handle::Shared;
use super::sync::{LedgerSync, Pause, Step, SyncRequest};
use crate::clock::{Clock, Monotonic, Tokio};

pub(super) fn start(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let driver = Driver {
        shared: Arc::clone(shared),
        ledgers: HashMap::new(),
        joined: 0,
        pause: Pause::new(),
        done: Arc::default(),
        unconfirmed: 0,
    };
    thread::Builder::new().name("redial-fleet".to_owned()).spawn(move || run(runtime, driver))
}

fn run(runtime: Runtime, driver: Driver) {
    runtime.block_on(driver.run());
    // A DNS lookup cannot be interrupted: do not wait for it.
    runtime.shutdown_background();
}

struct Driver {
    shared: Arc<Shared>,
    ledgers: HashMap<u64, LedgerSync>,
    /// How many ledgers have joined; the last identifier.
    joined: u64,
    /// The pause of the connection, and so of all ledgers.
    pause: Pause,
    done: Arc<Mutex<Vec<Done>>>,
    /// Ledgers that were left without a confirmation from Redis.
    unconfirmed: u64,
}

/// The result of a sync.
struct Done {
    id: u64,
    request: SyncRequest,
    result: Result<Grant, LedgerError>,
}

impl Driver {
    async fn run(mut self) {
        let mut ends = Deadline::NONE;
        loop {
            let now = Monotonic::now();
            let closing = self.take_inbox();
            self.take_done(now);
            let wake = self.step(now);
            if closing {
                ends = ends.min((now + Span::from(self.shared.config.timeout) * 2).into());
                if self.ledgers.is_empty() || ends.is_over(now) {
                    break;
                }
            }
            self.wait(wake.min(ends)).await;
        }
        self.unconfirmed += self.ledgers.len() as u64;
        self.ledgers.values().for_each(LedgerSync::end);
        self.shared.inbox().confirmed = self.unconfirmed == 0;
    }

    /// Waits until `wake`, or until a retry needs a lease, a sync is done or the inbox has an entry.
    async fn wait(&self, wake: Deadline) {
        let notified = self.shared.driver.notified();
        match wake.time().and_then(Tokio::instant) {
            Some(wake) => drop(timeout_at(wake, notified).await),
            None => notified.await,
        }
    }

    /// Returns whether the fleet is closing.
    fn take_inbox(&mut self) -> bool {
        let mut inbox = self.shared.inbox();
        let (joined, left) = (std::mem::take(&mut inbox.joined), std::mem::take(&mut inbox.left));
        let closing = inbox.closing;
        drop(inbox);
        for joined in joined {
            self.joined += 1;
            self.ledgers.insert(self.joined, LedgerSync::new(joined));
        }
        for (ledger, guards) in left {
            let sync = self.ledgers.values_mut().find(|it| Arc::ptr_eq(&it.ledger, &ledger));
            sync.into_iter().for_each(|sync| sync.leave(Some(Arc::clone(&guards))));
        }
        if closing {
            self.ledgers.values_mut().for_each(|sync| sync.leave(None));
        }
        closing
    }

    /// Makes one step for each ledger. Returns when the next one is due.
    fn step(&mut self, now: Time) -> Deadline {
        let Self { shared, ledgers, pause, done, unconfirmed, .. } = self;
        let mut wake = Deadline::NONE;
        ledgers.retain(|id, sync| match sync.step(pause, now) {
            Step::Wait(until) => {
                wake = wake.min(until);
                true
            }
            Step::Sync(request) => {
                let (shared, done) = (Arc::clone(shared), Arc::clone(done));
                let (id, key) = (*id, sync.ledger.key.clone());
                tokio::spawn(async move {
                    let result = call(&shared, &key, &request).await;
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push(Done { id, request, result });
                    shared.driver.notify_one();
                });
                true
            }
            Step::Left { confirmed } => {
                *unconfirmed += u64::from(!confirmed);
                false
            }
        });
        wake
    }

    fn take_done(&mut self, now: Time) {
        let done = std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner));
        let mut events = Vec::new();
        for Done { id, request, result } in done {
            let sync = self.ledgers.get_mut(&id);
            match result {
                Ok(grant) => {
                    self.pause.end();
                    if let Some(sync) = sync {
                        sync.answered(&request, &grant, now, &mut events);
                    }
                }
                Err(error) => {
                    if let Some(sync) = sync {
                        sync.failed(&error, now, &mut events);
                    }
                    if !error.is_of_one_key() {
                        self.pause.extend(now);
                        let all = self.ledgers.values_mut();
                        all.for_each(|sync| sync.disconnect(&error, now, &mut events));
                    }
                }
            }
        }
        events.iter().for_each(|event| self.notify(event));
    }

    /// An observer that panics must not end the fleet. Its panic hook has reported the panic.
    fn notify(&self, event: &FleetEvent) {
        if let Some(observer) = &self.shared.config.observer {
            let _ = catch_unwind(AssertUnwindSafe(|| observer(event)));
        }
    }
}

/// Calls the script in Redis. The calls of several ledgers share the connection and are in flight at the same time.
async fn call(shared: &Shared, key: &str, request: &SyncRequest) -> Result<Grant, LedgerError> {
    let limit = shared.config.timeout;
    let mut open = shared.link.get(limit).await?;
    let mut call = shared.script.key(key);
    call.arg(&request.ask.words()[..]);
    let answer = timeout(limit, call.invoke_async::<Vec<i64>>(&mut open.connection)).await;
    let answer = match answer {
        Ok(Ok(words)) => Grant::from_words(&words)
            .ok_or_else(|| LedgerError::garbage("the script cannot return these numbers")),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(LedgerError::Timeout),
    };
    if answer.as_ref().is_err_and(LedgerError::is_of_connection) {
        shared.link.forget(open.number);
    }
    answer
}
