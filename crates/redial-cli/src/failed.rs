use std::io;
use std::process::ExitCode;

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
        let (message, code) = match self {
            Self::Input(message) => (message.as_str(), 2),
            Self::Work(message) => (message.as_str(), 1),
            Self::Stopped => ("stopped; what was done by then has been printed", 130),
            Self::Said(code) => return ExitCode::from(*code),
        };
        eprintln!("redial: {}", harmless_lines(message));
        ExitCode::from(code)
    }
}

/// What somebody else has named, without what would move the cursor.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A message may have lines, and in them what somebody has typed or a piece of a file.
fn harmless_lines(text: &str) -> String {
    text.lines().map(|line| harmless(&line.replace('\t', " "))).collect::<Vec<_>>().join("\n")
}
