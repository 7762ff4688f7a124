//! The thread of a fleet. It has a runtime of its own, so that it does its work for blocking callers too, and whatever
//! the user's runtime is busy with.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use redial_core::fleet::Answer;
use redial_core::{NEVER, Nanos, nanos};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{timeout, timeout_at};

use super::event::{FleetEvent, Trouble};
use super::handle::Shared;
use super::tended::{Asked, Pause, Step, Tended};
use crate::clock::{Clock, Monotonic, Tokio};

pub(super) fn start(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let driver = Driver {
        shared: Arc::clone(shared),
        tended: HashMap::new(),
        joined: 0,
        pause: Pause::new(),
        done: Arc::default(),
        unheard: 0,
    };
    thread::Builder::new().name("redial-fleet".to_owned()).spawn(move || run(runtime, driver))
}

fn run(runtime: Runtime, driver: Driver) {
    runtime.block_on(driver.run());
    // A host name that is being looked up cannot be interrupted, and nobody waits for it.
    runtime.shutdown_background();
}

struct Driver {
    shared: Arc<Shared>,
    tended: HashMap<u64, Tended>,
    /// Counts the ledgers that joined.
    joined: u64,
    /// That of the connection, and so of all ledgers.
    pause: Pause,
    done: Arc<Mutex<Vec<Done>>>,
    /// Goodbyes that were not heard.
    unheard: u64,
}

/// What came of an ask.
struct Done {
    id: u64,
    asked: Asked,
    result: Result<Answer, Trouble>,
}

impl Driver {
    async fn run(mut self) {
        let mut ends = NEVER;
        loop {
            let now = Monotonic::now();
            let closing = self.take_in();
            self.take_done(now);
            let wake = self.step(now);
            if closing {
                ends = ends.min(now.saturating_add(2 * nanos(self.shared.config.timeout)));
                if self.tended.is_empty() || now >= ends {
                    break;
                }
            }
            self.wait(wake.min(ends)).await;
        }
        self.unheard += self.tended.len() as u64;
        self.tended.values().for_each(Tended::end);
        self.shared.inbox().heard = self.unheard == 0;
    }

    /// Until then, or until the bell rings, an ask is done or the inbox has something.
    async fn wait(&self, wake: Nanos) {
        let rung = self.shared.post.notified();
        match Tokio::instant(wake).filter(|_| wake != NEVER) {
            Some(wake) => drop(timeout_at(wake, rung).await),
            None => rung.await,
        }
    }

    /// Says whether the fleet is to end.
    fn take_in(&mut self) -> bool {
        let mut inbox = self.shared.inbox();
        let (joined, left) = (std::mem::take(&mut inbox.joined), std::mem::take(&mut inbox.left));
        let closing = inbox.closing;
        drop(inbox);
        for joined in joined {
            self.joined += 1;
            self.tended.insert(self.joined, Tended::new(joined));
        }
        for (ledger, guards) in left {
            let tended = self.tended.values_mut().find(|it| Arc::ptr_eq(&it.ledger, &ledger));
            tended.into_iter().for_each(|tended| tended.leave(Some(Arc::clone(&guards))));
        }
        if closing {
            self.tended.values_mut().for_each(|tended| tended.leave(None));
        }
        closing
    }

    /// One step of each ledger. Says when there is more to do.
    fn step(&mut self, now: Nanos) -> Nanos {
        let Self { shared, tended, pause, done, unheard, .. } = self;
        let mut wake = NEVER;
        tended.retain(|id, tended| match tended.step(pause, now) {
            Step::Wait(until) => {
                wake = wake.min(until);
                true
            }
            Step::Ask(asked) => {
                let (shared, done) = (Arc::clone(shared), Arc::clone(done));
                let (id, key) = (*id, tended.ledger.key.clone());
                tokio::spawn(async move {
                    let result = carry(&shared, &key, &asked).await;
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push(Done { id, asked, result });
                    shared.post.notify_one();
                });
                true
            }
            Step::Gone { heard } => {
                *unheard += u64::from(!heard);
                false
            }
        });
        wake
    }

    fn take_done(&mut self, now: Nanos) {
        let done = std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner));
        let mut events = Vec::new();
        for Done { id, asked, result } in done {
            let tended = self.tended.get_mut(&id);
            match result {
                Ok(answer) => {
                    self.pause.end();
                    if let Some(tended) = tended {
                        tended.answered(&asked, &answer, now, &mut events);
                    }
                }
                Err(trouble) => {
                    if let Some(tended) = tended {
                        tended.failed(&trouble, now, &mut events);
                    }
                    if !trouble.is_of_one_key() {
                        self.pause.extend(now);
                        let all = self.tended.values_mut();
                        all.for_each(|tended| tended.cut_off(&trouble, now, &mut events));
                    }
                }
            }
        }
        events.iter().for_each(|event| self.tell(event));
    }

    /// An observer that panics has said so itself, and must not end the fleet.
    fn tell(&self, event: &FleetEvent) {
        if let Some(observer) = &self.shared.config.observer {
            let _ = catch_unwind(AssertUnwindSafe(|| observer(event)));
        }
    }
}

/// To Redis and back. Asks of several ledgers share the connection, and are on their way at the same time.
async fn carry(shared: &Shared, key: &str, asked: &Asked) -> Result<Answer, Trouble> {
    let patience = shared.config.timeout;
    let mut open = shared.link.get(patience).await?;
    let mut call = shared.script.key(key);
    call.arg(&asked.ask.words()[..]);
    let answer = timeout(patience, call.invoke_async::<Vec<i64>>(&mut open.connection)).await;
    let answer = match answer {
        Ok(Ok(words)) => Answer::from_words(&words)
            .ok_or_else(|| Trouble::garbage("the numbers cannot be what the script returns")),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Trouble::Timeout),
    };
    if answer.as_ref().is_err_and(Trouble::is_of_connection) {
        shared.link.forget(open.number);
    }
    answer
}
