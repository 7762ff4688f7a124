//! A process that dies takes along what it was about to do, unless that is on a disk. A file is the store that is there
//! without anybody setting it up.
//!
//! # On the disk
//!
//! Each step is in the file when it answers: SQLite's write-ahead log with `synchronous=FULL`. One thread writes, and does
//! all requests that have come meanwhile in one commit, so that many workers share one `fsync`. When the disk is full or
//! says that it has failed, or the file is damaged, the store has [stopped](StoreError::Stopped): nothing is tried again,
//! and what it has acknowledged is there when it is opened anew.
//!
//! # Several processes
//!
//! can use a file at once, on one machine: workers, and `redial queue add`. Each notices what others have put into it
//! within some 25 ms. An application can have its own tables in the file and [enqueue jobs in its own
//! transactions](SqliteStore::enqueue_in).
//!
//! # Time
//!
//! is the store's own, and never goes backwards. It starts with the wall clock when the file is made, and goes on by itself
//! while a process has the file open. From one process to the next it goes on by the uptime of the machine, which the file
//! keeps beside it, so that a wall clock that is set, or wrong in one process, changes no wait and no lease. Only after a
//! restart of the machine, and on systems that do not tell their uptime, the wall clock says how much time has passed; one
//! that is behind means none.
//!
//! The store's time and the wall clock may therefore differ ([`Store::time`] tells). A job that starts
//! [at a time of day](Start::At) starts at that time by the clock of the process that enqueued it. When the two differ by more
//! than a week, or the wall clock claims that a machine was off for more than a year, the file is not opened, because one
//! of them is wrong: set the clock, or move the store's times with [`SqliteStore::repair_clock`] (`redial queue clock
//! --repair`).

mod ask;
mod backup;
mod bell;
mod checkpoint;
mod claim;
mod clock;
mod enqueue;
mod fault;
#[cfg(feature = "idempotency")]
mod idempotency;
mod manage;
mod mark;
mod open;
mod presence;
mod read;
mod row;
mod settle;
mod step;
mod store;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

pub use rusqlite;
use rusqlite::{Connection, Transaction};

use self::ask::Task;
use self::bell::Bell;
use self::checkpoint::{Due, Gate};
use self::clock::Clock;
use self::fault::Fault;
use self::open::Owner;
use self::presence::Presence;
use self::step::Step;
use self::writer::{Message, Writer};
use crate::durable::{Enqueued, NewJob, StoreError};
#[cfg(doc)]
use crate::durable::{Start, Store};

/// How much of the file the writer and the others keep in memory.
const WRITER_KIB: u32 = 96 << 10;
const READER_KIB: u32 = 16 << 10;

/// Jobs in an SQLite file.
///
/// All is on threads of its own: one writes, one reads, one moves the log into the file. Dropping the store does what was
/// asked before and waits for them.
pub struct SqliteStore {
    path: PathBuf,
    clock: Arc<Clock>,
    bell: Arc<Bell>,
    writer: Sender<Message>,
    reader: Sender<Option<Box<dyn Task>>>,
    checkpoints: Sender<Due>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SqliteStore {
    /// Opens the file, or makes it, readable for nobody else.
    ///
    /// # Errors
    ///
    /// It cannot be opened, is no database, is a database of another application, was made by a newer version, or is
    /// damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::start(path.as_ref(), Owner::Us)
    }

    /// Opens the database of an application, to keep jobs beside its own tables. The names of ours start with `redial_`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), but that it is another application's is what is meant.
    pub fn open_beside(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::start(path.as_ref(), Owner::Others)
    }

