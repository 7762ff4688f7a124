//! Jobs have to survive the process, without a server to set up: a store in an SQLite file.
//!
//! # Durability
//!
//! Each step is on the disk when it returns: SQLite's write-ahead log with `synchronous=FULL`. One thread writes, and commits
//! all requests that have arrived meanwhile together, so that many workers share one `fsync`. When the disk is full or
//! fails, or the file is damaged, the store has [stopped](StoreError::Stopped): nothing is tried again, and everything that it
//! has acknowledged is there when it is opened again.
//!
//! # Several processes
//!
//! Processes on one machine can share a file: workers, and `redial queue add`. Each sees the jobs of the others within about
//! 25 ms. An application can have its own tables in the file and [enqueue jobs in its own
//! transactions](SqliteStore::enqueue_in).
//!
//! # Time
//!
//! The store has a time of its own, which never goes backwards. It starts with the wall clock when the file is created. While a
//! process has the file open, the time advances by that process's monotonic clock. From one process to the next it advances by
//! the uptime of the machine, which is saved in the file. A wall clock that is set, or wrong in one process, therefore changes
//! no wait and no lease. Only after a restart of the machine, and on systems without an uptime, the wall clock decides how much
//! time has passed; if it is behind, none has.
//!
//! The store's time ([`Store::time`]) and the wall clock may therefore differ. A job that starts [at a time of day](Start::At)
//! starts at that time by the wall clock of the process that enqueued it. When the two differ by more than a week, or by the wall
//! clock the machine was off for more than a year, one of them is wrong and the file is not opened: set the clock, or shift the
//! store's times with [`SqliteStore::repair_clock`] (`redial queue clock --repair`).

mod backup;
mod changes;
mod checkpoint;
mod claim;
mod enqueue;
mod fault;
mod files;
mod group;
#[cfg(feature = "idempotency")]
mod idempotency;
mod manage;
mod open;
mod read;
mod row;
mod saved_time;
mod settle;
mod step;
mod store;
mod store_time;
mod task;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

pub use rusqlite;
use rusqlite::{Connection, Transaction};

use self::changes::Changes;
use self::checkpoint::{CheckpointLock, Signal};
use self::fault::Fault;
use self::files::Files;
use self::open::Owner;
use self::step::Step;
use self::store_time::Clock;
use self::task::Task;
use self::writer::{Message, Writer};
use crate::durable::{Enqueued, NewJob, StoreError};
#[cfg(doc)]
use crate::durable::{Start, Store};

/// The page caches of the writer and of the other connections.
const WRITER_KIB: u32 = 96 << 10;
const READER_KIB: u32 = 16 << 10;

/// Jobs in an SQLite file.
///
/// It has three threads: one writes, one reads, one moves the log into the file. Dropping the store completes the pending
/// requests and waits for the threads.
pub struct SqliteStore {
    path: PathBuf,
    clock: Arc<Clock>,
    changes: Arc<Changes>,
    writer: Sender<Message>,
    reader: Sender<Option<Box<dyn Task>>>,
    checkpoints: Sender<Signal>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SqliteStore {
    /// Opens the file, or creates it, readable only by its owner.
    ///
    /// # Errors
    ///
    /// It cannot be opened, is not a database, is a database of another application, was created by a newer version, or is
    /// damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::start(path.as_ref(), Owner::Redial)
    }

    /// Opens the database of an application, to keep jobs beside its own tables. The names of our tables start with `redial_`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), except that the database may be another application's.
    pub fn open_beside(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::start(path.as_ref(), Owner::Application)
    }

    fn start(path: &Path, owner: Owner) -> Result<Self, StoreError> {
        let (clock, changes) = (Arc::new(open::prepare(path, owner)?), Arc::new(Changes::new()));
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

    /// Enqueues jobs in the caller's own transaction on the same file: they are committed or rolled back together with its other
    /// changes, with the durability of the caller's connection. Workers of this process and of others are woken. While the
    /// transaction is open the store's own steps wait, for ten seconds at most: keep it short.
    ///
    /// ```
    /// # use redial_queue::durable::NewJob;
    /// # use redial_queue::sqlite::{SqliteStore, rusqlite::Connection};
    /// # let directory = std::env::temp_dir().join(format!("redial-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&directory)?;
    /// # let path = directory.join("shop.db");
    /// let store = SqliteStore::open_beside(&path)?;
    /// let mut shop = Connection::open(&path)?;
    /// shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT)")?;
    ///
    /// let sale = shop.transaction()?;
    /// sale.execute("INSERT INTO orders (what) VALUES ('tea')", [])?;
    /// store.enqueue_in(&sale, "mails", &[NewJob::new("thank you for buying tea")])?;
    /// sale.commit()?;
    /// # drop((store, shop));
    /// # std::fs::remove_dir_all(&directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A job is invalid, the transaction is on another file, or SQLite reports an error: roll the transaction back then.
    pub fn enqueue_in(
        &self,
        transaction: &Transaction<'_>,
        queue: &str,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, StoreError> {
        self.changes.check_running()?;
        let enqueue = || -> Result<_, Fault> {
            let count = "SELECT count(*) FROM main.sqlite_schema WHERE name = 'redial_store'";
            if transaction.query_row(count, [], |row| row.get::<_, i64>(0))? == 0 {
                let why =
                    format!("the transaction is not on the store's file {}", self.path.display());
                return Err(Fault::Request(StoreError::Invalid(why)));
            }
            let now = saved_time::now(transaction, &self.clock)?;
            let mut step = Step::new(transaction, now);
            let enqueued = step.enqueue(queue, jobs)?;
            step.finish()?;
            Ok(enqueued)
        };
        enqueue().map_err(Fault::into_error)
    }

    /// Copies a store, as it is now, to a new file, while processes continue to use it. A plain copy of the file is not enough:
    /// the latest commits are in the log beside it. Jobs that complete after the backup run again in workers that use
    /// the copy, with the same idempotency keys.
    ///
    /// # Errors
    ///
    /// `path` is not a store, or `to` exists or cannot be written.
    pub fn backup(path: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), StoreError> {
        backup::copy(&open::connect_ours(path.as_ref())?, to.as_ref())
    }

    /// Sets the store's time to the wall clock of this machine, and shifts every other time in the file by as much: the remaining
    /// waits and leases stay the same. Processes that have the file open continue with the new time. Returns the shift in
    /// microseconds; it is negative if the time was set back.
    ///
    /// # Errors
    ///
    /// The file is not a store, or cannot be written.
    pub fn repair_clock(path: impl AsRef<Path>) -> Result<i64, StoreError> {
        saved_time::repair(path.as_ref())
    }

    /// Reads the whole file and returns the inconsistencies found. Takes about a minute for a few gigabytes.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn verify(&self) -> Result<Vec<String>, StoreError> {
        let conn = open::connect(&self.path, READER_KIB)?;
        read::verify(&conn).map_err(Fault::into_error)
    }
}

fn read(conn: &Connection, clock: &Clock, changes: &Changes, mut task: Box<dyn Task>) {
    if task.is_wanted() {
        let read = task.run(&mut Step::new(conn, clock.now()));
        if let Err(Fault::Stop(why)) = &read {
            changes.stop(why);
        }
        task.reply(read.map_err(Fault::into_error));
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map_err(fault::unavailable)
}

/// Completes the pending requests first.
impl Drop for SqliteStore {
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

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}
