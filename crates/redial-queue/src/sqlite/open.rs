//! A path may lead to anything. What is not a store is left as it is, and said.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::clock::{Clock, Machine, is_patient};
use super::fault::{Fault, unavailable};
use super::mark;
use crate::durable::StoreError;

/// "rdia" in the header of a file that is ours alone.
const APPLICATION: i32 = 0x7264_6961;

/// The version of the tables.
const VERSION: i64 = 3;

/// From version 1, whose mark had no other clocks beside it: the store's time was the wall clock, as far as it knew. The
/// time has another name now, so that a process of the version before cannot write one without the other.
const FROM_1: &str = "ALTER TABLE redial_store RENAME COLUMN clock TO time; \
    ALTER TABLE redial_store ADD COLUMN wall INTEGER NOT NULL DEFAULT 0; \
    ALTER TABLE redial_store ADD COLUMN boot TEXT; \
    ALTER TABLE redial_store ADD COLUMN uptime INTEGER; \
    ALTER TABLE redial_store ADD COLUMN repairs INTEGER NOT NULL DEFAULT 0; \
    UPDATE redial_store SET wall = time, version = 2";

/// From version 2, in which a text in the history told polls from retries. A poll that waits pays once, as a retry does.
const FROM_2: &str = "ALTER TABLE redial_job ADD COLUMN poll INTEGER NOT NULL DEFAULT 0; \
    UPDATE redial_store SET version = 3";

/// Whose file it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Ours, or a new one.
    Us,
    /// That of an application, which has tables of its own in it.
    Others,
}

/// The tables of ours in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tables {
    Missing,
    /// Of this version.
    Old(i64),
    Current,
}

/// Makes the file if there is none, and the tables in it.
pub(super) fn prepare(path: &Path, owner: Owner) -> Result<Clock, StoreError> {
    look(path)?;
    let conn = connect(path, 2000)?;
    let tables = whose(&conn, owner).map_err(|fault| named(path, fault))?;
    let mode: String = conn
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(|error| told(path, error))?;
    if mode != "wal" {
        return Err(invalid(path, "is on a file system on which SQLite has no write-ahead log"));
    }
    let made = if tables == Tables::Current { Ok(()) } else { make(&conn, owner) };
    made.and_then(|()| mark::clock(&conn)).map_err(|fault| named(path, fault))
}

/// A connection to a file that has our tables, whatever time it is in there.
pub(super) fn connect_ours(path: &Path) -> Result<Connection, StoreError> {
    let missing = || invalid(path, "is not a store of Redial");
    if !path.exists() {
        return Err(missing());
    }
    look(path)?;
    let conn = connect(path, 2000)?;
    match whose(&conn, Owner::Others).map_err(|fault| named(path, fault))? {
        Tables::Current => {}
        Tables::Old(_) => make(&conn, Owner::Others).map_err(|fault| named(path, fault))?,
        Tables::Missing => return Err(missing()),
    }
    Ok(conn)
}

/// A connection to a file that is there.
pub(super) fn connect(path: &Path, cache_kib: u32) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let mut conn = Connection::open_with_flags(path, flags)?;
        conn.busy_handler(Some(is_patient))?;
        conn.set_prepared_statement_cache_capacity(96);
        // Plans that depend on values would be made anew for each value.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // Whether the log can be moved is for the writer to know.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
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

/// Which tables are there; an error if they cannot be used, or should not be.
fn whose(conn: &Connection, owner: Owner) -> Result<Tables, Fault> {
    let wrong = |why: String| Err(Fault::Request(StoreError::Invalid(why)));
    let tables = |name: &str| -> rusqlite::Result<i64> {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name LIKE ?1";
        conn.query_row(sql, [name], |row| row.get(0))
    };
    if tables("redial_store")? == 0 {
        let application: i32 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        return match owner {
            Owner::Us if application != 0 || tables("%")? > 0 => wrong(
                "is a database of another application; to keep jobs beside its tables, open it as such"
                    .to_owned(),
            ),
            _ => Ok(Tables::Missing),
        };
    }
    match conn.query_row("SELECT version FROM redial_store", [], |row| row.get(0))? {
        VERSION => Ok(Tables::Current),
        version @ 1..VERSION => Ok(Tables::Old(version)),
        version if version > VERSION => wrong(format!(
            "was made by a newer version of Redial: its tables have version {version}, this one knows {VERSION}"
        )),
        version => wrong(format!("has tables of version {version}, which is unknown")),
    }
}

/// Makes the tables or brings them up to date, unless another process has done so meanwhile.
fn make(conn: &Connection, owner: Owner) -> Result<(), Fault> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let made = whose(conn, owner).and_then(|tables| {
        match tables {
            Tables::Current => {}
            Tables::Old(version) => {
                if version == 1 {
                    conn.execute_batch(FROM_1)?;
                }
                conn.execute_batch(FROM_2)?;
            }
            Tables::Missing => {
                conn.execute_batch(include_str!("schema.sql"))?;
                let sql =
                    "INSERT INTO redial_store (version, time, fence, wall) VALUES (?1, 0, 0, 0)";
                conn.execute(sql, [VERSION])?;
                let machine = Machine::read();
                mark::write(conn, machine.wall, machine)?;
                if owner == Owner::Us {
                    conn.execute_batch(&format!("PRAGMA application_id = {APPLICATION}"))?;
                }
            }
        }
        Ok(())
    });
    conn.execute_batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    made
}

pub(super) fn named(path: &Path, fault: Fault) -> StoreError {
    match fault {
        Fault::Request(StoreError::Invalid(why)) => invalid(path, &why),
        Fault::Request(error) => unavailable(format!("{}: {error}", path.display())),
        Fault::Stop(why) => StoreError::Stopped(format!("{}: {why}", path.display())),
    }
}

fn invalid(path: &Path, why: &str) -> StoreError {
    StoreError::Invalid(format!("{} {why}", path.display()))
}

/// Why the file could not be opened.
fn told(path: &Path, error: rusqlite::Error) -> StoreError {
    named(path, error.into())
}
