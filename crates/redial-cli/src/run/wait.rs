//! The one place where `redial run` waits, so that every wait handles signals at once.

use std::io::{self, Write};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::Signal;
use redial_core::{Deadline, Time};

use crate::clock;
use crate::process::{SignalFlags, is_ending, ready, stop_ourselves};

/// Why something was not finished.
pub(super) enum Interrupted {
    /// A signal asked us to end.
    By(Signal),
    Failed(io::Error),
}

impl From<io::Error> for Interrupted {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Waits until the time. Returns the signal that ended it early.
pub(super) fn pause(until: Time, signals: &mut SignalFlags) -> io::Result<Option<Signal>> {
    loop {
        if let Some(signal) = ending_signal(signals) {
            return Ok(Some(signal));
        }
        if clock::now() >= until {
            return Ok(None);
        }
        ready(&mut [PollFd::new(signals.fd(), PollFlags::POLLIN)], until.into())?;
    }
}

/// Waits until the time. Returns whether a signal ended it early; the signal can still be taken.
pub(super) fn is_interrupted(until: Time, signals: &mut SignalFlags) -> bool {
    match pause(until, signals) {
        Ok(None) => false,
        Ok(Some(signal)) => {
            signals.put_back(signal);
            true
        }
        Err(_) => true,
    }
}

/// A signal that asks us to end, if one arrived while no attempt was running.
pub(super) fn ending_signal(signals: &mut SignalFlags) -> Option<Signal> {
    let came = signals.take();
    if came.contains(&Signal::SIGTSTP) {
        stop_ourselves();
    }
    came.into_iter().find(|signal| is_ending(*signal))
}

/// Waits for room until the time. Returns whether there is any.
pub(super) fn until_writable(
    to: &impl AsFd,
    signals: &mut SignalFlags,
    until: Deadline,
) -> Result<bool, Interrupted> {
    loop {
        let mut fds = [
            PollFd::new(signals.fd(), PollFlags::POLLIN),
            PollFd::new(to.as_fd(), PollFlags::POLLOUT),
        ];
        ready(&mut fds, until)?;
        let writable = fds[1].any().unwrap_or(false);
        if let Some(signal) = ending_signal(signals) {
            return Err(Interrupted::By(signal));
        }
        if writable || until.is_over(clock::now()) {
            return Ok(writable);
        }
    }
}

/// Writes as much of `pending` as possible without blocking.
pub(super) fn write_some(to: &mut impl Write, pending: &mut Vec<u8>) -> io::Result<()> {
    // A writable pipe has room for this much.
    let most = pending.len().min(4096);
    match to.write(&pending[..most]) {
        Ok(n) => {
            pending.drain(..n);
            Ok(())
        }
        Err(error) if is_for_later(&error) => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot pass on output: {error}"))),
    }
}

pub(super) fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
