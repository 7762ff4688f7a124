//! A file that is deleted or replaced stays open in the processes that use it, and everything they write to it from then
//! on is lost when they end. So the store checks that its files are still in place before it acknowledges anything.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::fault::SqliteFault;

/// The identities of a store's files when they were first checked: the database, its log, and the index of the log, through which
/// processes see each other's commits. The last two are known from the first check on, when our connection has opened them.
#[derive(Debug)]
pub(crate) struct Files([(PathBuf, Option<Identity>); 3]);

/// The device and inode: two paths with the same identity lead to the same file.
type Identity = (u64, u64);

impl Files {
    /// The files of a database that was just opened. Its path is made absolute, as SQLite does.
    pub(crate) fn new(path: &Path) -> Self {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Self(["", "-wal", "-shm"].map(|suffix| {
            let mut name = path.clone().into_os_string();
            name.push(suffix);
            let file = PathBuf::from(name);
            let known = if suffix.is_empty() { identity(&file).ok().flatten() } else { None };
            (file, known)
        }))
    }

    /// Called after the file was used. An error if a file was deleted or replaced since the first check.
    pub(crate) fn check(&mut self) -> Result<(), SqliteFault> {
        self.0.iter_mut().try_for_each(|(path, known)| check(path, known))
    }
}

fn check(path: &Path, known: &mut Option<Identity>) -> Result<(), SqliteFault> {
    let event = match (identity(path), &known) {
        (Ok(Some(now)), Some(then)) if now != *then => "replaced",
        (Err(error), Some(_)) if error.kind() == io::ErrorKind::NotFound => "deleted or moved",
        (Ok(now), None) => {
            *known = now;
            return Ok(());
        }
        _ => return Ok(()),
    };
    Err(SqliteFault::Stop(format!(
        "the file {} was {event} while it was in use; stop every process that uses the store, restore a backup, then \
         open it again",
        path.display()
    )))
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Option<Identity>> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).map(|file| Some((file.dev(), file.ino())))
}

/// Other systems do not delete or replace a file that is open.
#[cfg(not(unix))]
fn identity(_: &Path) -> io::Result<Option<Identity>> {
    Ok(None)
}
