//! A commit goes to the log first, and a checkpoint moves it into the file. If the writer did all of this itself, every request
//! would wait for it: settlements took 70 ms. So another thread does most of it while the writer continues. But the writer keeps
//! appending meanwhile, so the log would never become empty and start from its beginning. Therefore the thread repeats until
//! little is left, and the writer moves the rest between two commits. If the log still gets too long, because more is written
//! than the disk can take, the writer moves it itself, and requests wait.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use crate::changes::ChangeCounts;
use crate::fault::SqliteFault;
use crate::task::Message;

/// The log is moved into the file from this many pages on.
const LONG: i64 = 4000;

/// The writer moves the log itself from this many pages on, so that it does not grow without bound.
const TOO_LONG: i64 = 32_000;

/// This many pages can be left to the writer.
const LITTLE: i64 = 256;

/// After this many rounds the rest is left to the writer, however much it is.
const ROUNDS: usize = 8;

/// A message to the checkpoint thread.
pub(crate) enum Signal {
    /// The log has grown.
    Checkpoint,
    /// The store is being closed.
    Close,
}

/// The number of pages in the log, and how many of them are in the file as well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    pages: i64,
    moved: i64,
}

impl Log {
    pub(crate) fn is_long(self) -> bool {
        self.pages >= LONG
    }

    pub(crate) fn is_too_long(self) -> bool {
        self.pages >= TOO_LONG
    }
}

/// Held during a checkpoint: SQLite allows one at a time, and a second one would fail instead of waiting.
pub(crate) type CheckpointLock = Mutex<()>;

/// Moves the part of the log into the file that no reader needs any more.
pub(crate) fn move_log(conn: &Connection, lock: &CheckpointLock) -> Result<Log, SqliteFault> {
    let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
    log(conn, "PASSIVE")
}

/// Runs a checkpoint; with the mode `NOOP`, only returns the size of the log.
pub(crate) fn log(conn: &Connection, mode: &str) -> Result<Log, SqliteFault> {
    let mut checkpoint = conn.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?;
    Ok(checkpoint.query_row([], |row| Ok(Log { pages: row.get(1)?, moved: row.get(2)? }))?)
}

/// Runs until the store is closed or stops. After a disk failure the log must stay as it is: it has the pages that did not get
/// into the file.
pub(crate) fn run(
    conn: &Connection,
    signals: &Receiver<Signal>,
    writer: &Sender<Message>,
    changes: &ChangeCounts,
    lock: &CheckpointLock,
) {
    while let Ok(Signal::Checkpoint) = signals.recv() {
        if signals.try_iter().any(|signal| matches!(signal, Signal::Close)) {
            return;
        }
        let running = changes.check_running();
        if let Err(SqliteFault::Stop(why)) = running.and_then(|()| shorten(conn, lock)) {
            changes.stop(&why);
            return;
        }
        if writer.send(Message::Flush).is_err() {
            return;
        }
    }
}

/// Moves the log until little is left, or no progress is made.
fn shorten(conn: &Connection, lock: &CheckpointLock) -> Result<(), SqliteFault> {
    let mut rest = i64::MAX;
    for _ in 0..ROUNDS {
        let moved = move_log(conn, lock)?.moved;
        let left = log(conn, "NOOP")?.pages.saturating_sub(moved);
        if left <= LITTLE || left >= rest {
            break;
        }
        rest = left;
    }
    Ok(())
}
