//! What is committed is in the log first and has to get into the file at some time. When the writer does that itself,
//! everybody waits: it showed as settlements of 70 ms. So another thread does most of it, while the writer goes on; but
//! then the writer has always put something behind it, and the log never starts anew. Therefore the thread repeats until
//! little is left, and the writer does this rest between two commits.

use std::sync::mpsc::{Receiver, Sender};

use rusqlite::Connection;

use super::bell::Bell;
use super::fault::Fault;
use super::writer::Message;

/// The log is looked at once in so many commits.
pub(super) const EVERY: u32 = 16;

/// From so many pages on the log is moved into the file.
const LONG: i64 = 4000;

/// So much can be left to the writer.
const LITTLE: i64 = 256;

/// After so many times the rest is the writer's however much it is: the log must not grow without bound.
const ROUNDS: usize = 8;

/// What the checkpointer is told.
pub(super) enum Due {
    /// The log has grown.
    Soon,
    /// Never again.
    Close,
}

/// How many pages are in the log, and how many of them are in the file as well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    pages: i64,
    moved: i64,
}

impl Log {
    pub(super) fn is_long(self) -> bool {
        self.pages >= LONG
    }
}

/// A checkpoint.
pub(super) fn log(conn: &Connection, mode: &str) -> Result<Log, Fault> {
    let mut checkpoint = conn.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?;
    Ok(checkpoint.query_row([], |row| Ok(Log { pages: row.get(1)?, moved: row.get(2)? }))?)
}

/// Until it is closed. When the disk has failed, the log has to stay as it is: it has what did not get into the file.
pub(super) fn run(conn: &Connection, due: &Receiver<Due>, writer: &Sender<Message>, bell: &Bell) {
    while let Ok(Due::Soon) = due.recv() {
        if due.try_iter().any(|due| matches!(due, Due::Close)) {
            return;
        }
        if let Err(Fault::Stop(why)) =
            bell.stopped().map_err(Fault::from).and_then(|()| shorten(conn))
        {
            bell.stop(&why);
            return;
        }
        if writer.send(Message::Flush).is_err() {
            return;
        }
    }
}

/// Until little is left, or it gets no less.
fn shorten(conn: &Connection) -> Result<(), Fault> {
    let mut rest = i64::MAX;
    for _ in 0..ROUNDS {
        let moved = log(conn, "PASSIVE")?.moved;
        let left = log(conn, "NOOP")?.pages.saturating_sub(moved);
        if left <= LITTLE || left >= rest {
            break;
        }
        rest = left;
    }
    Ok(())
}
