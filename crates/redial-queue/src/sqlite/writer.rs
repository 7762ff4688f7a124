//! A commit costs one `fsync`, however much is in it. So there is one thread that writes; it takes whatever requests have
//! come while it was busy, does them all in one transaction, and answers when they are on the disk. Each request is in a
//! savepoint of its own: one that fails takes nobody with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::ask::Task;
use super::bell::Bell;
use super::checkpoint::{self, Due, Gate};
use super::clock::Clock;
use super::fault::Fault;
use super::mark;
use super::presence::Presence;
use super::step::Step;
use crate::durable::StoreError;

/// The most requests in one commit.
const MOST: usize = 512;

/// How often the file is looked at for what other processes have put into it, while somebody waits for that.
const LOOK: Duration = Duration::from_millis(25);

/// What the writer is told.
pub(super) enum Message {
    /// Do this.
    Do(Box<dyn Task>),
    /// Somebody waits for changes.
    Look,
    /// Little is left in the log that is not in the file: move it, so that the log starts anew.
    Flush,
    /// Do what has come before, and end.
    Close,
}

/// Has the only connection of this process that writes.
pub(super) struct Writer {
    conn: Connection,
    presence: Presence,
    clock: Arc<Clock>,
    bell: Arc<Bell>,
    checkpoints: Sender<Due>,
    names: HashMap<i64, Box<str>>,
    /// As `PRAGMA data_version` last was: it changes when somebody else has written.
    version: i64,
    gate: Arc<Gate>,
}

/// A request and what has come of it so far.
type Pending = (Box<dyn Task>, Result<(), StoreError>);

impl Writer {
    pub(super) fn new(
        conn: Connection,
        presence: Presence,
        clock: Arc<Clock>,
        bell: Arc<Bell>,
        checkpoints: Sender<Due>,
        gate: Arc<Gate>,
    ) -> Self {
        let (names, version) = (HashMap::new(), 0);
        Self { conn, presence, clock, bell, checkpoints, names, version, gate }
    }

    /// Until it is closed, or nobody is left who could ask for anything.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let first = if self.bell.is_awaited() {
                messages.recv_timeout(LOOK)
            } else {
                messages.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            let mut closes = false;
            let mut tasks = Vec::new();
            let mut flushes = false;
            let mut sort = |message| match message {
                Message::Do(task) => tasks.push(task),
                Message::Look => {}
                Message::Flush => flushes = true,
                Message::Close => closes = true,
            };
            match first {
                Ok(message) => sort(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.close(),
            }
            messages.try_iter().take(MOST - 1).for_each(sort);
            if tasks.is_empty() {
                self.look();
            } else {
                self.work(tasks);
            }
            if flushes {
                self.flush();
            }
            if closes {
                return self.close();
            }
        }
    }

    /// Moves the log into the file, unless that cannot be trusted any more.
    fn close(self) {
        if self.bell.stopped().is_ok() {
            let moves = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            // If it does not, the log is read by whoever opens the file next.
            let _ = self.conn.set_db_config(moves, false);
            let _ = self.conn.close();
        }
    }

    fn stop(&self, why: &str) {
        self.bell.stop(why);
    }

    /// Whether somebody else has written, outside of a transaction.
    fn look(&mut self) {
        if self.bell.stopped().is_ok()
            && let Err(Fault::Stop(why)) = self.notice().and_then(|()| self.presence.check())
        {
            self.stop(&why);
        }
    }

    fn notice(&mut self) -> Result<(), Fault> {
        let mut select = self.conn.prepare_cached("PRAGMA data_version")?;
        let version = select.query_row([], |row| row.get(0))?;
        if std::mem::replace(&mut self.version, version) != version {
            self.bell.ring_all();
        }
        Ok(())
    }

    /// Does requests, all in one commit, and answers them.
    fn work(&mut self, tasks: Vec<Box<dyn Task>>) {
        let wanted = tasks.into_iter().filter(|task| task.is_wanted());
        let mut pending: Vec<Pending> = wanted.map(|task| (task, Ok(()))).collect();
        let done = match self.bell.stopped() {
            Ok(()) => self.commit(&mut pending),
            Err(error) => Err(error.into()),
        };
        match done {
            Ok(()) => {
                for (task, fate) in pending {
                    task.answer(fate);
                }
                self.checkpoint();
            }
            Err(fault) => {
                self.roll_back();
                if let Fault::Stop(why) = &fault {
                    self.stop(why);
                }
                for (task, _) in pending {
                    task.answer(Err(again(&fault)));
                }
            }
        }
    }

    fn commit(&mut self, pending: &mut [Pending]) -> Result<(), Fault> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.notice()?;
        let now = mark::now(&self.conn, &self.clock)?;
        let mut rung = Vec::new();
        for (task, fate) in pending {
            match self.request(&mut **task, now) {
                Ok(queues) => rung.extend(queues),
                Err(Fault::Request(error)) => *fate = Err(error),
                Err(fault) => return Err(fault),
            }
        }
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        self.presence.check()?;
        rung.sort_unstable();
        rung.dedup();
        for queue in rung {
            self.ring(queue)?;
        }
        Ok(())
    }

    /// One request. Says in which queues there may be something new to claim.
    fn request(&self, task: &mut dyn Task, now: i64) -> Result<Vec<i64>, Fault> {
        self.conn.prepare_cached("SAVEPOINT request")?.execute([])?;
        let mut step = Step::new(&self.conn, now);
        let done = task.run(&mut step).and_then(|()| step.finish());
        if let Err(Fault::Request(_)) = &done {
            self.conn.prepare_cached("ROLLBACK TO request")?.execute([])?;
        }
        if let Ok(()) | Err(Fault::Request(_)) = &done {
            self.conn.prepare_cached("RELEASE request")?.execute([])?;
        }
        done.map(|()| step.rung)
    }

    fn ring(&mut self, queue: i64) -> Result<(), Fault> {
        if !self.names.contains_key(&queue) {
            let sql = "SELECT name FROM redial_queue WHERE id = ?1";
            let name: String =
                self.conn.prepare_cached(sql)?.query_row([queue], |row| row.get(0))?;
            self.names.insert(queue, name.into());
        }
        self.names.get(&queue).into_iter().for_each(|name| self.bell.ring(name));
        Ok(())
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit() {
            // The store has stopped, or the transaction has ended with the error.
            let _ = self.conn.execute_batch("ROLLBACK");
        }
    }

    /// Tells the checkpointer when the log has grown.
    fn checkpoint(&self) {
        match checkpoint::log(&self.conn, "NOOP") {
            Ok(log) if log.is_too_long() => self.flush(),
            // Without a checkpointer the store is being closed.
            Ok(log) if log.is_long() => drop(self.checkpoints.send(Due::Soon)),
            _ => {}
        }
    }

    fn flush(&self) {
        if self.bell.stopped().is_ok()
            && let Err(Fault::Stop(why)) = checkpoint::move_log(&self.conn, &self.gate)
        {
            self.stop(&why);
        }
    }
}

/// The same, for everybody who has asked.
fn again(fault: &Fault) -> StoreError {
    match fault {
        Fault::Stop(why) => StoreError::Stopped(why.clone()),
        Fault::Request(error) => super::fault::unavailable(error.to_string()),
    }
}
