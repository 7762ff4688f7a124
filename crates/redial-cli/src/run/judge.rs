//! Which exit statuses are failures, and which failures are transient? A user of `redial run` states that the command is
//! safe to repeat, so this only decides whether a repetition can help.

use std::io;

use nix::sys::signal::Signal;
use redial_core::decide::{Class, Failure, Outcome, Reach};
use redial_queue::durable::is_shortage;

use super::attempt::{End, Status};

/// A list of exit codes: `75,1-3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Codes(Vec<(u8, u8)>);

impl Codes {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let wrong = || {
            "must be exit codes from 1 to 255, separated by `,`, with `-` for a range, such as 75,1-3"
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

/// What is retried: by default every failure, and with a list of exit codes or patterns only those.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) retry_on_exit: Option<Codes>,
    pub(crate) stop_on_exit: Option<Codes>,
    pub(crate) lists_output: bool,
}

/// The exit code for a command whose own is 0 and whose output reports a failure.
pub(super) const ONLY_PRINTED: u8 = 75;
pub(super) const TIMED_OUT: u8 = 124;
pub(super) const OURS: u8 = 125;
pub(super) const NOT_EXECUTABLE: u8 = 126;
pub(super) const NOT_FOUND: u8 = 127;

/// Whether an exit code means that a command cannot be executed or is not found.
pub(crate) fn is_missing(code: u8) -> bool {
    matches!(code, NOT_EXECUTABLE | NOT_FOUND)
}

impl Rules {
    /// Whether a rule names this exit code.
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

    /// The class of a failure. `printed` means that the output matches a retry pattern.
    pub(crate) fn class(&self, status: Status, printed: bool) -> Class {
        let code = status.code();
        let listed = |codes: &Option<Codes>| codes.as_ref().map(|codes| codes.contains(code));
        if listed(&self.stop_on_exit) == Some(true) {
            return Class::Permanent;
        }
        match listed(&self.retry_on_exit) {
            _ if printed => Class::Transient,
            Some(true) => Class::Transient,
            // The codes of a shell for a command that it cannot find or execute.
            None if matches!(code, NOT_EXECUTABLE | NOT_FOUND) => Class::Permanent,
            None if is_by_user(status) => Class::Cancelled,
            None if !self.lists_output => Class::Transient,
            Some(false) | None => Class::Permanent,
        }
    }
}

/// Whether the user ended the command: with a signal, or with a Ctrl-C that the command caught.
fn is_by_user(status: Status) -> bool {
    const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
    match status {
        Status::Signal(signal) => ENDING.iter().any(|known| *known as u8 == signal),
        Status::Code(code) => code == 128 + Signal::SIGINT as u8,
    }
}

/// Our exit code if this attempt is the last one.
pub(super) fn exit_code(end: &End) -> u8 {
    match end.status.code() {
        _ if end.timed_out && end.user.is_none() => TIMED_OUT,
        0 if end.found.retry => ONLY_PRINTED,
        code => code,
    }
}

/// The failure of a command that could not be started, and its exit code.
pub(crate) fn not_started(error: &io::Error) -> (Failure, u8) {
    let passes = is_shortage(error) || error.kind() == io::ErrorKind::ExecutableFileBusy;
    let class = if passes { Class::Transient } else { Class::Permanent };
    let code = match error.kind() {
        _ if passes => OURS,
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    };
    (Failure::new(class).reach(Reach::NotSent).code(u16::from(code)), code)
}
