//! Which lines of a Markdown file are text, and which are code that only looks like a link or a heading?

/// The lines of a file, each with the fenced block it is in.
pub(super) struct Lines<'a> {
    lines: Vec<Line<'a>>,
}

pub(super) struct Line<'a> {
    /// Counted from 0.
    pub(super) index: usize,
    pub(super) text: &'a str,
    /// The index of the line that opened the fenced block this line belongs to, the fences
    /// included.
    pub(super) fence: Option<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        let mut open: Option<(usize, &str)> = None;
        let lines = text.lines().enumerate().map(|(index, text)| {
            let fence = fence(text);
            let in_block = match (open, fence) {
                (None, None) => None,
                (None, Some(fence)) => {
                    open = Some((index, fence));
                    Some(index)
                }
                (Some((opened, opening)), closing) => {
                    let bare = text.trim().len() == closing.map_or(0, str::len);
                    if bare && closing.is_some_and(|closing| closing.starts_with(opening)) {
                        open = None;
                    }
                    Some(opened)
                }
            };
            Line { index, text, fence: in_block }
        });
        Self { lines: lines.collect() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Line<'a>> {
        self.lines.iter()
    }

    /// The lines outside fenced blocks, counted from 1, with their code spans blanked.
    pub(super) fn prose(&self) -> impl Iterator<Item = (usize, String)> {
        let lines = self.iter().filter(|line| line.fence.is_none());
        lines.map(|line| (line.index + 1, without_code_spans(line.text)))
    }

    /// The texts of the headings.
    pub(super) fn headings(&self) -> impl Iterator<Item = &str> {
        self.iter().filter(|line| line.fence.is_none()).filter_map(|line| {
            let text = line.text.trim_start_matches('#');
            let level = line.text.len() - text.len();
            let is_heading = (1..=6).contains(&level) && text.starts_with(' ');
            is_heading.then(|| text.trim().trim_end_matches('#').trim_end())
        })
    }
}

/// The backticks or tildes that open or close a fenced block on this line.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    let info = &line[length..];
    // Three backticks may also start a code span, which then ends on the same line.
    (length >= 3 && !(mark == '`' && info.contains('`'))).then(|| &line[..length])
}

fn without_code_spans(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let (before, ticks) = rest.split_at(at);
        let length = ticks.len() - ticks.trim_start_matches('`').len();
        out.push_str(before);
        match closing(&ticks[length..], length) {
            Some(end) => {
                out.push(' ');
                rest = &ticks[length + end..];
            }
            None => {
                out.push_str(&ticks[..length]);
                rest = &ticks[length..];
            }
        }
    }
    out + rest
}

/// Where the text after the next run of exactly `length` backticks starts.
fn closing(text: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(next) = text[at..].find('`') {
        at += next;
        let run = text[at..].len() - text[at..].trim_start_matches('`').len();
        at += run;
        if run == length {
            return Some(at);
        }
    }
    None
}
