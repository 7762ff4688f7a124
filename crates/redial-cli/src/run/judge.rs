//! Which of a command's ends are failures, and which failures may pass? A shell user who asks for retries has said that
//! repeating is safe; what is left is not to repeat what cannot help.

use std::io;

use nix::sys::signal::Signal;
use redial_core::decide::{Class, Failure, Outcome, Reach};
use redial_queue::durable::is_shortage;

use super::attempt::{End, Status};

/// Exit codes as a person lists them: `75,1-3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Codes(Vec<(u8, u8)>);

impl Codes {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let wrong = || {
            "exit codes from 1 to 255, with `,` between them and `-` for a range, such as 75,1-3"
                .to_owned()
        };
        let code = |text: &str| text.trim().parse().ok().filter(|code| *code > 0).ok_or_else(wrong);
        let range = |text: &str| {
            let (from, to) = text.split_once('-').unwrap_or((text, text));
            let (from, to) = (code(from)?, code(to)?);
            if from <= to { Ok((from, to)) } else { Err(wrong()) }
        };
        text.split(',').map(range).collect::<Result<_, _>>().map(Self)
    }

    fn contains(&self, code: u8) -> bool {
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&code))
    }
}

/// What is retried. By default everything that fails; whoever lists exit codes or patterns means those and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) retry_on_exit: Option<Codes>,
    pub(crate) stop_on_exit: Option<Codes>,
    pub(crate) lists_output: bool,
}

/// The exit code of a command that said it had failed, and whose own was 0.
pub(super) const ONLY_PRINTED: u8 = 75;
pub(super) const TIMED_OUT: u8 = 124;
pub(super) const OURS: u8 = 125;
pub(super) const NOT_EXECUTABLE: u8 = 126;
pub(super) const NOT_FOUND: u8 = 127;

/// Whether an exit code says that a command could not be executed, or was not found.
pub(crate) fn is_missing(code: u8) -> bool {
    matches!(code, NOT_EXECUTABLE | NOT_FOUND)
}

impl Rules {
    /// Whether the user has said what this exit code means.
    pub(crate) fn name(&self, code: u8) -> bool {
        let lists = [&self.retry_on_exit, &self.stop_on_exit];
        lists.into_iter().flatten().any(|codes| codes.contains(code))
    }

    pub(super) fn outcome(&self, end: &End) -> Outcome {
        let code = end.status.code();
        let failed = end.timed_out || code != 0 || end.found.retry;
        if !failed {
            return Outcome::Success;
        }
        let class = if end.user.is_some() {
            Class::Cancelled
        } else if end.found.stop {
            Class::Permanent
        } else if end.timed_out {
            Class::Timeout
        } else {
            self.class(end.status, end.found.retry)
        };
        let failure = Failure::new(class).code(u16::from(code));
        end.found.hint().map_or(failure, |hint| failure.hint(hint)).into()
    }

    /// What kind of failure an end that is none of success is. `printed` says that the output asks for a retry.
    pub(crate) fn class(&self, status: Status, printed: bool) -> Class {
        let code = status.code();
        let listed = |codes: &Option<Codes>| codes.as_ref().map(|codes| codes.contains(code));
        if listed(&self.stop_on_exit) == Some(true) {
            return Class::Permanent;
        }
        match listed(&self.retry_on_exit) {
            _ if printed => Class::Transient,
            Some(true) => Class::Transient,
            // A shell says so of what it could not find or execute.
            None if matches!(code, NOT_EXECUTABLE | NOT_FOUND) => Class::Permanent,
            None if is_users(status) => Class::Cancelled,
            None if !self.lists_output => Class::Transient,
            Some(false) | None => Class::Permanent,
        }
    }
}

/// Whether somebody has ended the command on purpose: with a signal for that, or with the Ctrl-C that it caught.
fn is_users(status: Status) -> bool {
    const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
    match status {
        Status::Signal(signal) => ENDING.iter().any(|known| *known as u8 == signal),
        Status::Code(code) => code == 128 + Signal::SIGINT as u8,
    }
}

/// What the exit code of an attempt that ended is for whoever called us.
pub(super) fn exit_code(end: &End) -> u8 {
    match end.status.code() {
        _ if end.timed_out && end.user.is_none() => TIMED_OUT,
        0 if end.found.retry => ONLY_PRINTED,
        code => code,
    }
}

/// A command that could not be started: whether that may pass, and the exit code if not.
pub(super) fn not_started(error: &io::Error) -> (Failure, u8) {
    let passes = is_shortage(error) || error.kind() == io::ErrorKind::ExecutableFileBusy;
    let class = if passes { Class::Transient } else { Class::Permanent };
    let code = match error.kind() {
        _ if passes => OURS,
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    };
    (Failure::new(class).reach(Reach::NotSent).code(u16::from(code)), code)
}