    fn start(path: &Path, owner: Owner) -> Result<Self, StoreError> {
        let (clock, bell) = (Arc::new(open::prepare(path, owner)?), Arc::new(Bell::new()));
        let ((to_writer, messages), (to_reader, tasks)) = (channel(), channel());
        let (checkpoints, due) = channel();
        let gate = Arc::<Gate>::default();
        let conn = open::connect(path, WRITER_KIB)?;
        let presence = Presence::new(path);
        let (writer_clock, writer_bell) = (clock.clone(), bell.clone());
        let writer = Writer::new(
            conn,
            presence,
            writer_clock,
            writer_bell,
            checkpoints.clone(),
            gate.clone(),
        );
        let reader = open::connect(path, READER_KIB)?;
        let checkpointer = open::connect(path, READER_KIB)?;
        let (now, flush) = (clock.clone(), to_writer.clone());
        let (reads, checks) = (bell.clone(), bell.clone());
        // In the order in which they end: the writer closes the file.
        let threads = vec![
            spawn("redial-read", move || {
                while let Ok(Some(task)) = tasks.recv() {
                    read(&reader, &now, &reads, task);
                }
            })?,
            spawn("redial-checkpoint", move || {
                checkpoint::run(&checkpointer, &due, &flush, &checks, &gate);
            })?,
            spawn("redial-write", move || writer.run(&messages))?,
        ];
        Ok(Self {
            path: path.to_owned(),
            clock,
            bell,
            writer: to_writer,
            reader: to_reader,
            checkpoints,
            threads: Mutex::new(threads),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts jobs into a queue inside of the caller's own transaction, which has to be on the same file: they are there if
    /// it is committed, together with whatever else it does, and as safe on the disk as the caller's connection makes it.
    /// Workers of this process and others notice. While the transaction is open the store's own steps wait, for ten
    /// seconds at most: keep it short.
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
    /// A job is too large, the transaction is on another file, or SQLite says no: then it is to be rolled back.
    pub fn enqueue_in(
        &self,
        transaction: &Transaction<'_>,
        queue: &str,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, StoreError> {
        self.bell.stopped()?;
        let enqueue = || -> Result<_, Fault> {
            let there = "SELECT count(*) FROM main.sqlite_schema WHERE name = 'redial_store'";
            if transaction.query_row(there, [], |row| row.get::<_, i64>(0))? == 0 {
                let why =
                    format!("the transaction is not on the store's file {}", self.path.display());
                return Err(Fault::Request(StoreError::Invalid(why)));
            }
            let now = mark::now(transaction, &self.clock)?;
            let mut step = Step::new(transaction, now);
            let enqueued = step.enqueue(queue, jobs)?;
            step.finish()?;
            Ok(enqueued)
        };
        enqueue().map_err(Fault::error)
    }

    /// Copies a store, as it is now, to a new file, while others go on using it. A plain copy of the file will not do:
    /// what was committed last is in the log beside it. Jobs that are done later are done again by workers that are given the
    /// copy, with the same idempotency keys.
    ///
    /// # Errors
    ///
    /// The first is not a store, or there is a file with the name of the second, or it cannot be written.
    pub fn backup(path: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), StoreError> {
        backup::copy(&open::connect_ours(path.as_ref())?, to.as_ref())
    }

    /// Sets the store's time to the wall clock of this machine, and moves every other time in the file along: each wait and
    /// each lease has as long to go as before. Processes that have the file open go on with the new time. Returns by how
    /// much the time was moved forward; a negative number of microseconds is back.
    ///
    /// # Errors
    ///
    /// The file is not a store, or cannot be written.
    pub fn repair_clock(path: impl AsRef<Path>) -> Result<i64, StoreError> {
        mark::repair(path.as_ref())
    }

    /// Reads the whole file and looks whether it is sound; says what is not. Takes as long as reading takes: a minute for
    /// a few gigabytes.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn verify(&self) -> Result<Vec<String>, StoreError> {
        let conn = open::connect(&self.path, READER_KIB)?;
        read::verify(&conn).map_err(Fault::error)
    }
}

fn read(conn: &Connection, clock: &Clock, bell: &Bell, mut task: Box<dyn Task>) {
    if task.is_wanted() {
        let read = task.run(&mut Step::new(conn, clock.now()));
        if let Err(Fault::Stop(why)) = &read {
            bell.stop(why);
        }
        task.answer(read.map_err(Fault::error));
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map_err(fault::unavailable)
}

/// What was asked before is done first.
impl Drop for SqliteStore {
    fn drop(&mut self) {
        // A thread that is gone needs no word.
        let _ = self.checkpoints.send(Due::Close);
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
