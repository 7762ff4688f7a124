//! Everything here waits in one place, so that a signal is heard at once, whatever we wait for.

use std::io::{self, Write};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;
use redial_core::{NEVER, Nanos};

use super::clock;
use super::signals::{Signals, ends};

/// Why something was not finished.
pub(super) enum Interrupted {
    /// The user wants us to end.
    By(Signal),
    Failed(io::Error),
}

impl From<io::Error> for Interrupted {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Waits until one of them is ready, or until then.
pub(super) fn ready(fds: &mut [PollFd<'_>], until: Nanos) -> io::Result<()> {
    match poll(fds, timeout(until)) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Rounded up: whoever wakes too early would only ask again.
fn timeout(until: Nanos) -> PollTimeout {
    if until == NEVER {
        return PollTimeout::NONE;
    }
    let millis = until.saturating_sub(clock::now()).div_ceil(1_000_000);
    i32::try_from(millis).ok().and_then(|millis| millis.try_into().ok()).unwrap_or(PollTimeout::MAX)
}

/// Waits until then; says which signal ended it early.
pub(super) fn pause(until: Nanos, signals: &mut Signals) -> io::Result<Option<Signal>> {
    loop {
        if let Some(signal) = heard(signals) {
            return Ok(Some(signal));
        }
        if clock::now() >= until {
            return Ok(None);
        }
        ready(&mut [PollFd::new(signals.fd(), PollFlags::POLLIN)], until)?;
    }
}

/// Waits until then, in the middle of something that a signal ends early. Says whether one did; it can still be taken.
pub(super) fn is_ended(until: Nanos, signals: &mut Signals) -> bool {
    match pause(until, signals) {
        Ok(None) => false,
        Ok(Some(signal)) => {
            signals.put_back(signal);
            true
        }
        Err(_) => true,
    }
}

/// The signal that ends us, if one came while no attempt was on its way.
pub(super) fn heard(signals: &mut Signals) -> Option<Signal> {
    let came = signals.take();
    if came.contains(&Signal::SIGTSTP) {
        stop_ourselves();
    }
    came.into_iter().find(|signal| ends(*signal))
}

/// As the shell expects of a job that is told to; it wakes us with SIGCONT.
pub(super) fn stop_ourselves() {
    // Nothing can be done about a process that may not stop itself.
    let _ = kill(getpid(), Signal::SIGSTOP);
}

/// Waits for room, no longer than until then. Returns whether there is any.
pub(super) fn until_writable(
    to: &impl AsFd,
    signals: &mut Signals,
    until: Nanos,
) -> Result<bool, Interrupted> {
    loop {
        let mut fds = [
            PollFd::new(signals.fd(), PollFlags::POLLIN),
            PollFd::new(to.as_fd(), PollFlags::POLLOUT),
        ];
        ready(&mut fds, until)?;
        let writable = fds[1].any().unwrap_or(false);
        if let Some(signal) = heard(signals) {
            return Err(Interrupted::By(signal));
        }
        if writable || clock::now() >= until {
            return Ok(writable);
        }
    }
}

/// Writes as much of `pending` as goes without waiting.
pub(super) fn write_some(to: &mut impl Write, pending: &mut Vec<u8>) -> io::Result<()> {
    // A pipe that is ready has room for so much.
    let most = pending.len().min(4096);
    match to.write(&pending[..most]) {
        Ok(n) => {
            pending.drain(..n);
            Ok(())
        }
        Err(error) if is_for_later(&error) => Ok(()),
        Err(error) => {
            Err(io::Error::new(error.kind(), format!("output cannot be passed on: {error}")))
        }
    }
}

pub(super) fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
