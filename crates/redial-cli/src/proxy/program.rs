//! The program beside the sidecar.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::notify;
use crate::failed::Failed;
use crate::process::{Group, Grouping, Guard, MARK, Status, not_started};

/// What systemd tells the sidecar, and not its program.
const OURS: [&str; 4] = [notify::VARIABLE, "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID"];

pub(super) struct Program {
    child: Child,
    group: Group,
    /// Kills the program if we are killed. Without a guard it goes on, which is no reason not to start it.
    guard: Option<(Guard, u64)>,
}

impl Program {
    /// Starts it with these variables in its environment.
    pub(super) fn start(
        name: &OsString,
        args: &[OsString],
        variables: Vec<(String, String)>,
    ) -> Result<Self, Failed> {
        let mut command = Command::new(name);
        command.args(args).envs(variables);
        for variable in OURS {
            command.env_remove(variable);
        }
        let grouping = Grouping::find();
        if grouping != Grouping::Shared {
            command.process_group(0);
        }
        let mut guard = Guard::start().ok().map(|mut guard| {
            // The guard knows of the program before it runs, by a variable in its environment.
            let (number, mark) = guard.starting();
            command.env(MARK, mark);
            (guard, number)
        });
        let child = command.spawn().map_err(|error| {
            Failed::Other(format!("cannot start {}: {error}", name.display())).report_in_time();
            Failed::Reported(not_started(&error).1)
        })?;
        let group = Group::new(Pid::from_raw(child.id() as i32), grouping);
        if let Some((guard, number)) = &mut guard {
            guard.started(*number, group.target());
        }
        Ok(Self { child, group, guard })
    }

    pub(super) fn pass_on(&self, signal: Signal) {
        self.group.pass_on(signal);
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> io::Result<Option<Status>> {
        let status = self.child.try_wait()?.map(Status::from);
        if status.is_some() {
            self.group.take_terminal();
            if let Some((mut guard, number)) = self.guard.take() {
                guard.over(number);
            }
        }
        Ok(status)
    }
}
