//! A commit costs one `fsync`, however much is in it. So one thread writes: it takes all requests that arrived while it was
//! busy, executes them in one transaction, and replies when they are on the disk. Each request has a savepoint of its own, so
//! that one that fails does not affect the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::changes::Changes;
use super::checkpoint::{self, CheckpointLock, Signal};
use super::fault::{Fault, unavailable};
use super::files::Files;
use super::saved_time;
use super::step::Step;
use super::store_time::Clock;
use super::task::Task;
use crate::durable::StoreError;

/// The most requests in one commit.
const MAX_COMMITTED_REQUESTS: usize = 512;

/// How often the file is checked for commits of other processes, while a worker waits for changes.
const POLL: Duration = Duration::from_millis(25);

/// A message to the writer.
pub(super) enum Message {
    /// Execute a request.
    Do(Box<dyn Task>),
    /// A worker has started to wait for changes.
    Poll,
    /// Move the rest of the log into the file, so that the log starts from its beginning.
    Flush,
    /// Execute the requests before this one, and end.
    Close,
}

/// Owns the only connection of this process that writes.
pub(super) struct Writer {
    conn: Connection,
    files: Files,
    clock: Arc<Clock>,
    changes: Arc<Changes>,
    checkpoints: Sender<Signal>,
    names: HashMap<i64, Box<str>>,
    /// The last `PRAGMA data_version`: it changes when another connection has written.
    version: i64,
    checkpoint_lock: Arc<CheckpointLock>,
}

/// A request and its result so far.
type Pending = (Box<dyn Task>, Result<(), StoreError>);

impl Writer {
    pub(super) fn new(
        conn: Connection,
        files: Files,
        clock: Arc<Clock>,
        changes: Arc<Changes>,
        checkpoints: Sender<Signal>,
        checkpoint_lock: Arc<CheckpointLock>,
    ) -> Self {
        let (names, version) = (HashMap::new(), 0);
        Self { conn, files, clock, changes, checkpoints, names, version, checkpoint_lock }
    }

    /// Runs until it is closed, or every sender is dropped.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let first = if self.changes.has_waiters() {
                messages.recv_timeout(POLL)
            } else {
                messages.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            let mut closes = false;
            let mut tasks = Vec::new();
            let mut flushes = false;
            let mut sort = |message| match message {
                Message::Do(task) => tasks.push(task),
                Message::Poll => {}
                Message::Flush => flushes = true,
                Message::Close => closes = true,
            };
            match first {
                Ok(message) => sort(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.close(),
            }
            messages.try_iter().take(MAX_COMMITTED_REQUESTS - 1).for_each(sort);
            if tasks.is_empty() {
                self.poll();
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

    /// Moves the log into the file, unless the store has stopped.
    fn close(self) {
        if self.changes.check_running().is_ok() {
            let no_checkpoint = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            // If this fails, the next process that opens the file reads the log.
            let _ = self.conn.set_db_config(no_checkpoint, false);
            let _ = self.conn.close();
        }
    }

    fn stop(&self, why: &str) {
        self.changes.stop(why);
    }

    /// Checks outside of a transaction whether another process has written.
    fn poll(&mut self) {
        if self.changes.check_running().is_ok()
            && let Err(Fault::Stop(why)) = self.check_version().and_then(|()| self.files.check())
        {
            self.stop(&why);
        }
    }

    fn check_version(&mut self) -> Result<(), Fault> {
        let mut select = self.conn.prepare_cached("PRAGMA data_version")?;
        let version = select.query_row([], |row| row.get(0))?;
        if std::mem::replace(&mut self.version, version) != version {
            self.changes.bump_all();
        }
        Ok(())
    }

    /// Executes requests in one commit, and replies to them.
    fn work(&mut self, tasks: Vec<Box<dyn Task>>) {
        let wanted = tasks.into_iter().filter(|task| task.is_wanted());
        let mut pending: Vec<Pending> = wanted.map(|task| (task, Ok(()))).collect();
        let done = match self.changes.check_running() {
            Ok(()) => self.commit(&mut pending),
            Err(error) => Err(error.into()),
        };
        match done {
            Ok(()) => {
                for (task, result) in pending {
                    task.reply(result);
                }
                self.checkpoint();
            }
            Err(fault) => {
                self.roll_back();
                if let Fault::Stop(why) = &fault {
                    self.stop(why);
                }
                for (task, _) in pending {
                    task.reply(Err(copy(&fault)));
                }
            }
        }
    }

    fn commit(&mut self, pending: &mut [Pending]) -> Result<(), Fault> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.check_version()?;
        let now = saved_time::now(&self.conn, &self.clock)?;
        let mut changed = Vec::new();
        for (task, result) in pending {
            match self.request(&mut **task, now) {
                Ok(queues) => changed.extend(queues),
                Err(Fault::Request(error)) => *result = Err(error),
                Err(fault) => return Err(fault),
            }
        }
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        self.files.check()?;
        changed.sort_unstable();
        changed.dedup();
        for queue in changed {
            self.bump(queue)?;
        }
        Ok(())
    }

    /// Executes one request. Returns the queues in which there may be something new to claim.
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
        done.map(|()| step.changed)
    }

    fn bump(&mut self, queue: i64) -> Result<(), Fault> {
        if !self.names.contains_key(&queue) {
            let sql = "SELECT name FROM redial_queue WHERE id = ?1";
            let name: String =
                self.conn.prepare_cached(sql)?.query_row([queue], |row| row.get(0))?;
            self.names.insert(queue, name.into());
        }
        self.names.get(&queue).into_iter().for_each(|name| self.changes.bump(name));
        Ok(())
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit() {
            // If this fails, the error has ended the transaction, or the store has stopped.
            let _ = self.conn.execute_batch("ROLLBACK");
        }
    }

    /// Starts a checkpoint when the log has grown.
    fn checkpoint(&self) {
        match checkpoint::log(&self.conn, "NOOP") {
            Ok(log) if log.is_too_long() => self.flush(),
            // Sending fails only while the store is being closed.
            Ok(log) if log.is_long() => drop(self.checkpoints.send(Signal::Checkpoint)),
            _ => {}
        }
    }

    fn flush(&self) {
        if self.changes.check_running().is_ok()
            && let Err(Fault::Stop(why)) = checkpoint::move_log(&self.conn, &self.checkpoint_lock)
        {
            self.stop(&why);
        }
    }
}

/// The same error for another caller.
fn copy(fault: &Fault) -> StoreError {
    match fault {
        Fault::Stop(why) => StoreError::Stopped(why.clone()),
        Fault::Request(error) => unavailable(error.to_string()),
    }
}
