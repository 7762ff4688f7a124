//! The data folder: the queue's store, the page's token, and a lock, because two processes with one folder would both work
//! its queue and answer for one token.

use std::env;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::process;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use redial_queue::sqlite::SqliteStore;
use redial_web::Token;

use crate::failed::Failed;

pub(super) struct Data {
    folder: PathBuf,
}

/// Held for as long as the process uses the folder.
pub(super) struct Lock(#[expect(dead_code, reason = "dropping it releases the lock")] Flock<File>);

impl Data {
    /// The folder of the arguments, or that of the user. It is created if it does not exist.
    pub(super) fn open(folder: Option<&PathBuf>) -> Result<Self, Failed> {
        let folder = match folder {
            Some(folder) => folder.clone(),
            None => default_folder().ok_or_else(|| {
                Failed::Input("no data folder: HOME is not set; use --data DIR".to_owned())
            })?,
        };
        let data = Self { folder };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&data.folder);
        made.map_err(|error| data.wrong(&error))?;
        Ok(data)
    }

    /// Keeps other processes out.
    pub(super) fn lock(&self) -> Result<Lock, Failed> {
        let path = self.folder.join("lock");
        let mut open = OpenOptions::new();
        open.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = open.open(path).map_err(|error| self.wrong(&error))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut file) => {
                // For the message of the next process; without it there is none.
                let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", process::id()));
                Ok(Lock(file))
            }
            Err((mut file, Errno::EWOULDBLOCK)) => {
                let mut owner = String::new();
                // Only for the message.
                let _ = file.read_to_string(&mut owner);
                let folder = self.folder.display();
                let owner = owner.trim();
                Err(Failed::Input(format!(
                    "{folder}: another `redial up` uses this folder (process {owner}): stop it, or use --data DIR"
                )))
            }
            Err((_, error)) => Err(self.wrong(&error.into())),
        }
    }

    pub(super) fn token(&self) -> Result<Token, Failed> {
        let path = self.folder.join("token");
        Token::in_file(&path).map_err(|error| Failed::input(path.display(), error))
    }

    pub(super) fn store_path(&self) -> PathBuf {
        self.folder.join("queue.db")
    }

    pub(super) fn store(&self) -> Result<SqliteStore, Failed> {
        let path = self.store_path();
        SqliteStore::open(&path).map_err(|error| Failed::input(path.display(), error))
    }

    fn wrong(&self, error: &io::Error) -> Failed {
        let folder = self.folder.display();
        Failed::Input(format!("{folder}: cannot use this data folder: {error}; use --data DIR"))
    }
}

/// The user's state folder (XDG base directories).
fn default_folder() -> Option<PathBuf> {
    let of = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")))?;
    Some(state.join("redial"))
}
