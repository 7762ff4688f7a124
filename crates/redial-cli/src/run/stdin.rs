//! A pipe can be read only once. A second attempt that finds it empty, or half read, does something else than the first,
//! and may succeed. So input is buffered and replayed to every attempt; if it is too large to buffer, there is no second
//! attempt.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::process::{ChildStdin, Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::PollFlags;

use super::wait::is_for_later;

/// What the attempts read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// Pass on a terminal or a device, rewind a file, buffer a pipe
    Auto,
    /// Buffer anything but a file, which is rewound
    Replay,
    /// Buffer nothing: do not retry once the command may have read something
    Refuse,
    /// No input
    None,
}

pub(super) enum Stdin {
    Nothing,
    /// The command has our stdin.
    Passed,
    /// The command has our stdin, which is a file, and every attempt starts at the same position.
    Rewound {
        file: File,
        start: u64,
        refuse: bool,
    },
    Buffered(ReplayBuffer),
}

/// The bytes read from a pipe so far.
pub(super) struct ReplayBuffer {
    source: File,
    kept: Vec<u8>,
    limit: usize,
    /// More than the limit was read, so that nothing is buffered any more.
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
        Ok(Self::Buffered(ReplayBuffer { source: file, kept, limit, spilled, ended }))
    }

    /// Connects a command that is about to be started.
    pub(super) fn connect(&mut self, command: &mut Command) -> io::Result<()> {
        let how = match self {
            Self::Nothing => Stdio::null(),
            Self::Buffered(_) => Stdio::piped(),
            Self::Passed => Stdio::inherit(),
            Self::Rewound { file, start, .. } => {
                file.seek(SeekFrom::Start(*start))?;
                Stdio::inherit()
            }
        };
        command.stdin(how);
        Ok(())
    }

    /// Whether another attempt would get the same input.
    pub(super) fn is_repeatable(&mut self) -> bool {
        match self {
            Self::Rewound { file, start, refuse: true } => {
                file.stream_position().is_ok_and(|place| place == *start)
            }
            Self::Buffered(buffer) => !buffer.spilled,
            Self::Nothing | Self::Passed | Self::Rewound { .. } => true,
        }
    }

    /// The pump into a command that was started, if it needs one.
    pub(super) fn feed(&mut self, to: Option<ChildStdin>) -> io::Result<Option<Feed<'_>>> {
        let (Self::Buffered(buffer), Some(to)) = (self, to) else { return Ok(None) };
        fcntl(&to, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Some(Feed { buffer, to, passing: Vec::new(), place: 0 }))
    }
}

/// The input of one attempt.
pub(super) struct Feed<'a> {
    buffer: &'a mut ReplayBuffer,
    to: ChildStdin,
    /// The bytes to write if they are not in the buffer.
    passing: Vec<u8>,
    /// How much of the buffer, or of `passing`, was written.
    place: usize,
}

impl Feed<'_> {
    fn pending(&self) -> &[u8] {
        let all = if self.buffer.spilled { &self.passing } else { &self.buffer.kept };
        &all[self.place..]
    }

    /// A duplicate of the writing end of the command's input.
    pub(super) fn input(&self) -> io::Result<OwnedFd> {
        self.to.as_fd().try_clone_to_owned()
    }

    /// The descriptors and events that it waits for. The command's end is polled even if there is nothing to write, because
    /// the command may close it.
    pub(super) fn wants(&self) -> (BorrowedFd<'_>, PollFlags, Option<BorrowedFd<'_>>) {
        let is_idle = self.pending().is_empty();
        let flags = if is_idle { PollFlags::empty() } else { PollFlags::POLLOUT };
        (self.to.as_fd(), flags, is_idle.then(|| self.buffer.source.as_fd()))
    }

    /// Continues after an event. Returns whether there is more to do.
    pub(super) fn proceed(&mut self, command: PollFlags, source: PollFlags) -> io::Result<bool> {
        if command.contains(PollFlags::POLLERR) {
            return Ok(false);
        }
        if !source.is_empty() && self.pending().is_empty() {
            self.read()?;
        }
        if self.pending().is_empty() {
            return Ok(!self.buffer.ended);
        }
        let written = (&self.to).write(self.pending());
        match written {
            Ok(n) => self.place += n,
            Err(error) if is_for_later(&error) => {}
            // The command has closed its input, which is not a failure.
            Err(_) => return Ok(false),
        }
        Ok(!(self.buffer.ended && self.pending().is_empty()))
    }

    fn read(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        let n = match self.buffer.source.read(&mut bytes) {
            Err(error) if is_for_later(&error) => return Ok(()),
            read => read?,
        };
        self.buffer.ended = n == 0;
        let fits = self.buffer.kept.len() + n <= self.buffer.limit;
        if n > 0 && (self.buffer.spilled || !fits) {
            self.buffer.spilled = true;
            self.buffer.kept = Vec::new();
            self.passing = bytes[..n].to_vec();
            self.place = 0;
        } else {
            self.buffer.kept.extend_from_slice(&bytes[..n]);
        }
        Ok(())
    }
}
