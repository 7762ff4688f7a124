//! A path may lead to anything. A file that is not a store is not changed, and the error says what it is.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::fault::{SqliteFault, unavailable};
use crate::saved_time;
use crate::store_time::{Clock, MachineClocks, busy_handler};

/// "rdia", the application ID in the header of a file that only Redial uses.
const APPLICATION: i32 = 0x7264_6961;

/// The version of the tables.
const VERSION: i64 = 3;

/// Migrates version 1, which saved the store's time without the machine's clocks: its time was the wall clock. The column of the
/// time is renamed, so that a process of the old version cannot write the time alone.
const FROM_1: &str = "ALTER TABLE redial_store RENAME COLUMN clock TO time; \
    ALTER TABLE redial_store ADD COLUMN wall INTEGER NOT NULL DEFAULT 0; \
    ALTER TABLE redial_store ADD COLUMN boot TEXT; \
    ALTER TABLE redial_store ADD COLUMN uptime INTEGER; \
    ALTER TABLE redial_store ADD COLUMN repairs INTEGER NOT NULL DEFAULT 0; \
    UPDATE redial_store SET wall = time, version = 2";

/// Migrates version 2, in which a text in the history distinguished polls from retries. A poll that waits pays once, as a
/// retry does.
const FROM_2: &str = "ALTER TABLE redial_job ADD COLUMN poll INTEGER NOT NULL DEFAULT 0; \
    UPDATE redial_store SET version = 3";

/// The program that the file may belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A file of Redial alone, or a new one.
    Redial,
    /// The database of an application with tables of its own.
    Application,
}

/// The state of our tables in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tables {
    Missing,
    /// Of this version.
    Old(i64),
    Current,
}

/// Creates the file and its tables, unless they exist.
pub(crate) fn prepare(path: &Path, owner: Owner) -> Result<Clock, SqliteFault> {
    check_file(path)?;
    let conn = connect(path, 2000)?;
    let tables = check_tables(&conn, owner).map_err(|fault| with_path(path, fault))?;
    let mode: String = conn
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(|error| with_path(path, error.into()))?;
    if mode != "wal" {
        return Err(invalid(
            path,
            "is on a file system that does not support SQLite's write-ahead log",
        ));
    }
    let created = if tables == Tables::Current { Ok(()) } else { create_tables(&conn, owner) };
    created.and_then(|()| saved_time::clock(&conn)).map_err(|fault| with_path(path, fault))
}

/// A connection to a file that has our tables, whatever its time is.
pub(crate) fn connect_ours(path: &Path) -> Result<Connection, SqliteFault> {
    let missing = || invalid(path, "is not a Redial store");
    if !path.exists() {
        return Err(missing());
    }
    check_file(path)?;
    let conn = connect(path, 2000)?;
    let owner = Owner::Application;
    match check_tables(&conn, owner).map_err(|fault| with_path(path, fault))? {
        Tables::Current => {}
        Tables::Old(_) => create_tables(&conn, owner).map_err(|fault| with_path(path, fault))?,
        Tables::Missing => return Err(missing()),
    }
    Ok(conn)
}

/// A connection to an existing file.
pub(crate) fn connect(path: &Path, cache_kib: u32) -> Result<Connection, SqliteFault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let mut conn = Connection::open_with_flags(path, flags)?;
        conn.busy_handler(Some(busy_handler))?;
        conn.set_prepared_statement_cache_capacity(96);
        // Plans that depend on values would be prepared again for each value.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // Only the writer knows whether the log may be moved.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        conn.execute_batch(&format!(
            "PRAGMA synchronous = FULL; PRAGMA cache_size = -{cache_kib}; PRAGMA temp_store = MEMORY; \
             PRAGMA mmap_size = 0; PRAGMA wal_autocheckpoint = 0; PRAGMA cell_size_check = ON; \
             PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON;"
        ))?;
        Ok(conn)
    };
    open().map_err(|error| with_path(path, error.into()))
}

/// Checks whether the file can be a database. Creates it if it does not exist, readable only by its owner.
fn check_file(path: &Path) -> Result<(), SqliteFault> {
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

/// The state of our tables; an error if the file must not be used.
fn check_tables(conn: &Connection, owner: Owner) -> Result<Tables, SqliteFault> {
    let wrong = |why: String| Err(SqliteFault::Invalid(why));
    let tables = |name: &str| -> rusqlite::Result<i64> {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name LIKE ?1";
        conn.query_row(sql, [name], |row| row.get(0))
    };
    if tables("redial_store")? == 0 {
        let application: i32 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        return match owner {
            Owner::Redial if application != 0 || tables("%")? > 0 => wrong(
                "is a database of another application; to keep jobs beside its tables, open it with SqliteStore::open_beside"
                    .to_owned(),
            ),
            _ => Ok(Tables::Missing),
        };
    }
    match conn.query_row("SELECT version FROM redial_store", [], |row| row.get(0))? {
        VERSION => Ok(Tables::Current),
        version @ 1..VERSION => Ok(Tables::Old(version)),
        version if version > VERSION => wrong(format!(
            "was created by a newer version of Redial: its tables have version {version}, and this program supports {VERSION}"
        )),
        version => wrong(format!("has tables of an unknown version, {version}")),
    }
}

/// Creates or migrates the tables, unless another process has done so meanwhile.
fn create_tables(conn: &Connection, owner: Owner) -> Result<(), SqliteFault> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let created = check_tables(conn, owner).and_then(|tables| {
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
                let clocks = MachineClocks::read();
                saved_time::write(conn, clocks.wall, clocks)?;
                if owner == Owner::Redial {
                    conn.execute_batch(&format!("PRAGMA application_id = {APPLICATION}"))?;
                }
            }
        }
        Ok(())
    });
    conn.execute_batch(if created.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    created
}

pub(crate) fn with_path(path: &Path, fault: SqliteFault) -> SqliteFault {
    match fault {
        SqliteFault::Invalid(why) => invalid(path, &why),
        SqliteFault::Unavailable(_) => unavailable(format!("{}: {fault}", path.display())),
        SqliteFault::Stop(why) => SqliteFault::Stop(format!("{}: {why}", path.display())),
    }
}

fn invalid(path: &Path, why: &str) -> SqliteFault {
    SqliteFault::Invalid(format!("{} {why}", path.display()))
}
