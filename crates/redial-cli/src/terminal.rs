//! How wide output may be, and whether it may have colours.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use crate::text;

#[derive(Clone, Copy)]
pub(crate) struct Terminal {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) has_colours: bool,
    /// Whether lines that are wider than `width` would be broken. Those of a file are not.
    pub(crate) is_bounded: bool,
}

const DEFAULT_WIDTH: usize = 100;
const DEFAULT_HEIGHT: usize = 24;

impl Terminal {
    pub(crate) fn of_stdout() -> Self {
        Self::of(&io::stdout())
    }

    pub(crate) fn of(stream: &(impl AsFd + IsTerminal)) -> Self {
        let size = terminal_size::terminal_size_of(stream);
        let width = size.map(|(it, _)| usize::from(it.0));
        // Set for programs whose output a pager shows.
        let from_environment = || env::var("COLUMNS").ok()?.parse().ok();
        let bound: Option<usize> = width.or_else(from_environment);
        Self {
            width: bound.unwrap_or(DEFAULT_WIDTH).clamp(40, 240),
            height: size.map_or(DEFAULT_HEIGHT, |(_, it)| usize::from(it.0)),
            has_colours: has_colours(stream),
            is_bounded: bound.is_some(),
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// The text with a graphic rendition code (SGR), if there are colours.
    pub(crate) fn with(self, code: &str, text: &str) -> String {
        if self.has_colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Pieces beside each other, each with the number of columns that it takes.
    pub(crate) fn flow(self, pieces: &[(String, usize)]) -> String {
        let width = if self.is_bounded { self.width } else { usize::MAX };
        let pieces = pieces.iter().map(|(piece, columns)| (piece.as_str(), *columns));
        text::fill(pieces, "  ", width).join("\n")
    }

    /// The width of running text: long lines are hard to read.
    pub(crate) fn prose_width(self) -> usize {
        self.width.min(DEFAULT_WIDTH)
    }

    pub(crate) fn wrap(self, text: &str) -> String {
        text::wrap(text, self.prose_width()).join("\n")
    }

    /// Wraps a text that comes after `before` columns, only if lines would be broken otherwise.
    pub(crate) fn wrap_after(self, before: usize, text: &str) -> String {
        if !self.is_bounded {
            return text.to_owned();
        }
        text::wrap(text, self.width.saturating_sub(before).max(20)).join("\n")
    }

    /// A name and a text per row. The texts are aligned, and continue below themselves.
    pub(crate) fn rows(self, rows: &[(String, String)], out: &mut impl Write) -> io::Result<()> {
        let names = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let width = if self.is_bounded { self.width } else { usize::MAX };
        for (name, text) in rows {
            let mut name = name.as_str();
            for line in text::wrap(text, width.saturating_sub(names + 2).max(20)) {
                writeln!(out, "{name:<names$}  {line}")?;
                name = "";
            }
        }
        Ok(())
    }
}

/// Whether a stream may have colours: it is a terminal, and `NO_COLOR` is unset or empty (no-color.org).
pub(crate) fn has_colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
