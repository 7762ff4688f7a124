//! A command is rarely one process. A signal that reaches only the shell leaves what the shell has started behind, so
//! each attempt is a process group of its own, and signals go to all of it.
//!
//! At a terminal that has a price: only the group in the foreground may read from it and gets its Ctrl-C. If all of our
//! group's standard streams are the terminal, the terminal is handed to the attempt and taken back. In a pipeline others
//! of our group use it too; then the attempt stays in our group, and only the command itself is signalled.

use std::io::{self, IsTerminal as _};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

use crate::guard::Target;

/// How the attempts of this call are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// Each in a group of its own.
    Own,
    /// Each in a group of its own, which has the terminal while it runs.
    Foreground,
    /// In ours.
    Shared,
}

impl Grouping {
    pub(super) fn find() -> Self {
        if !io::stdin().is_terminal() || !is_in_front(getpgrp()) {
            Self::Own
        } else if io::stdout().is_terminal() {
            Self::Foreground
        } else {
            Self::Shared
        }
    }
}

/// The processes of one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(super) leader: Pid,
    grouping: Grouping,
}

impl Group {
    /// Of a command that has just been started.
    pub(super) fn new(leader: Pid, grouping: Grouping) -> Self {
        let group = Self { leader, grouping };
        group.hand_terminal();
        group
    }

    /// Of a command that has a group of its own and nothing to do with a terminal.
    pub(crate) fn own(leader: Pid) -> Self {
        Self { leader, grouping: Grouping::Own }
    }

    /// What a guard has to kill.
    pub(crate) fn target(self) -> Target {
        match self.grouping {
            Grouping::Own | Grouping::Foreground => Target::Group(self.leader),
            Grouping::Shared => Target::Process(self.leader),
        }
    }

    pub(crate) fn signal(self, signal: Signal) {
        // It may be gone already, and then there is nobody to tell.
        let _ = match self.grouping {
            Grouping::Own | Grouping::Foreground => killpg(self.leader, signal),
            Grouping::Shared => kill(self.leader, signal),
        };
    }

    /// What a signal to us means for the attempt. The terminal has sent its own signals to all of our group.
    pub(super) fn forward(self, signal: Signal) {
        let from_terminal = matches!(
            signal,
            Signal::SIGINT | Signal::SIGQUIT | Signal::SIGTSTP | Signal::SIGWINCH | Signal::SIGCONT
        );
        if self.grouping != Grouping::Shared || !from_terminal {
            self.signal(signal);
        }
    }

    /// Asks it to end. What is stopped cannot hear it.
    pub(crate) fn terminate(self) {
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
    }

    /// Whether anything is left of it, after the command itself has ended.
    pub(crate) fn remains(self) -> bool {
        if self.grouping == Grouping::Shared {
            return false;
        }
        // As the first process of a container we inherit the orphans, and the dead among them stay until they are
        // waited for.
        let orphans = Pid::from_raw(-self.leader.as_raw());
        let waited = || waitpid(orphans, Some(WaitPidFlag::WNOHANG));
        while matches!(waited(), Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..))) {}
        killpg(self.leader, None) != Err(Errno::ESRCH)
    }

    pub(super) fn has_terminal(self) -> bool {
        self.grouping == Grouping::Foreground
    }

    /// If the terminal is ours to hand over: a shell that has put us into the background has it itself. A command that was
    /// quicker than we are has been stopped for reading, and is woken.
    pub(super) fn hand_terminal(self) {
        if self.has_terminal() {
            if is_in_front(getpgrp()) {
                set_foreground(self.leader);
            }
            self.signal(Signal::SIGCONT);
        }
    }

    pub(super) fn take_terminal(self) {
        if self.has_terminal() && is_in_front(self.leader) {
            set_foreground(getpgrp());
        }
    }
}

fn is_in_front(group: Pid) -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|front| front == group)
}

/// The Ctrl-C that ended the attempt went to it alone. A script that runs us goes on unless it gets one too, and sees that
/// we have died of it.
pub(super) fn die_of_interrupt() {
    // If we may not, the exit code says the same.
    let _ = killpg(getpgrp(), Signal::SIGINT);
    let _ = signal_hook::low_level::emulate_default_handler(Signal::SIGINT as i32);
}

/// From the background this stops whoever does it, unless the signal for that is blocked.
fn set_foreground(group: Pid) {
    let mut stop = SigSet::empty();
    stop.add(Signal::SIGTTOU);
    if stop.thread_block().is_ok() {
        // Without a terminal there is nothing to hand over.
        let _ = tcsetpgrp(io::stdin(), group);
        let _ = stop.thread_unblock();
    }
}
