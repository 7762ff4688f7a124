use std::env;
use std::io::{self, IsTerminal};

/// How wide the answer may be, and whether it may have colours.
#[derive(Clone, Copy)]
pub(super) struct Paper {
    pub(super) width: usize,
    pub(super) has_colours: bool,
    /// Whether what is wider wraps. A file has no edge.
    pub(super) has_edge: bool,
}

const USUAL_WIDTH: usize = 100;

impl Paper {
    /// What standard output is.
    pub(super) fn of_stdout() -> Self {
        let is_terminal = io::stdout().is_terminal();
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let width = terminal_size::terminal_size_of(io::stdout()).map(|(it, _)| usize::from(it.0));
        // For what is shown on a terminal by somebody else, such as a pager.
        let told = || env::var("COLUMNS").ok()?.parse().ok();
        let edge: Option<usize> = width.or_else(told);
        let width = edge.unwrap_or(USUAL_WIDTH).clamp(40, 240);
        Self { width, has_colours: is_terminal && !refused, has_edge: edge.is_some() }
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

    /// Pieces beside each other, each with how wide it looks, in lines that fit.
    pub(super) fn flow(self, pieces: &[(String, usize)]) -> String {
        let mut out = String::new();
        let mut used = 0;
        for (piece, length) in pieces {
            if used > 0 && self.has_edge && used + 2 + length > self.width {
                out.push('\n');
                used = 0;
            } else if used > 0 {
                out.push_str("  ");
                used += 2;
            }
            out.push_str(piece);
            used += length;
        }
        out
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
