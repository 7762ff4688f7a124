//! Files for the input and output of commands.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;

use redial::Key;

/// A temporary file that is deleted when it is closed.
pub(crate) fn unnamed_file() -> io::Result<File> {
    let path = env::temp_dir().join(format!("redial-{}", Key::fresh()));
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}
