//! The file and the threads that use it: SQLite blocks, and callers must not.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, Transaction};

use crate::access::Access;
use crate::changes::ChangeCounts;
use crate::checkpoint::{self, CheckpointLock, Signal};
use crate::fault::{SqliteFault, unavailable};
use crate::files::Files;
use crate::open::Owner;
use crate::store_time::Clock;
use crate::task::{Message, Task, task};
use crate::writer::Writer;
use crate::{backup, open, saved_time};

/// The page caches of the writer and of the other connections.
const WRITER_KIB: u32 = 96 << 10;
const READER_KIB: u32 = 16 << 10;

/// An open file.
///
/// It has three threads: one writes, one reads, one moves the log into the file. Dropping it completes the pending
/// requests and waits for the threads.
pub struct SqliteFile {
    path: PathBuf,
    clock: Arc<Clock>,
    changes: Arc<ChangeCounts>,
    writer: Sender<Message>,
    reader: Sender<Option<Box<dyn Task>>>,
    checkpoints: Sender<Signal>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SqliteFile {
    /// Opens the file, or creates it, readable only by its owner.
    ///
    /// # Errors
    ///
    /// It cannot be opened, is not a database, is a database of another application, was created by a newer version, or is
    /// damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SqliteFault> {
        Self::start(path.as_ref(), Owner::Redial)
    }

    /// Opens the database of an application, to keep our tables beside its own. The names of ours start with `redial_`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), except that the database may be another application's.
    pub fn open_beside(path: impl AsRef<Path>) -> Result<Self, SqliteFault> {
        Self::start(path.as_ref(), Owner::Application)
    }

    fn start(path: &Path, owner: Owner) -> Result<Self, SqliteFault> {
        let clock = Arc::new(open::prepare(path, owner)?);
        let changes = Arc::new(ChangeCounts::new());
        let ((to_writer, messages), (to_reader, tasks)) = (channel(), channel());
        let (checkpoints, signals) = channel();
        let checkpoint_lock = Arc::<CheckpointLock>::default();
        let writer = Writer::new(
            open::connect(path, WRITER_KIB)?,
            Files::new(path),
            clock.clone(),
            changes.clone(),
            checkpoints.clone(),
            checkpoint_lock.clone(),
        );
        let reader = open::connect(path, READER_KIB)?;
        let checkpointer = open::connect(path, READER_KIB)?;
        let (now, flush) = (clock.clone(), to_writer.clone());
        let (reads, checks) = (changes.clone(), changes.clone());
        // In the order in which they end: the writer closes the file.
        let threads = vec![
            spawn("redial-read", move || {
                while let Ok(Some(task)) = tasks.recv() {
                    read(&reader, &now, &reads, task);
                }
            })?,
            spawn("redial-checkpoint", move || {
                checkpoint::run(&checkpointer, &signals, &flush, &checks, &checkpoint_lock);
            })?,
            spawn("redial-write", move || writer.run(&messages))?,
        ];
        Ok(Self {
            path: path.to_owned(),
            clock,
            changes,
            writer: to_writer,
            reader: to_reader,
            checkpoints,
            threads: Mutex::new(threads),
        })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends a request to the writer's thread. It is committed when the future is ready.
    pub fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Access<'_>) -> Result<T, SqliteFault> + Send + 'static,
    ) -> impl Future<Output = Result<T, SqliteFault>> + Send {
        let (task, reply) = task(work);
        let sent = self.writer.send(Message::Do(task));
        async move {
            sent.map_err(|_| closed())?;
            reply.await.map_err(|_| closed())?
        }
    }

    /// Sends a request to the reader's thread.
    pub fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Access<'_>) -> Result<T, SqliteFault> + Send + 'static,
    ) -> impl Future<Output = Result<T, SqliteFault>> + Send {
        let (task, reply) = task(work);
        let running = self.changes.check_running();
        let sent = running.and_then(|()| self.reader.send(Some(task)).map_err(|_| closed()));
        async move {
            sent?;
            reply.await.map_err(|_| closed())?
        }
    }

    /// Executes a request in the caller's own transaction on the same file.
    ///
    /// # Errors
    ///
    /// The store has stopped, the transaction is on another file, or the request fails.
    pub fn write_in<T>(
        &self,
        transaction: &Transaction<'_>,
        work: impl FnOnce(&mut Access<'_>) -> Result<T, SqliteFault>,
    ) -> Result<T, SqliteFault> {
        self.changes.check_running()?;
        let count = "SELECT count(*) FROM main.sqlite_schema WHERE name = 'redial_store'";
        if transaction.query_row(count, [], |row| row.get::<_, i64>(0))? == 0 {
            let why = format!("the transaction is not on the store's file {}", self.path.display());
            return Err(SqliteFault::Invalid(why));
        }
        let now = saved_time::now(transaction, &self.clock)?;
        work(&mut Access::new(transaction, now))
    }

    /// The changes of each queue so far.
    pub fn changes(&self) -> Arc<ChangeCounts> {
        self.changes.clone()
    }

    /// Waits until the number of changes of a queue differs from `seen`.
    ///
    /// # Errors
    ///
    /// The store has stopped.
    pub async fn changed(&self, queue: &str, seen: u64) -> Result<(), SqliteFault> {
        let on_wait = || {
            // A writer that has ended has stopped the store, which ends the wait.
            let _ = self.writer.send(Message::Poll);
        };
        self.changes.changed(queue, seen, on_wait).await
    }

    /// Another connection to the file.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn connect(&self) -> Result<Connection, SqliteFault> {
        open::connect(&self.path, READER_KIB)
    }

    /// Copies a store, as it is now, to a new file, while processes continue to use it.
    ///
    /// # Errors
    ///
    /// `path` is not a store, or `to` exists or cannot be written.
    pub fn backup(path: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), SqliteFault> {
        backup::copy(&open::connect_ours(path.as_ref())?, to.as_ref())
    }

    /// Sets the store's time to the wall clock of this machine, and shifts every other time in the file by as much. Returns the
    /// shift in microseconds.
    ///
    /// # Errors
    ///
    /// The file is not a store, or cannot be written.
    pub fn repair_clock(path: impl AsRef<Path>) -> Result<i64, SqliteFault> {
        let path = path.as_ref();
        saved_time::repair(&open::connect_ours(path)?).map_err(|fault| open::with_path(path, fault))
    }
}

fn closed() -> SqliteFault {
    SqliteFault::Stop("its threads have ended; open it again".to_owned())
}

fn read(conn: &Connection, clock: &Clock, changes: &ChangeCounts, mut task: Box<dyn Task>) {
    if task.is_wanted() {
        let read = task.run(&mut Access::new(conn, clock.now()));
        if let Err(SqliteFault::Stop(why)) = &read {
            changes.stop(why);
        }
        task.reply(read);
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, SqliteFault> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map_err(unavailable)
}

/// Completes the pending requests first.
impl Drop for SqliteFile {
    fn drop(&mut self) {
        // Sending fails if the thread has ended already.
        let _ = self.checkpoints.send(Signal::Close);
        let _ = self.reader.send(None);
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        let writer = threads.pop();
        for thread in threads.drain(..) {
            let _ = thread.join();
        }
        let _ = self.writer.send(Message::Close);
        let _ = writer.map(JoinHandle::join);
    }
}

impl fmt::Debug for SqliteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteFile").field("path", &self.path).finish_non_exhaustive()
    }
}
