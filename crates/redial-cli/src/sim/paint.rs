use std::env;
use std::io::{self, IsTerminal};

/// How wide the answer may be, and whether it may have colours.
#[derive(Clone, Copy)]
pub(super) struct Paper {
    pub(super) width: usize,
    pub(super) has_colours: bool,
}

const USUAL_WIDTH: usize = 100;

impl Paper {
    /// What standard output is.
    pub(super) fn of_stdout() -> Self {
        let is_terminal = io::stdout().is_terminal();
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let width = terminal_size::terminal_size_of(io::stdout());
        let width = width.map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0).clamp(40, 240));
        Self { width, has_colours: is_terminal && !refused }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// With a code of the terminal, where there are colours.
    pub(super) fn with(self, code: &str, text: &str) -> String {
        if self.has_colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Words in lines that fit.
    pub(super) fn wrap(self, text: &str) -> String {
        let most = self.width.min(USUAL_WIDTH);
        let mut out = String::new();
        let mut used = 0;
        for word in text.split_whitespace() {
            let length = word.chars().count();
            if used > 0 && used + 1 + length > most {
                out.push('\n');
                used = 0;
            } else if used > 0 {
                out.push(' ');
                used += 1;
            }
            out.push_str(word);
            used += length;
        }
        out
    }
}
