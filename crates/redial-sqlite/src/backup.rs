//! The latest commits are in the log beside the file, so a copy of the file alone is outdated, and looks consistent.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::fault::{SqliteFault, unavailable};

/// Copies the database of this connection, as it is now, to a new file. The copy gets its name when it is complete and on the
/// disk.
pub(crate) fn copy(from: &Connection, to: &Path) -> Result<(), SqliteFault> {
    let cannot =
        |error: io::Error| SqliteFault::Invalid(format!("cannot write {}: {error}", to.display()));
    if to.symlink_metadata().is_ok() {
        let why = format!("{} exists already; choose a new file", to.display());
        return Err(SqliteFault::Invalid(why));
    }
    let mut part = to.to_owned().into_os_string();
    part.push(format!(".{}.part", std::process::id()));
    let part = Part(part.into());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&part.0).map_err(cannot)?;
    fill(from, &part.0)?;
    File::open(&part.0).and_then(|file| file.sync_all()).map_err(cannot)?;
    fs::rename(&part.0, to).map_err(cannot)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))
        .and_then(|folder| folder.sync_all())
        .map_err(cannot)
}

/// Copies in one step, which reads a single snapshot and does not block writers.
fn fill(from: &Connection, to: &Path) -> Result<(), SqliteFault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut to = Connection::open_with_flags(to, flags)?;
    match Backup::new(from, &mut to)?.step(-1)? {
        StepResult::Done => Ok(()),
        other => Err(unavailable(format!("the backup was not completed: {other:?}"))),
    }?;
    // Without a log the copy is a single file. The store turns the log on again when it is opened.
    to.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0))?;
    to.close().map_err(|(_, error)| error.into())
}

/// An incomplete file, which is removed on drop unless it was renamed.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
