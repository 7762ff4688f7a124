//! A file that is deleted or replaced stays open in the processes that use it, and everything they write to it from then
//! on is lost when they end. So the store looks whether its files are still in place, before it acknowledges anything.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::fault::Fault;

/// The files of a store, as they were when it was opened.
#[derive(Debug)]
pub(super) struct Presence {
    path: PathBuf,
    file: Option<Identity>,
    log: PathBuf,
    /// Known from the first commit on, which makes the log.
    log_file: Option<Identity>,
}

/// Two paths with the same identity lead to the same file.
type Identity = (u64, u64);

impl Presence {
    /// Of a file that was just opened. Its path is made absolute, as SQLite does.
    pub(super) fn new(path: &Path) -> Self {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut log = path.clone().into_os_string();
        log.push("-wal");
        let file = identity(&path).ok().flatten();
        Self { path, file, log: log.into(), log_file: None }
    }

    /// After a commit: an error if what was written is in a file that no path leads to any more.
    pub(super) fn check(&mut self) -> Result<(), Fault> {
        check(&self.path, &mut self.file)?;
        check(&self.log, &mut self.log_file)
    }
}

fn check(path: &Path, known: &mut Option<Identity>) -> Result<(), Fault> {
    let happened = match (identity(path), &known) {
        (Ok(Some(now)), Some(then)) if now != *then => "replaced",
        (Err(error), Some(_)) if error.kind() == io::ErrorKind::NotFound => "deleted",
        (Ok(now), None) => {
            *known = now;
            return Ok(());
        }
        _ => return Ok(()),
    };
    Err(Fault::Stop(format!(
        "the file {} was {happened} while it was in use; stop every process that uses the store, restore a backup, then \
         open it again",
        path.display()
    )))
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Option<Identity>> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).map(|file| Some((file.dev(), file.ino())))
}

/// Other systems do not let go of a file that is open.
#[cfg(not(unix))]
fn identity(_: &Path) -> io::Result<Option<Identity>> {
    Ok(None)
}
