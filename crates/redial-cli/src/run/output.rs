//! The reader of our output must not get that of three failed attempts and a success. So the output of a command is
//! withheld until its attempt is known to be the last, unless it goes to a terminal.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, PipeReader, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::process::{Command, Stdio};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::stat::fstat;
use redial_core::Span;

use super::scan::{Found, Lines, Patterns};
use super::spool::Spool;
use super::wait::{self, Interrupted};
use crate::clock;
use crate::process::SignalFlags;

/// How to pass on the output of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// Stream output to a terminal, withhold other output
    Auto,
    /// Withhold output, and pass on that of the last attempt when it has ended
    Last,
    /// Stream all output, including that of failed attempts
    Stream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// The command has our stream, and its output is not scanned.
    Inherited,
    /// Through us, as it arrives.
    Streamed,
    Withheld,
}

/// The routes of both streams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Routes {
    out: Route,
    err: Route,
    /// Both go to the same file, so they are one stream and keep their order.
    joined: bool,
}

impl Routes {
    pub(super) fn find(output: Output, patterns: &Patterns) -> Self {
        let route = |is_terminal: bool| match (output, is_terminal) {
            (Output::Last, _) | (Output::Auto, false) => Route::Withheld,
            (Output::Stream, _) | (Output::Auto, true) if patterns.are_none() => Route::Inherited,
            _ => Route::Streamed,
        };
        let out = route(io::stdout().is_terminal());
        let err = route(io::stderr().is_terminal());
        let joined = out == err && out != Route::Inherited && is_same_file();
        Self { out, err, joined }
    }

    /// Connects a command that is about to be started.
    pub(super) fn connect(self, command: &mut Command) -> io::Result<Vec<Stream>> {
        let mut streams = Vec::new();
        if self.out != Route::Inherited {
            let (from, to) = io::pipe()?;
            if self.joined {
                command.stderr(to.try_clone()?);
            }
            command.stdout(to);
            streams.push(Stream::new(from, io::stdout().as_fd(), self.out)?);
        } else {
            command.stdout(Stdio::inherit());
        }
        if self.err == Route::Inherited {
            command.stderr(Stdio::inherit());
        } else if !self.joined {
            let (from, to) = io::pipe()?;
            command.stderr(to);
            streams.push(Stream::new(from, io::stderr().as_fd(), self.err)?);
        }
        Ok(streams)
    }

    /// Whether the reader of an inherited stream has closed it. The command was notified, but need not have ended.
    pub(super) fn reader_is_gone(self) -> bool {
        let left = |route: Route, fd: BorrowedFd<'_>| {
            let mut fds = [PollFd::new(fd, PollFlags::empty())];
            let polled = route == Route::Inherited && poll(&mut fds, PollTimeout::ZERO).is_ok();
            polled && fds[0].revents().is_some_and(|came| came.contains(PollFlags::POLLERR))
        };
        left(self.out, io::stdout().as_fd()) || left(self.err, io::stderr().as_fd())
    }
}

fn is_same_file() -> bool {
    match (fstat(io::stdout()), fstat(io::stderr())) {
        (Ok(out), Ok(err)) => (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino),
        _ => false,
    }
}

/// A write must never block, or signals and timeouts would wait with it. `poll` alone does not ensure that, because others
/// write to the same pipe, such as our own log. The flag belongs to the open file description, which other processes
/// share, so the pipe or terminal is opened again.
fn non_blocking(to: BorrowedFd<'_>) -> io::Result<File> {
    let shared = File::from(to.try_clone_to_owned()?);
    if !shared.metadata()?.file_type().is_fifo() && !shared.is_terminal() {
        return Ok(shared);
    }
    let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let path = format!("/proc/self/fd/{}", shared.as_raw_fd());
    Ok(OpenOptions::new().write(true).custom_flags(flags).open(path).unwrap_or(shared))
}

/// How long a reader has to take the withheld output after the user has ended the command.
const LAST_DELIVERY: Span = Span::SECOND;

/// The most bytes that a writable pipe takes without blocking.
const READY: usize = 4096;

/// One stream of one attempt.
pub(super) struct Stream {
    /// `None` when it has ended, or is not read any further.
    from: Option<PipeReader>,
    to: File,
    held: Option<Spool>,
    /// Bytes that were read and not yet passed on. Nothing is read while there are any.
    pending: Vec<u8>,
    lines: Lines,
    /// Why nothing more can be passed on.
    pub(super) broken: Option<io::Error>,
}

impl Stream {
    fn new(from: PipeReader, to: BorrowedFd<'_>, route: Route) -> io::Result<Self> {
        let to = non_blocking(to)?;
        let held = (route == Route::Withheld).then(Spool::default);
        let (pending, lines) = (Vec::new(), Lines::default());
        Ok(Self { from: Some(from), to, held, pending, lines, broken: None })
    }

    /// Whether all output has been read and passed on.
    pub(super) fn is_over(&self) -> bool {
        self.from.is_none() && self.pending.is_empty()
    }

    /// Whether output waits to be passed on.
    pub(super) fn is_stuck(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The descriptor and events that it waits for.
    pub(super) fn wants(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        if !self.pending.is_empty() {
            return Some((self.to.as_fd(), PollFlags::POLLOUT));
        }
        self.from.as_ref().map(|from| (from.as_fd(), PollFlags::POLLIN))
    }

    /// Continues after the event that it waited for.
    pub(super) fn proceed(&mut self, patterns: &Patterns, found: &mut Found) {
        if let Err(error) = self.step(patterns, found) {
            // The command gets SIGPIPE when it writes again.
            self.from = None;
            self.pending.clear();
            self.broken = Some(error);
        }
    }

    fn step(&mut self, patterns: &Patterns, found: &mut Found) -> io::Result<()> {
        if !self.pending.is_empty() {
            return wait::write_some(&mut self.to, &mut self.pending);
        }
        let Some(from) = &mut self.from else { return Ok(()) };
        let mut bytes = [0; 16 * READY];
        let n = match from.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            read => read?,
        };
        if n == 0 {
            self.from = None;
            self.lines.end(patterns, found);
            return Ok(());
        }
        self.lines.feed(&bytes[..n], patterns, found);
        match &mut self.held {
            Some(spool) => spool.write(&bytes[..n]),
            None => {
                self.pending.extend_from_slice(&bytes[..n]);
                Ok(())
            }
        }
    }

    /// Stops reading: a process that outlives the command keeps the stream open.
    pub(super) fn give_up(&mut self, patterns: &Patterns, found: &mut Found) {
        self.from = None;
        self.lines.end(patterns, found);
    }

    /// Passes on the withheld output. If the user has ended the command, a reader that stalls gets one second.
    pub(super) fn deliver(
        &mut self,
        signals: &mut SignalFlags,
        user: Option<Signal>,
    ) -> Result<(), Interrupted> {
        let until = user.map(|_| clock::now() + LAST_DELIVERY).into();
        let Some(mut spool) = self.held.take() else { return Ok(()) };
        spool.rewind()?;
        let (mut bytes, mut pending) = ([0; READY], Vec::new());
        loop {
            let n = spool.read(&mut bytes)?;
            if n == 0 {
                return Ok(self.to.flush()?);
            }
            pending.extend_from_slice(&bytes[..n]);
            while !pending.is_empty() {
                if !wait::until_writable(&self.to, signals, until)? {
                    return user.map_or(Ok(()), |signal| Err(Interrupted::By(signal)));
                }
                wait::write_some(&mut self.to, &mut pending)?;
            }
        }
    }
}
