//! Numbers below each other. A table that wraps cannot be read, so on a narrow terminal the less important ones go, and
//! it is said which.

use std::io::{self, Write};

use redial_sim::report::Table;

use crate::terminal::Terminal;
use crate::text::{aligned, sanitise, widths};

/// What goes first where there is no room for all: it follows from others, or decides least.
const LESS_IMPORTANT: [&str; 9] = [
    "calls",
    "p50",
    "attempts",
    "goodput lost",
    "healthy lost",
    "duplicates",
    "p99",
    "peak ratio",
    "time to recover",
];
/// The end of a path is what tells it from others.
const LONGEST_NAME: usize = 20;

/// Columns as wide as their widest text; names to the left, numbers to the right.
pub(super) fn table(table: &Table, terminal: Terminal, out: &mut impl Write) -> io::Result<()> {
    let heads = |line: usize| table.columns.iter().map(move |column| column.name[line].to_owned());
    let rows = table.rows.iter().map(|row| row.iter().map(|cell| sanitise(cell)).collect());
    let mut lines: Vec<Vec<String>> =
        [heads(0).collect(), heads(1).collect()].into_iter().chain(rows).collect();
    let mut titles: Vec<String> = table.columns.iter().map(|column| column.title()).collect();
    let is_wide = whole(&lines, 2) > terminal.width;
    let gap = if is_wide { 1 } else { 2 };
    let mut gone = Vec::new();
    if terminal.is_bounded && whole(&lines, gap) > terminal.width {
        gone.push("±".to_owned());
        lines.iter_mut().skip(2).for_each(|line| {
            line[0] = end(&line[0], LONGEST_NAME);
            line.iter_mut().skip(1).for_each(|cell| *cell = without_error(cell));
        });
    }
    for name in LESS_IMPORTANT {
        if !terminal.is_bounded || whole(&lines, gap) <= terminal.width {
            break;
        }
        if let Some(column) = titles.iter().position(|title| title == name) {
            lines.iter_mut().for_each(|line| _ = line.remove(column));
            gone.push(titles.remove(column));
        }
    }
    let (widths, gap) = (widths(&lines), " ".repeat(gap));
    for (number, line) in lines.iter().enumerate() {
        let line = aligned(line, &widths, &gap, |column| column == 0);
        writeln!(out, "{}", if number < 2 { terminal.dim(&line) } else { line })?;
    }
    if !gone.is_empty() {
        let said = format!("Left out, for want of room: {}.", gone.join(", "));
        writeln!(out, "{}", terminal.dim(&terminal.wrap(&said)))?;
    }
    Ok(())
}

fn whole(lines: &[Vec<String>], gap: usize) -> usize {
    let widths = widths(lines);
    widths.iter().sum::<usize>() + gap * widths.len().saturating_sub(1)
}

/// `1.20 ±0.03` is `1.20`, and `83.1 ±0.2 %` is `83.1 %`.
fn without_error(cell: &str) -> String {
    cell.split(' ').filter(|word| !word.starts_with('±')).collect::<Vec<_>>().join(" ")
}

fn end(name: &str, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        return name.to_owned();
    }
    std::iter::once('…').chain(name.chars().skip(length + 1 - most)).collect()
}
