//! Whoever signals us means the command that we run. Each signal sets its flag and wakes the loop that waits; what
//! becomes of it is decided there.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use signal_hook::{flag, low_level::pipe};

const HEARD: [Signal; 10] = [
    Signal::SIGCHLD,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// Whether the user is asking to stop.
pub(super) fn ends(signal: Signal) -> bool {
    matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT)
}

pub(super) struct Signals {
    woken: UnixStream,
    flags: Vec<(Signal, Arc<AtomicBool>)>,
}

impl Signals {
    /// Listens from now on. What was ignored before stays so, here and in the command: `nohup` says no to SIGHUP, and a
    /// shell to the SIGINT of what it runs in the background. SIGTERM is always heard, so that there is one signal that
    /// ends us.
    pub(super) fn listen() -> io::Result<Self> {
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let ignored = ignored();
        let always = [Signal::SIGCHLD, Signal::SIGTERM];
        let mut flags = Vec::with_capacity(HEARD.len());
        for signal in HEARD {
            if !always.contains(&signal) && contains(ignored, signal) {
                continue;
            }
            let set = Arc::new(AtomicBool::new(false));
            flag::register(signal as i32, Arc::clone(&set))?;
            pipe::register(signal as i32, wake.try_clone()?)?;
            flags.push((signal, set));
        }
        Ok(Self { woken, flags })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// Those that came since this was last asked.
    pub(super) fn take(&mut self) -> Vec<Signal> {
        let mut bytes = [0; 64];
        // Emptied before the flags are read, so that a signal in between wakes the loop again.
        while matches!(self.woken.read(&mut bytes), Ok(1..)) {}
        let came = |(signal, set): &(Signal, Arc<AtomicBool>)| {
            set.swap(false, Ordering::AcqRel).then_some(*signal)
        };
        self.flags.iter().filter_map(came).collect()
    }

    /// For somebody who can do more about it. It is there when asked for, and wakes nobody.
    pub(super) fn put_back(&self, signal: Signal) {
        let flag = self.flags.iter().find(|(known, _)| *known == signal);
        if let Some((_, flag)) = flag {
            flag.store(true, Ordering::Release);
        }
    }
}

/// Whether the process was started with this signal ignored. To be asked before anything listens for it.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    contains(ignored(), signal)
}

fn contains(set: u64, signal: Signal) -> bool {
    set & (1 << (signal as u32 - 1)) != 0
}

/// The signals that were ignored when we were started, as a set of bits; where nobody says, none.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}
