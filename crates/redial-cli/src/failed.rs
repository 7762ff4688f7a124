//! Errors of commands and their exit codes.

use std::io;
use std::process::ExitCode;

use crate::stderr;
use crate::text::sanitise_lines;

/// Why a command failed. Scripts go by the exit code, so errors that the user can correct have a code of their own.
pub(crate) enum Failed {
    /// The input is wrong: 2, as for wrong usage.
    Input(String),
    /// Any other error: 1.
    Other(String),
    /// The user pressed Ctrl-C, and the results so far have been printed: 130.
    Stopped,
    /// The output already says why; only the exit code is left.
    Reported(u8),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Other(error.to_string())
    }
}

impl Failed {
    /// Wrong input, and where it came from.
    pub(crate) fn input(place: impl std::fmt::Display, why: impl std::fmt::Display) -> Self {
        Self::Input(format!("{place}: {why}"))
    }

    /// Prints the message to stderr, and returns the exit code.
    #[allow(clippy::print_stderr, reason = "the one place where the command reports a failure")]
    pub(crate) fn report(&self) -> ExitCode {
        let (message, code) = self.parts();
        if let Some(message) = message {
            eprintln!("redial: {}", sanitise_lines(message));
        }
        ExitCode::from(code)
    }

    /// The same for commands that run unattended: a stderr that is not read does not keep the process from ending.
    pub(crate) fn report_in_time(&self) -> ExitCode {
        let (message, code) = self.parts();
        if let Some(message) = message {
            stderr::write_line(&format!("redial: {}", sanitise_lines(message)));
        }
        ExitCode::from(code)
    }

    /// Reports it in time, and leaves only the exit code.
    pub(crate) fn reported(self) -> Self {
        self.report_in_time();
        Self::Reported(self.parts().1)
    }

    /// The message, unless it has been printed, and the exit code.
    fn parts(&self) -> (Option<&str>, u8) {
        match self {
            Self::Input(message) => (Some(message), 2),
            Self::Other(message) => (Some(message), 1),
            Self::Stopped => (Some("stopped; the results so far have been printed"), 130),
            Self::Reported(code) => (None, *code),
        }
    }
}
