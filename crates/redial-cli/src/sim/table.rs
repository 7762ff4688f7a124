//! The table of results. A table that wraps is unreadable, so on a narrow terminal the less important columns are left
//! out, and named below it.

use std::io::{self, Write};

use redial_sim::report::TextTable;

use crate::terminal::Terminal;
use crate::text::{aligned, sanitise, widths};

/// The columns that are left out on a narrow terminal, in this order.
const LESS_IMPORTANT: [&str; 14] = [
    "worst cell",
    "in cell",
    "done twice",
    "worst load",
    "p95",
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
/// The most characters of a name that are shown: the end of a path distinguishes it.
const LONGEST_NAME: usize = 20;

pub(super) fn table(table: &TextTable, terminal: Terminal, out: &mut impl Write) -> io::Result<()> {
    let heads = |line: usize| table.columns.iter().map(move |column| column.name[line].to_owned());
    let rows = table.rows.iter().map(|row| row.iter().map(|cell| sanitise(cell)).collect());
    let mut lines: Vec<Vec<String>> =
        [heads(0).collect(), heads(1).collect()].into_iter().chain(rows).collect();
    let mut titles: Vec<String> = table.columns.iter().map(|column| column.title()).collect();
    let is_wide = total_width(&lines, 2) > terminal.width;
    let gap = if is_wide { 1 } else { 2 };
    let mut left_out = Vec::new();
    if terminal.is_bounded && total_width(&lines, gap) > terminal.width {
        left_out.push("±".to_owned());
        lines.iter_mut().skip(2).for_each(|line| {
            line[0] = end(&line[0], LONGEST_NAME);
            line.iter_mut().skip(1).for_each(|cell| *cell = without_error(cell));
        });
    }
    for name in LESS_IMPORTANT {
        if !terminal.is_bounded || total_width(&lines, gap) <= terminal.width {
            break;
        }
        if let Some(column) = titles.iter().position(|title| title == name) {
            lines.iter_mut().for_each(|line| _ = line.remove(column));
            left_out.push(titles.remove(column));
        }
    }
    let (widths, gap) = (widths(&lines), " ".repeat(gap));
    for (number, line) in lines.iter().enumerate() {
        let line = aligned(line, &widths, &gap, |column| column == 0);
        writeln!(out, "{}", if number < 2 { terminal.dim(&line) } else { line })?;
    }
    if !left_out.is_empty() {
        let note = format!("Columns that do not fit: {}.", left_out.join(", "));
        writeln!(out, "{}", terminal.dim(&terminal.wrap(&note)))?;
    }
    Ok(())
}

fn total_width(lines: &[Vec<String>], gap: usize) -> usize {
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
