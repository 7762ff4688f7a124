//! A chart of arriving attempts over time, in a few lines of the terminal.

use std::io::{self, Write};

use redial_sim::report::{Picture, Point, count, milliseconds};

use crate::terminal::Terminal;

const ROWS: usize = 6;
/// The levels of a line of the terminal.
const LEVELS: usize = 8;
const BLOCKS: [&str; LEVELS + 1] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// The width of the labels to the left of a chart.
pub(super) const MARGIN: usize = 10;

/// SGR codes of the 16 basic colours: first attempts blue, retries yellow.
const FIRST: &str = "34";
const RETRY: &str = "33";
const RETRY_ABOVE_FIRST: &str = "34;43";
const FAULT: &str = "31";

pub(super) fn legend(
    out: &mut impl Write,
    picture: &Picture,
    terminal: Terminal,
) -> io::Result<()> {
    let window = milliseconds(picture.window_ms);
    let unit = match picture.point_ms > picture.window_ms {
        true => format!("the busiest {window} of each column"),
        false => format!("windows of {window}"),
    };
    let retry = if terminal.has_colours { "█" } else { "▒" };
    let mut signs = Vec::new();
    let mut sign = |code: &str, sign: &str, text: &str| {
        let width = sign.chars().count() + 1 + text.chars().count();
        signs.push((format!("{} {text}", terminal.with(code, sign)), width));
    };
    match picture.steady {
        Some(_) => {
            sign(FIRST, "█", "first attempts");
            sign(RETRY, retry, "retries");
            sign("0", "┄", "steady");
        }
        None => sign(RETRY, retry, "retries (the simultaneous first attempts are left out)"),
    }
    if picture.fault_ms.is_some() {
        sign(FAULT, "━", "fault");
    }
    // The heading is before the first sign, or on a line of its own if it does not fit.
    let head = format!("Attempts per second, {unit}:");
    let (first, width) = signs[0].clone();
    let together = head.chars().count() + 1 + width;
    if terminal.is_bounded && together > terminal.width {
        writeln!(out, "{}", terminal.wrap(&head))?;
    } else {
        signs[0] = (format!("{head} {first}"), together);
    }
    writeln!(out, "{}", terminal.flow(&signs))
}

/// The chart of one policy, on a common scale.
pub(super) fn chart(
    out: &mut impl Write,
    picture: &Picture,
    points: &[Point],
    terminal: Terminal,
) -> io::Result<()> {
    let width = terminal.width - MARGIN;
    let level = |value: f64| {
        let level = value / picture.most.max(f64::MIN_POSITIVE) * (ROWS * LEVELS) as f64;
        // Any value above zero is visible.
        if value > 0.0 { level.round().max(1.0) as usize } else { 0 }
    };
    let steady = picture.steady.map(|steady| level(steady).saturating_sub(1) / LEVELS);
    for row in (0..ROWS).rev() {
        let label = match row {
            _ if steady == Some(row) => count(picture.steady.unwrap_or_default()),
            _ if row == ROWS - 1 => count(picture.most),
            _ => String::new(),
        };
        let empty = if steady == Some(row) { terminal.dim("┄") } else { " ".to_owned() };
        write!(out, "{label:>width$} │", width = MARGIN - 2)?;
        let cells = (0..width).map(|column| {
            // With fewer points than columns, a point has several columns.
            let point = points[column * points.len() / width];
            let within = |value| level(value).saturating_sub(row * LEVELS).min(LEVELS);
            match (within(point.firsts), within(point.attempts())) {
                (_, 0) => empty.clone(),
                (first, all) => block(first, all, terminal),
            }
        });
        let line: String = cells.collect();
        writeln!(out, "{}", line.trim_end())?;
    }
    axis(out, picture, width, terminal)
}

/// A cell that is filled to `all` eighths, of which the lower `first` are first attempts.
fn block(first: usize, all: usize, terminal: Terminal) -> String {
    if !terminal.has_colours {
        let sign = match (2 * first >= all, all) {
            (true, all) => BLOCKS[all],
            (false, 5..) => "▒",
            (false, _) => "░",
        };
        return sign.to_owned();
    }
    match first {
        0 => terminal.with(RETRY, BLOCKS[all]),
        LEVELS => terminal.with(FIRST, BLOCKS[LEVELS]),
        _ if all == LEVELS => terminal.with(RETRY_ABOVE_FIRST, BLOCKS[first]),
        // A cell has two colours, and one of them is the background.
        _ if 2 * first >= all => terminal.with(FIRST, BLOCKS[all]),
        _ => terminal.with(RETRY, BLOCKS[all]),
    }
}

fn axis(
    out: &mut impl Write,
    picture: &Picture,
    width: usize,
    terminal: Terminal,
) -> io::Result<()> {
    let length = picture.length_ms().max(f64::MIN_POSITIVE);
    let column = |ms: f64| ((ms / length * width as f64) as usize).min(width - 1);
    let fault = picture.fault_ms.map(|(start, end)| {
        let from = column(start);
        (from, ((end / length * width as f64).ceil() as usize).clamp(from + 1, width))
    });
    let (from, to) = fault.unwrap_or((width, width));
    let margin = " ".repeat(MARGIN - 1);
    writeln!(
        out,
        "{margin}└{}{}{}",
        "─".repeat(from),
        terminal.with(FAULT, &"━".repeat(to - from)),
        "─".repeat(width - to)
    )?;
    let end = milliseconds(length);
    let mut marks = "0".to_owned();
    if let Some((start, end_ms)) = picture.fault_ms {
        let text = match milliseconds(start) {
            start if end_ms > picture.fault_ms.map_or(0.0, |(start, _)| start) => {
                format!("{start} to {}", milliseconds(end_ms))
            }
            start => start,
        };
        let fits = from + text.chars().count() + 2 + end.chars().count() <= width;
        if fits && from >= 2 {
            marks = format!("{marks:<from$}{text}");
        }
    }
    let rest = width.saturating_sub(marks.chars().count());
    writeln!(out, "{margin} {}", terminal.dim(&format!("{marks}{end:>rest$}")))
}
