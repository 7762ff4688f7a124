//! Signals, for the two kinds of waiting loops. One that polls descriptors handles many signals, most of which are meant for
//! the command that it runs: each sets its flag and wakes the loop. An async one ends at SIGINT and SIGTERM.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use signal_hook::{flag, low_level::pipe};
use tokio::signal::unix::{self, SignalKind, signal};

const HANDLED: [Signal; 10] = [
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

/// Whether the signal asks a process to end.
pub(crate) fn is_ending(signal: Signal) -> bool {
    matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT)
}

/// The signals that a loop of `poll` handles.
pub(crate) struct SignalFlags {
    woken: UnixStream,
    flags: Vec<(Signal, Arc<AtomicBool>)>,
}

impl SignalFlags {
    /// Installs the handlers. A signal that was ignored stays ignored, here and in the command: `nohup` ignores SIGHUP, and
    /// a shell ignores SIGINT in background jobs. SIGTERM is always handled, so that one signal can end us.
    pub(crate) fn listen() -> io::Result<Self> {
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let ignored = ignored();
        let always = [Signal::SIGCHLD, Signal::SIGTERM];
        let mut flags = Vec::with_capacity(HANDLED.len());
        for signal in HANDLED {
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

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// The signals that arrived since the last call.
    pub(crate) fn take(&mut self) -> Vec<Signal> {
        let mut bytes = [0; 64];
        // The pipe is emptied before the flags are read, so that a signal in between wakes the loop again.
        while matches!(self.woken.read(&mut bytes), Ok(1..)) {}
        let came = |(signal, set): &(Signal, Arc<AtomicBool>)| {
            set.swap(false, Ordering::AcqRel).then_some(*signal)
        };
        self.flags.iter().filter_map(came).collect()
    }

    /// Makes a signal available to the next [`Self::take`], without waking the loop.
    pub(crate) fn put_back(&self, signal: Signal) {
        let flag = self.flags.iter().find(|(known, _)| *known == signal);
        if let Some((_, flag)) = flag {
            flag.store(true, Ordering::Release);
        }
    }
}

/// SIGINT and SIGTERM, which ask an async loop to end.
pub(crate) struct StopSignals {
    /// `None` if the process was started with SIGINT ignored, as background jobs of a shell are.
    interrupt: Option<unix::Signal>,
    terminate: unix::Signal,
}

impl StopSignals {
    pub(crate) fn listen() -> io::Result<Self> {
        let interrupt = match is_ignored(Signal::SIGINT) {
            true => None,
            false => Some(signal(SignalKind::interrupt())?),
        };
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// The exit code of the next signal.
    pub(crate) async fn next(&mut self) -> u8 {
        let interrupted = async {
            match &mut self.interrupt {
                Some(interrupt) => interrupt.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupted => 130,
            _ = self.terminate.recv() => 143,
        }
    }
}

/// Whether the process was started with this signal ignored. Must be called before a handler is installed.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    contains(ignored(), signal)
}

fn contains(set: u64, signal: Signal) -> bool {
    set & (1 << (signal as u32 - 1)) != 0
}

/// The signals that were ignored when the process started, as a bit set; none where the system does not tell.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}
