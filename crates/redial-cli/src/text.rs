//! Text for a terminal: lines that fit, columns that align, and no characters that a terminal obeys.

/// Breaks a text into lines of at most `width` characters, at whitespace.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    fill(text.split_whitespace().map(|word| (word, word.chars().count())), " ", width)
}

/// Puts pieces beside each other, in lines of at most `width` columns. Each piece comes with the number of columns that
/// it takes: escape sequences take none.
pub(crate) fn fill<'a>(
    pieces: impl IntoIterator<Item = (&'a str, usize)>,
    gap: &str,
    width: usize,
) -> Vec<String> {
    let (mut lines, mut used): (Vec<String>, usize) = (Vec::new(), 0);
    for (piece, columns) in pieces {
        match lines.last_mut() {
            Some(line) if used + gap.len() + columns <= width => {
                line.push_str(gap);
                line.push_str(piece);
                used += gap.len() + columns;
            }
            _ => {
                lines.push(piece.to_owned());
                used = columns;
            }
        }
    }
    lines
}

/// The width of each column: that of its widest cell.
pub(crate) fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    (0..columns).map(|column| width(column).unwrap_or(0)).collect()
}

/// A row of a table. `is_left` tells which columns are aligned to the left; the others are to the right.
pub(crate) fn aligned(
    row: &[String],
    widths: &[usize],
    gap: &str,
    is_left: impl Fn(usize) -> bool,
) -> String {
    let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
        if is_left(column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    cells.collect::<Vec<_>>().join(gap).trim_end().to_owned()
}

/// Untrusted text on one line, without characters that would move the cursor or change the order of the text.
pub(crate) fn sanitise(text: &str) -> String {
    text.chars().map(|c| if is_obeyed(c) { '\u{fffd}' } else { c }).collect()
}

/// The same for a text of several lines.
pub(crate) fn sanitise_lines(text: &str) -> String {
    text.lines().map(|line| sanitise(&line.replace('\t', " "))).collect::<Vec<_>>().join("\n")
}

/// Whether a terminal acts on a character instead of showing it: control characters, line separators, and marks that
/// reverse the direction of text.
pub(crate) fn is_obeyed(c: char) -> bool {
    let reverses = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || reverses || matches!(c, '\u{2028}' | '\u{2029}')
}
