//! How a command ended, and whether another attempt can help. A user of `redial run` or `redial queue work` states that the
//! command is safe to repeat.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use nix::sys::signal::Signal;
use redial_core::decide::{Class, Failure, Reach};
use redial_queue::durable::is_shortage;

use super::signals::is_ending;

/// The exit code if the failure is that of the program `redial`.
pub(crate) const OURS: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Code(u8),
    Signal(u8),
}

impl Status {
    /// The exit code as in a shell.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + (signal & 127),
        }
    }
}

impl From<ExitStatus> for Status {
    fn from(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) => Self::Signal(signal as u8),
            None => Self::Code(status.code().unwrap_or(0) as u8),
        }
    }
}

/// A list of exit codes: `75,1-3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExitCodes(Vec<(u8, u8)>);

impl ExitCodes {
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
pub(crate) struct ExitRules {
    pub(crate) retry_on_exit: Option<ExitCodes>,
    pub(crate) stop_on_exit: Option<ExitCodes>,
    pub(crate) lists_output: bool,
}

impl ExitRules {
    /// Whether no rule says what is retried.
    pub(crate) fn are_default(&self) -> bool {
        self.retry_on_exit.is_none() && !self.lists_output
    }

    /// Whether a rule names this exit code.
    pub(crate) fn name(&self, code: u8) -> bool {
        let lists = [&self.retry_on_exit, &self.stop_on_exit];
        lists.into_iter().flatten().any(|codes| codes.contains(code))
    }

    /// The class of a failure. `printed` means that the output matches a retry pattern.
    pub(crate) fn class(&self, status: Status, printed: bool) -> Class {
        let code = status.code();
        let listed = |codes: &Option<ExitCodes>| codes.as_ref().map(|codes| codes.contains(code));
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
    match status {
        Status::Signal(signal) => Signal::try_from(i32::from(signal)).is_ok_and(is_ending),
        Status::Code(code) => code == 128 + Signal::SIGINT as u8,
    }
}

/// Whether an exit code means that a command cannot be executed or is not found.
pub(crate) fn is_missing(code: u8) -> bool {
    matches!(code, NOT_EXECUTABLE | NOT_FOUND)
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
