//! A commit costs one `fsync`, however much is in it. So one thread writes: it takes all requests that arrived while it was
//! busy, executes them in one transaction, and replies when they are on the disk. Each request has a savepoint of its own, so
//! that one that fails does not affect the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::access::Access;
use crate::changes::ChangeCounts;
use crate::checkpoint::{self, CheckpointLock, Signal};
use crate::fault::{SqliteFault, unavailable};
use crate::files::Files;
use crate::saved_time;
use crate::store_time::Clock;
use crate::task::{Message, Task};

/// The most requests in one commit.
const MAX_COMMITTED_REQUESTS: usize = 512;

/// How often the file is checked for commits of other processes, while a worker waits for changes.
const POLL: Duration = Duration::from_millis(25);

/// Owns the only connection of this process that writes.
pub(crate) struct Writer {
    conn: Connection,
    files: Files,
    clock: Arc<Clock>,
    changes: Arc<ChangeCounts>,
    checkpoints: Sender<Signal>,
    names: HashMap<i64, Box<str>>,
    /// The last `PRAGMA data_version`: it changes when another connection has written.
    version: i64,
    checkpoint_lock: Arc<CheckpointLock>,
}

/// A request and its result so far.
type Pending = (Box<dyn Task>, Result<(), SqliteFault>);

impl Writer {
    pub(crate) fn new(
        conn: Connection,
        files: Files,
        clock: Arc<Clock>,
        changes: Arc<ChangeCounts>,
        checkpoints: Sender<Signal>,
        checkpoint_lock: Arc<CheckpointLock>,
    ) -> Self {
        let (names, version) = (HashMap::new(), 0);
        Self { conn, files, clock, changes, checkpoints, names, version, checkpoint_lock }
    }

    /// Runs until it is closed, or every sender is dropped.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) {
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
            && let Err(SqliteFault::Stop(why)) =
                self.check_version().and_then(|()| self.files.check())
        {
            self.stop(&why);
        }
    }

    fn check_version(&mut self) -> Result<(), SqliteFault> {
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
        match self.changes.check_running().and_then(|()| self.commit(&mut pending)) {
            Ok(()) => {
                for (task, result) in pending {
                    task.reply(result);
                }
                self.checkpoint();
            }
            Err(fault) => {
                self.roll_back();
                if let SqliteFault::Stop(why) = &fault {
                    self.stop(why);
                }
                for (task, _) in pending {
                    task.reply(Err(copy(&fault)));
                }
            }
        }
    }

    fn commit(&mut self, pending: &mut [Pending]) -> Result<(), SqliteFault> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.check_version()?;
        let now = saved_time::now(&self.conn, &self.clock)?;
        let mut changed = Vec::new();
        for (task, result) in pending {
            match self.request(&mut **task, now) {
                Ok(queues) => changed.extend(queues),
                Err(fault @ SqliteFault::Stop(_)) => return Err(fault),
                Err(fault) => *result = Err(fault),
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
    fn request(&self, task: &mut dyn Task, now: i64) -> Result<Vec<i64>, SqliteFault> {
        self.conn.prepare_cached("SAVEPOINT request")?.execute([])?;
        let mut access = Access::new(&self.conn, now);
        match task.run(&mut access) {
            Err(fault @ SqliteFault::Stop(_)) => Err(fault),
            Err(fault) => {
                self.conn.prepare_cached("ROLLBACK TO request")?.execute([])?;
                self.conn.prepare_cached("RELEASE request")?.execute([])?;
                Err(fault)
            }
            Ok(()) => {
                self.conn.prepare_cached("RELEASE request")?.execute([])?;
                Ok(access.changed)
            }
        }
    }

    fn bump(&mut self, queue: i64) -> Result<(), SqliteFault> {
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
            && let Err(SqliteFault::Stop(why)) =
                checkpoint::move_log(&self.conn, &self.checkpoint_lock)
        {
            self.stop(&why);
        }
    }
}

/// The same error for another caller.
fn copy(fault: &SqliteFault) -> SqliteFault {
    match fault {
        SqliteFault::Stop(why) => SqliteFault::Stop(why.clone()),
        fault => unavailable(fault.to_string()),
    }
}
