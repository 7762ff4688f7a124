//! Output that may yet be thrown away has to be somewhere. In memory up to a bound, and beyond that in a file that has no
//! name, so that nothing is lost, nothing is left behind, and a command may print more than there is memory.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use redial::Key;

/// How much of each stream is kept in memory.
const IN_MEMORY: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Spool {
    head: Vec<u8>,
    rest: Option<File>,
    /// Where the next byte for [`Spool::read`] is.
    place: usize,
}

impl Spool {
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (head, rest) = bytes.split_at(bytes.len().min(IN_MEMORY - self.head.len()));
        self.head.extend_from_slice(head);
        if rest.is_empty() {
            return Ok(());
        }
        self.write_rest(rest).map_err(|error| {
            let directory = env::temp_dir();
            let why = format!("output cannot be withheld in {}: {error}", directory.display());
            io::Error::new(error.kind(), why)
        })
    }

    fn write_rest(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.rest {
            Some(file) => file,
            none => none.insert(nameless()?),
        };
        file.write_all(bytes)
    }

    /// Reading starts at the beginning. Nothing can be written after that.
    pub(super) fn rewind(&mut self) -> io::Result<()> {
        self.place = 0;
        self.rest.as_mut().map_or(Ok(()), io::Seek::rewind)
    }

    pub(super) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.place < self.head.len() {
            let n = bytes.len().min(self.head.len() - self.place);
            bytes[..n].copy_from_slice(&self.head[self.place..][..n]);
            self.place += n;
            return Ok(n);
        }
        self.rest.as_mut().map_or(Ok(0), |file| file.read(bytes))
    }
}

/// A file that is gone when it is closed.
pub(crate) fn nameless() -> io::Result<File> {
    let path = env::temp_dir().join(format!("redial-{}", Key::fresh()));
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}
