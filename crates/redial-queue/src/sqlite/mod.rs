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

mod claim;
mod enqueue;
mod group;
mod manage;
mod read;
mod row;
mod settle;
mod step;
mod store;

use std::path::Path;

use redial_sqlite::{SqliteFault, SqliteFile};
pub use rusqlite;
use rusqlite::Transaction;

use self::step::Step;
use crate::durable::{Enqueued, NewJob, StoreError};
#[cfg(doc)]
use crate::durable::{Start, Store};

/// Jobs in an SQLite file.
///
/// It has three threads: one writes, one reads, one moves the log into the file. Dropping the store completes the pending
/// requests and waits for the threads.
#[derive(Debug)]
pub struct SqliteStore {
    file: SqliteFile,
}

impl SqliteStore {
    /// Opens the file, or creates it, readable only by its owner.
    ///
    /// # Errors
    ///
    /// It cannot be opened, is not a database, is a database of another application, was created by a newer version, or is
    /// damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Ok(Self { file: SqliteFile::open(path)? })
    }

    /// Opens the database of an application, to keep jobs beside its own tables. The names of our tables start with `redial_`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), except that the database may be another application's.
    pub fn open_beside(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Ok(Self { file: SqliteFile::open_beside(path)? })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
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
        let enqueue = |step: &mut Step<'_>| step.enqueue(queue, jobs);
        Ok(self.file.write_in(transaction, |access| Step::run(access, enqueue))?)
    }

    /// Copies a store, as it is now, to a new file, while processes continue to use it. A plain copy of the file is not enough:
    /// the latest commits are in the log beside it. Jobs that complete after the backup run again in workers that use
    /// the copy, with the same idempotency keys.
    ///
    /// # Errors
    ///
    /// `path` is not a store, or `to` exists or cannot be written.
    pub fn backup(path: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), StoreError> {
        Ok(SqliteFile::backup(path, to)?)
    }

    /// Sets the store's time to the wall clock of this machine, and shifts every other time in the file by as much: the remaining
    /// waits and leases stay the same. Processes that have the file open continue with the new time. Returns the shift in
    /// microseconds; it is negative if the time was set back.
    ///
    /// # Errors
    ///
    /// The file is not a store, or cannot be written.
    pub fn repair_clock(path: impl AsRef<Path>) -> Result<i64, StoreError> {
        Ok(SqliteFile::repair_clock(path)?)
    }

    /// Reads the whole file and returns the inconsistencies found. Takes about a minute for a few gigabytes.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn verify(&self) -> Result<Vec<String>, StoreError> {
        Ok(read::verify(&self.file.connect()?)?)
    }
}

impl From<SqliteFault> for StoreError {
    fn from(fault: SqliteFault) -> Self {
        match fault {
            SqliteFault::Invalid(why) => Self::Invalid(why),
            SqliteFault::Unavailable(cause) => Self::Unavailable(cause),
            SqliteFault::Stop(why) => Self::Stopped(why),
        }
    }
}

/// Of a job that is not valid.
impl From<StoreError> for SqliteFault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(why) => Self::Invalid(why),
            StoreError::Unavailable(cause) => Self::Unavailable(cause),
            StoreError::Stopped(why) => Self::Stop(why),
        }
    }
}
