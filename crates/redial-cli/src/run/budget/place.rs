//! Finds and opens the file of a budget. In a directory that other users can write to, a name may lead anywhere, so both
//! the directory and the file are checked.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use super::record::is_ours;

/// The budget that a call shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A budget of the user, in Redial's own directory.
    Named(String),
    /// A file at a path.
    File(PathBuf),
}

impl Place {
    /// The default budget of a program.
    pub(crate) fn of_program(program: &OsStr) -> Self {
        let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
        Self::Named(name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(100).collect())
    }

    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Ok(Self::File(text.into()));
        }
        let is_name = !text.is_empty() && text.len() <= 100 && text.chars().all(is_plain);
        is_name.then(|| Self::Named(text.to_owned())).ok_or_else(|| {
            "must be a name of letters, digits, `-`, `_` and `+`, the path of a file (with a `/`), redis://host#FLEET, or none".to_owned()
        })
    }

    /// Opens the file, or creates it. Returns its path too.
    pub(super) fn open(&self) -> io::Result<(File, PathBuf)> {
        match self {
            Self::File(path) => Ok((open_file(path)?, path.clone())),
            Self::Named(name) => {
                let path = directory()?.join(format!("{name}.budget"));
                Ok((open_file(&path)?, path))
            }
        }
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+')
}

/// The first usable directory: the runtime directory of the session, the state directory of the user, the temporary
/// directory.
fn directory() -> io::Result<PathBuf> {
    let variable =
        |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = || {
        let home = || variable("HOME").map(|home| home.join(".local/state"));
        variable("XDG_STATE_HOME").or_else(home)
    };
    let mut refused = None;
    for base in [variable("XDG_RUNTIME_DIR"), state()].into_iter().flatten() {
        match own_directory(base.join("redial")) {
            Ok(path) => return Ok(path),
            Err(error) => refused = Some(error),
        }
    }
    let last = own_directory(env::temp_dir().join(format!("redial-{}", geteuid())));
    last.map_err(|error| refused.unwrap_or(error))
}

fn own_directory(path: PathBuf) -> io::Result<PathBuf> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
    let found =
        fs::symlink_metadata(&path).map_err(|error| named(&path, made.err().unwrap_or(error)))?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
        let why = "must be a directory that you own and no other user can write to";
        return Err(named(&path, io::Error::other(why)));
    }
    Ok(path)
}

pub(super) const NOT_A_BUDGET: &str =
    "not a budget of this version of redial; the file is left unchanged";

fn open_file(path: &Path) -> io::Result<File> {
    // Opening a device may have side effects.
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file() && !found.is_symlink()) {
        return Err(named(path, io::Error::other("not a regular file")));
    }
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let open = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(path);
    let file = open.map_err(|error| {
        let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
        let link = || io::Error::other("must not be a symbolic link");
        named(path, if is_link { link() } else { error })
    })?;
    let found = file.metadata().map_err(|error| named(path, error))?;
    if !found.is_file() || found.uid() != geteuid().as_raw() {
        return Err(named(path, io::Error::other("must be a file that you own")));
    }
    match is_ours(&file) {
        Ok(true) => Ok(file),
        Ok(false) => Err(named(path, io::Error::other(NOT_A_BUDGET))),
        Err(error) => Err(named(path, error)),
    }
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
