//! A pipe can be read once. A second attempt that finds it empty, or half read, does something else than the first,
//! and may succeed at it. So what was read is kept and given to every attempt, and if it is too much to keep, there is no
//! second one.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::process::{ChildStdin, Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::PollFlags;

use super::wait::is_for_later;

/// What the attempts get to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// Pass a terminal or a device on, rewind a file, keep what comes through a pipe
    Auto,
    /// Keep what is read, whatever it is read from; a file is rewound
    Replay,
    /// Keep nothing: no retry after the command may have read something
    Refuse,
    /// Nothing
    None,
}

pub(super) enum Stdin {
    Nothing,
    /// The command has our own.
    Passed,
    /// The command has our own, a file, and every attempt starts at the same place.
    Rewound {
        file: File,
        start: u64,
        refuse: bool,
    },
    Kept(Tape),
}

/// What was read of a pipe so far.
pub(super) struct Tape {
    source: File,
    kept: Vec<u8>,
    limit: usize,
    /// More than the limit was read, so that nothing is kept any more.
    spilled: bool,
    ended: bool,
}

impl Stdin {
    pub(super) fn open(mode: Mode, limit: usize) -> io::Result<Self> {
        if mode == Mode::None {
            return Ok(Self::Nothing);
        }
        let mut file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let kind = file.metadata()?.file_type();
        let refuse = mode == Mode::Refuse;
        if kind.is_file()
            && let Ok(start) = file.stream_position()
        {
            return Ok(Self::Rewound { file, start, refuse });
        }
        let is_device = file.is_terminal() || kind.is_char_device() || kind.is_block_device();
        if mode != Mode::Replay && is_device {
            return Ok(Self::Passed);
        }
        let limit = if refuse { 0 } else { limit };
        let (kept, spilled, ended) = (Vec::new(), false, false);
        Ok(Self::Kept(Tape { source: file, kept, limit, spilled, ended }))
    }

    /// Connects a command that is about to be started.
    pub(super) fn connect(&mut self, command: &mut Command) -> io::Result<()> {
        let how = match self {
            Self::Nothing => Stdio::null(),
            Self::Kept(_) => Stdio::piped(),
            Self::Passed => Stdio::inherit(),
            Self::Rewound { file, start, .. } => {
                file.seek(SeekFrom::Start(*start))?;
                Stdio::inherit()
            }
        };
        command.stdin(how);
        Ok(())
    }

    /// Whether another attempt would get what this one got.
    pub(super) fn is_repeatable(&mut self) -> bool {
        match self {
            Self::Rewound { file, start, refuse: true } => {
                file.stream_position().is_ok_and(|place| place == *start)
            }
            Self::Kept(tape) => !tape.spilled,
            Self::Nothing | Self::Passed | Self::Rewound { .. } => true,
        }
    }

    /// What has to be pumped into a command that was started.
    pub(super) fn feed(&mut self, to: Option<ChildStdin>) -> io::Result<Option<Feed<'_>>> {
        let (Self::Kept(tape), Some(to)) = (self, to) else { return Ok(None) };
        fcntl(&to, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Some(Feed { tape, to, passing: Vec::new(), place: 0 }))
    }
}

/// The input of one attempt.
pub(super) struct Feed<'a> {
    tape: &'a mut Tape,
    to: ChildStdin,
    /// What is written now, if it is not on the tape.
    passing: Vec<u8>,
    /// How much of the tape, or else of `passing`, was written.
    place: usize,
}

impl Feed<'_> {
    fn pending(&self) -> &[u8] {
        let all = if self.tape.spilled { &self.passing } else { &self.tape.kept };
        &all[self.place..]
    }

    /// Another writing end of the command's input.
    pub(super) fn input(&self) -> io::Result<OwnedFd> {
        self.to.as_fd().try_clone_to_owned()
    }

    /// What it waits for. The command's end is watched even when there is nothing for it, because it may be closed.
    pub(super) fn wants(&self) -> (BorrowedFd<'_>, PollFlags, Option<BorrowedFd<'_>>) {
        let is_idle = self.pending().is_empty();
        let flags = if is_idle { PollFlags::empty() } else { PollFlags::POLLOUT };
        (self.to.as_fd(), flags, is_idle.then(|| self.tape.source.as_fd()))
    }

    /// Something that it waited for is there. Says whether there is more to do.
    pub(super) fn proceed(&mut self, command: PollFlags, source: PollFlags) -> io::Result<bool> {
        if command.contains(PollFlags::POLLERR) {
            return Ok(false);
        }
        if !source.is_empty() && self.pending().is_empty() {
            self.read()?;
        }
        if self.pending().is_empty() {
            return Ok(!self.tape.ended);
        }
        let written = (&self.to).write(self.pending());
        match written {
            Ok(n) => self.place += n,
            Err(error) if is_for_later(&error) => {}
            // The command does not want any more, which is no failure.
            Err(_) => return Ok(false),
        }
        Ok(!(self.tape.ended && self.pending().is_empty()))
    }

    fn read(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        let n = match self.tape.source.read(&mut bytes) {
            Err(error) if is_for_later(&error) => return Ok(()),
            read => read?,
        };
        self.tape.ended = n == 0;
        let fits = self.tape.kept.len() + n <= self.tape.limit;
        if n > 0 && (self.tape.spilled || !fits) {
            self.tape.spilled = true;
            self.tape.kept = Vec::new();
            self.passing = bytes[..n].to_vec();
            self.place = 0;
        } else {
            self.tape.kept.extend_from_slice(&bytes[..n]);
        }
        Ok(())
    }
}
