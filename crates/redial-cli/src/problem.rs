//! Problems in the style of a compiler: the message, the place, and the line with a mark under it.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use annotate_snippets::renderer::Renderer;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Snippet};
use redial_policy::{Position, PositionCursor, Problem, TextSpan, excerpt};

use crate::terminal::Terminal;
use crate::text::sanitise;

/// A problem with its place, for an error message.
pub(crate) fn plain_problem(name: &str, text: &str, wrong: &Problem) -> String {
    let position = wrong.span.map(|span| PositionCursor::new(text).go(span));
    problem(name, text, wrong, position, &Output::plain())
}

/// The colours and the width of what is printed.
pub(crate) struct Output {
    pub(crate) renderer: Renderer,
    /// `None` if lines may have any length.
    terminal: Option<Terminal>,
}

/// The columns before the text of a help, with a line number of three digits: `    = help: `.
pub(crate) const HELP_COLUMNS: usize = 14;

impl Output {
    pub(crate) fn of(stream: &(impl AsFd + IsTerminal)) -> Self {
        let terminal = Terminal::of(stream);
        let renderer = if terminal.has_colours { Renderer::styled() } else { Renderer::plain() };
        let renderer =
            if terminal.is_bounded { renderer.term_width(terminal.width) } else { renderer };
        Self { renderer, terminal: Some(terminal) }
    }

    pub(crate) fn plain() -> Self {
        Self { renderer: Renderer::plain(), terminal: None }
    }

    /// A text on one line or more, without characters that a terminal obeys.
    pub(crate) fn text(&self, before: usize, text: &str) -> String {
        let text = sanitise(text);
        self.terminal.map_or_else(|| text.clone(), |terminal| terminal.wrap_after(before, &text))
    }
}

/// A problem with its place.
pub(crate) fn problem(
    name: &str,
    text: &str,
    problem: &Problem,
    position: Option<Position>,
    output: &Output,
) -> String {
    let title = Level::ERROR.primary_title(output.text("error: ".len(), &problem.message));
    let mut group = Group::with_title(title);
    group = match (problem.span, position) {
        (Some(_), Some(position)) if problem.is_secret => group.element(origin(name, position)),
        (Some(span), Some(position)) => shown(group, name, text, span, position),
        _ => group.element(Origin::path(sanitise(name))),
    };
    if let Some(help) = &problem.help {
        group = group.element(Level::HELP.message(output.text(HELP_COLUMNS, help)));
    }
    output.renderer.render(&[group])
}

/// The most characters of a line that are shown on either side of a mark.
const NEAR: usize = 240;

/// Adds the line, or the part of a long line near the mark.
pub(crate) fn shown<'a>(
    group: Group<'a>,
    name: &str,
    text: &'a str,
    span: TextSpan,
    position: Position,
) -> Group<'a> {
    let (line, marked) = excerpt(text, span, NEAR);
    let snippet = Snippet::source(line).line_start(position.line);
    // The renderer counts columns from the start of the excerpt.
    let is_whole = line[..marked.start].chars().count() + 1 == position.column;
    let snippet = snippet.annotation(AnnotationKind::Primary.span(marked));
    if is_whole {
        return group.element(snippet.path(sanitise(name)));
    }
    group.element(origin(name, position)).element(snippet)
}

fn origin<'a>(name: &str, position: Position) -> Origin<'a> {
    Origin::path(sanitise(name)).line(position.line).char_column(position.column)
}
