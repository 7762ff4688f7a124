//! Withheld output has to be stored, and a command may print more than fits into memory. It is in memory up to a bound,
//! and beyond that in an unnamed file, so that nothing is left behind.

use std::env;
use std::fs::File;
use std::io::{self, Read as _, Write as _};

use crate::process::unnamed_file;

/// The most bytes of each stream that are kept in memory.
const IN_MEMORY: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Spool {
    head: Vec<u8>,
    rest: Option<File>,
    /// The position of the next byte for [`Spool::read`].
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
            let why = format!("cannot store output in {}: {error}", directory.display());
            io::Error::new(error.kind(), why)
        })
    }

    fn write_rest(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.rest {
            Some(file) => file,
            none => none.insert(unnamed_file()?),
        };
        file.write_all(bytes)
    }

    /// Starts reading from the beginning. Nothing may be written afterwards.
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
