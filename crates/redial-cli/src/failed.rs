use std::io;
use std::process::ExitCode;

use crate::stderr;

/// Why a command did not end as it should. Scripts go by the exit code, so what is the user's to put right has
/// another one than what is not.
pub(crate) enum Failed {
    /// Something about the input is wrong: 2, as for wrong usage.
    Input(String),
    /// Something else is: 1.
    Work(String),
    /// The user has seen enough, and has got what there was: 130, as for anything that Ctrl-C ends.
    Stopped,
    /// The answer is there and says it all; only the exit code is left.
    Said(u8),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Work(error.to_string())
    }
}

impl Failed {
    /// Wrong input, and where it came from.
    pub(crate) fn input(place: impl std::fmt::Display, why: impl std::fmt::Display) -> Self {
        Self::Input(format!("{place}: {why}"))
    }

    /// Says it, and returns the exit code.
    #[allow(clippy::print_stderr, reason = "the one place where the command reports a failure")]
    pub(crate) fn report(&self) -> ExitCode {
        let (message, code) = self.parts();
        if let Some(message) = message {
            eprintln!("redial: {}", harmless_lines(message));
        }
        ExitCode::from(code)
    }

    /// The same for commands that run unattended: a stderr that is not read does not keep the process from ending.
    pub(crate) fn report_in_time(&self) -> ExitCode {
        let (message, code) = self.parts();
        if let Some(message) = message {
            stderr::say(&format!("redial: {}", harmless_lines(message)));
        }
        ExitCode::from(code)
    }

    /// Reports it in time, and leaves the exit code.
    pub(crate) fn said(self) -> Self {
        self.report_in_time();
        Self::Said(self.parts().1)
    }

    /// What to say, unless it was said already, and the exit code.
    fn parts(&self) -> (Option<&str>, u8) {
        match self {
            Self::Input(message) => (Some(message), 2),
            Self::Work(message) => (Some(message), 1),
            Self::Stopped => (Some("stopped; what was done by then has been printed"), 130),
            Self::Said(code) => (None, *code),
        }
    }
}

/// A name from outside, without characters that would move the cursor or change the order of the text.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_obeyed(c) { '\u{fffd}' } else { c }).collect()
}

/// Whether a terminal does something else with it than showing it: control characters, line separators, and the marks
/// that reverse the direction of text.
pub(crate) fn is_obeyed(c: char) -> bool {
    let reverses = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || reverses || matches!(c, '\u{2028}' | '\u{2029}')
}

/// A message may have lines, and in them what somebody has typed or a piece of a file.
fn harmless_lines(text: &str) -> String {
    text.lines().map(|line| harmless(&line.replace('\t', " "))).collect::<Vec<_>>().join("\n")
}
