//! Commands with a wrong clock or a full disk.

use std::process::Command;

/// With a clock that is off by so many days. Only the time of day is; timers are as they were.
pub(super) fn with_clock(mut command: Command, days: i64) -> Command {
    crate::with_faketime(&mut command).env("FAKETIME", format!("{days:+}d"));
    command
}

/// With files of at most so many KiB, as on a disk that is full. The limit is a soft one, so that the commands of a worker can
/// lift it for what they write themselves.
pub(super) fn with_file_limit(command: &Command, kib: u64) -> Command {
    let mut shell = crate::program("bash");
    shell.arg("-c").arg(format!("trap '' XFSZ; ulimit -S -f {kib}; exec \"$@\"")).arg("bash");
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap());
    }
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell
}
