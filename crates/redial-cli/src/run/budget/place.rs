//! Where is the file, and is it ours? In a directory that others can write to, a name may lead anywhere.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use super::record::is_ours;

/// Which account a call draws on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// One of the user's, in a directory of ours.
    Named(String),
    /// A file somewhere.
    File(PathBuf),
}

impl Place {
    /// The account of a program, for those who name none.
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
            "a name of letters, digits, `-`, `_` and `+`, the path of a file (with a `/` in it), redis://host#FLEET, or none".to_owned()
        })
    }

    /// Opens it, and makes it if it is not there. Says where it is.
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

/// The first of these that is there: what the session has for such files, what the user has, what everybody has.
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
        let why = "it has to be a directory that belongs to you and that nobody else can write to";
        return Err(named(&path, io::Error::other(why)));
    }
    Ok(path)
}

/// Why a file is refused that has something else in it.
pub(super) const NOT_OURS: &str =
    "it is not a budget of this version of redial, and is left as it is";

fn open_file(path: &Path) -> io::Result<File> {
    // To open a device may already do something.
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file() && !found.is_symlink()) {
        return Err(named(path, io::Error::other("it is not a regular file")));
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
        let link = || io::Error::other("it is a symbolic link, and could lead anywhere");
        named(path, if is_link { link() } else { error })
    })?;
    let found = file.metadata().map_err(|error| named(path, error))?;
    if !found.is_file() || found.uid() != geteuid().as_raw() {
        return Err(named(path, io::Error::other("it has to be a file that belongs to you")));
    }
    match is_ours(&file) {
        Ok(true) => Ok(file),
        Ok(false) => Err(named(path, io::Error::other(NOT_OURS))),
        Err(error) => Err(named(path, error)),
    }
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
