//! A path may lead to anything. What is not a store is left as it is, and said.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::clock::{Clock, PATIENCE};
use super::fault::{Fault, unavailable};
use crate::durable::StoreError;

/// "rdia" in the header of a file that is ours alone.
const APPLICATION: i32 = 0x7264_6961;

/// The version of the tables.
const VERSION: i64 = 1;

/// Whose file it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Ours, or a new one.
    Us,
    /// That of an application, which has tables of its own in it.
    Others,
}

/// Makes the file if there is none, and the tables in it.
pub(super) fn prepare(path: &Path, owner: Owner, clock: &Clock) -> Result<(), StoreError> {
    look(path)?;
    let conn = connect(path, 2000)?;
    let mode: String = conn
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(|error| told(path, error))?;
    if mode != "wal" {
        return Err(invalid(path, "is on a file system on which SQLite has no write-ahead log"));
    }
    let made = make(&conn, owner, clock);
    made.map_err(|fault| match fault {
        Fault::Request(StoreError::Invalid(why)) => invalid(path, &why),
        fault => fault.error(),
    })
}

/// A connection to a file that is there.
pub(super) fn connect(path: &Path, cache_kib: u32) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(PATIENCE)?;
        conn.set_prepared_statement_cache_capacity(96);
        conn.execute_batch(&format!(
            "PRAGMA synchronous = FULL; PRAGMA cache_size = -{cache_kib}; PRAGMA temp_store = MEMORY; \
             PRAGMA mmap_size = 0; PRAGMA wal_autocheckpoint = 0; PRAGMA cell_size_check = ON; \
             PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON;"
        ))?;
        Ok(conn)
    };
    open().map_err(|error| told(path, error))
}

/// Whether it can be a database at all; one that is not there is made, for nobody else to read.
fn look(path: &Path) -> Result<(), StoreError> {
    let mut new = OpenOptions::new();
    new.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut new, 0o600);
    let file = match new.open(path) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if fs::metadata(path).is_ok_and(|file| !file.is_file()) {
                return Err(invalid(path, "is not a file"));
            }
            OpenOptions::new().read(true).write(true).open(path)
        }
        Err(error) => Err(error),
    };
    let mut file = file.map_err(|error| invalid(path, &format!("cannot be opened: {error}")))?;
    let mut start = Vec::new();
    let read = Read::by_ref(&mut file).take(100).read_to_end(&mut start);
    read.map_err(|error| invalid(path, &format!("cannot be read: {error}")))?;
    match start.len() {
        0 => Ok(()),
        100 if start.starts_with(b"SQLite format 3\0") => Ok(()),
        _ => Err(invalid(path, "is not an SQLite database")),
    }
}

fn make(conn: &Connection, owner: Owner, clock: &Clock) -> Result<(), Fault> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let made = make_tables(conn, owner, clock);
    conn.execute_batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    made
}

fn make_tables(conn: &Connection, owner: Owner, clock: &Clock) -> Result<(), Fault> {
    let wrong = |why: String| Err(Fault::Request(StoreError::Invalid(why)));
    let tables = |name: &str| -> rusqlite::Result<i64> {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name LIKE ?1";
        conn.query_row(sql, [name], |row| row.get(0))
    };
    let application: i32 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if tables("redial_store")? == 1 {
        let version = conn.query_row("SELECT version FROM redial_store", [], |row| row.get(0));
        return match version {
            Ok(VERSION) => {
                clock.after(super::writer::mark(conn)?);
                Ok(())
            }
            Ok(version @ 2..) => wrong(format!(
                "was made by a newer version of Redial: its tables have version {version}, this one knows {VERSION}"
            )),
            Ok(version) => wrong(format!("has tables of version {version}, which there never was")),
            Err(error) => Err(error.into()),
        };
    }
    if owner == Owner::Us && (application != 0 || tables("%")? > 0) {
        let why =
            "is a database of another application; to keep jobs beside its tables, open it as such";
        return wrong(why.to_owned());
    }
    conn.execute_batch(include_str!("schema.sql"))?;
    let sql = "INSERT INTO redial_store (version, clock, fence) VALUES (?1, ?2, 0)";
    conn.execute(sql, [VERSION, clock.now()])?;
    if owner == Owner::Us {
        conn.execute_batch(&format!("PRAGMA application_id = {APPLICATION}"))?;
    }
    Ok(())
}

fn invalid(path: &Path, why: &str) -> StoreError {
    StoreError::Invalid(format!("{} {why}", path.display()))
}

/// Why the file could not be opened.
fn told(path: &Path, error: rusqlite::Error) -> StoreError {
    match Fault::from(error) {
        Fault::Stop(why) => StoreError::Stopped(format!("{}: {why}", path.display())),
        Fault::Request(error) => unavailable(format!("{}: {error}", path.display())),
    }
}
