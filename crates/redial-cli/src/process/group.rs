//! A command is rarely one process. A signal that reaches only the shell leaves its children running, so each attempt is
//! its own process group, and signals go to the whole group.
//!
//! A terminal complicates this: only the foreground group may read from it and gets its Ctrl-C. If stdin and stdout are the
//! terminal, the attempt's group becomes the foreground group while it runs. In a pipeline other processes of our group use
//! the terminal too; then the attempt stays in our group, and only the command itself is signalled.

use std::io::{self, IsTerminal as _};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

use super::guard::Target;
use super::wait;

/// How the attempts of this call are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// Each attempt has its own group.
    Own,
    /// Each attempt has its own group, which is the foreground group of the terminal.
    Foreground,
    /// All attempts are in our group.
    Shared,
}

impl Grouping {
    pub(crate) fn find() -> Self {
        if !io::stdin().is_terminal() || !is_foreground(getpgrp()) {
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
    leader: Pid,
    grouping: Grouping,
}

impl Group {
    /// The group of a command that was just started.
    pub(crate) fn new(leader: Pid, grouping: Grouping) -> Self {
        let group = Self { leader, grouping };
        group.hand_terminal();
        group
    }

    /// The group of a command that has its own group and no terminal.
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
        // Fails if it has already ended.
        let _ = match self.grouping {
            Grouping::Own | Grouping::Foreground => killpg(self.leader, signal),
            Grouping::Shared => kill(self.leader, signal),
        };
    }

    /// Forwards a signal to the attempt, unless the terminal has already sent it to our whole group.
    fn forward(self, signal: Signal) {
        let from_terminal = matches!(
            signal,
            Signal::SIGINT | Signal::SIGQUIT | Signal::SIGTSTP | Signal::SIGWINCH | Signal::SIGCONT
        );
        if self.grouping != Grouping::Shared || !from_terminal {
            self.signal(signal);
        }
    }

    /// Does with a signal what a shell expects of a job, for the command and for us.
    pub(crate) fn pass_on(self, signal: Signal) {
        match signal {
            Signal::SIGCHLD => self.follow_stop(),
            Signal::SIGTSTP => {
                self.forward(signal);
                wait::stop_ourselves();
            }
            Signal::SIGCONT if self.has_terminal() => self.hand_terminal(),
            signal => self.forward(signal),
        }
    }

    /// Stops us if a command that has the terminal was stopped, so that the shell gets its terminal back.
    fn follow_stop(self) {
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        let stopped = waitid(Id::Pid(self.leader), flags);
        if self.has_terminal() && matches!(stopped, Ok(WaitStatus::Stopped(..))) {
            self.take_terminal();
            wait::stop_ourselves();
            self.hand_terminal();
        }
    }

    /// Asks it to end. A stopped process has to be continued to handle the signal.
    pub(crate) fn terminate(self) {
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
    }

    /// Whether a process of the group is left after the command itself has ended.
    pub(crate) fn remains(self) -> bool {
        if self.grouping == Grouping::Shared {
            return false;
        }
        // As the first process of a container we inherit orphans, which remain zombies until they are waited for.
        let orphans = Pid::from_raw(-self.leader.as_raw());
        let waited = || waitpid(orphans, Some(WaitPidFlag::WNOHANG));
        while matches!(waited(), Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..))) {}
        killpg(self.leader, None) != Err(Errno::ESRCH)
    }

    fn has_terminal(self) -> bool {
        self.grouping == Grouping::Foreground
    }

    /// Makes the attempt the foreground group, unless the shell has put us into the background. A command that tried to
    /// read before that was stopped, and is continued.
    fn hand_terminal(self) {
        if self.has_terminal() {
            if is_foreground(getpgrp()) {
                set_foreground(self.leader);
            }
            self.signal(Signal::SIGCONT);
        }
    }

    pub(crate) fn take_terminal(self) {
        if self.has_terminal() && is_foreground(self.leader) {
            set_foreground(getpgrp());
        }
    }
}

fn is_foreground(group: Pid) -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|front| front == group)
}

/// Ctrl-C went only to the group of the attempt. A script that runs us continues unless it gets SIGINT too, and sees that
/// we died of it.
pub(crate) fn die_of_interrupt() {
    // If this fails, the exit code shows it.
    let _ = killpg(getpgrp(), Signal::SIGINT);
    let _ = signal_hook::low_level::emulate_default_handler(Signal::SIGINT as i32);
}

/// Blocks SIGTTOU meanwhile, which would stop a process in the background.
fn set_foreground(group: Pid) {
    let mut stop = SigSet::empty();
    stop.add(Signal::SIGTTOU);
    if stop.thread_block().is_ok() {
        // Fails without a terminal.
        let _ = tcsetpgrp(io::stdin(), group);
        let _ = stop.thread_unblock();
    }
}
