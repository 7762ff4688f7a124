//! Waits that signals interrupt, for loops that handle everything on one thread.

use std::io;

use nix::errno::Errno;
use nix::poll::{PollFd, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;
use redial_core::{Deadline, Span};

use crate::clock;

/// Waits until a descriptor is ready, or until the time.
pub(crate) fn ready(fds: &mut [PollFd<'_>], until: Deadline) -> io::Result<()> {
    match poll(fds, timeout(until)) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Rounded up, because waking too early would only poll again.
fn timeout(until: Deadline) -> PollTimeout {
    let Some(left) = until.left(clock::now()).span() else { return PollTimeout::NONE };
    let millis = left.round_up(Span::MILLISECOND).as_millis();
    i32::try_from(millis).ok().and_then(|millis| millis.try_into().ok()).unwrap_or(PollTimeout::MAX)
}

/// Stops this process, as a shell expects of a job after SIGTSTP. SIGCONT wakes it.
pub(crate) fn stop_ourselves() {
    // A failure has no remedy.
    let _ = kill(getpid(), Signal::SIGSTOP);
}
