//! The charts that are shown while the demo runs, as large as the terminal has room for when it starts.

use redial_core::{Span, Time};
use std::io::{self, Write};
use std::ops::Range;

use redial_cli::chart::{ChartCell, ChartSeries, DOTS_ACROSS, Mark, draw, scale};
use redial_sim::Scenario;

use super::NAIVE;
use super::side::{Pair, Side};
use crate::terminal::Terminal;
use crate::text::sanitise;

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const CYAN: &str = "\x1b[36m";
const RESET: &str = "\x1b[0m";
const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// The columns of the scale, and those between two charts.
const MARGIN: usize = 8;
const GAP: usize = 2;
/// The lines of a picture that are not rows of a chart, and one for the cursor.
const OTHER_LINES: usize = 8;

/// Shows both sides, several times a second.
pub(super) trait View {
    fn show(&mut self, sides: &[Side; 2]) -> io::Result<()>;
}

/// The size of the charts.
#[derive(Clone, Copy)]
pub(super) struct Size {
    /// The characters of a chart from left to right.
    width: usize,
    attempts_rows: usize,
    answered_rows: usize,
}

impl Size {
    /// What fits into a terminal.
    pub(super) fn of(terminal: Terminal) -> Self {
        let width = (terminal.width.saturating_sub(MARGIN + GAP) / 2).clamp(12, 100);
        let rows = terminal.height.saturating_sub(OTHER_LINES).clamp(5, 30);
        let answered_rows = rows * 2 / 5;
        Self { width, attempts_rows: rows - answered_rows, answered_rows }
    }

    /// The values of a curve.
    pub(super) fn samples(self) -> usize {
        self.width * DOTS_ACROSS
    }
}

/// Charts that are redrawn in place.
pub(super) struct Screen<'a, W: Write> {
    out: &'a mut W,
    terminal: Terminal,
    size: Size,
    seconds: u64,
    capacity: f64,
    /// The columns in which the backends are down.
    outage: Range<usize>,
    /// The number of lines of the last picture; the cursor is below them.
    lines: usize,
}

/// One quantity of both sides.
struct Panel<'a> {
    rows: usize,
    colours: [&'static str; 2],
    values: [Pair<Vec<f64>>; 2],
    /// Where the scale ends.
    most: f64,
    /// The limit.
    limit: &'a [f64],
}

/// The time of the first line.
const FIRST: Time = Time::at(Span::SECOND);

/// A line per second, for output that is not a terminal.
pub(super) struct Plain<'a, W: Write> {
    out: &'a mut W,
    next: Time,
}

/// Describes the setting.
fn introduce(out: &mut impl Write, scenario: &Scenario, terminal: Terminal) -> io::Result<()> {
    let (from, to) = scenario.fault_span().unwrap_or_default();
    let tenths = |at: Time| at.since_zero().as_secs_f64();
    let patience =
        scenario.policy.get(NAIVE).and_then(|naive| naive.attempt_timeout_limit().span());
    let text = format!(
        "Two backends on loopback, each with a capacity of {:.0} requests per second and callers that send 0.8 of that. \
         Both are down from {:.1} s to {:.1} s. Callers wait {} ms for a response, and the queue of a backend has room \
         for {} requests.",
        scenario.backend.capacity(),
        tenths(from),
        tenths(to),
        patience.unwrap_or_default().as_millis(),
        scenario.backend.queue
    );
    writeln!(out, "{}\n", terminal.wrap(&text))
}

impl<'a, W: Write> Screen<'a, W> {
    pub(super) fn new(
        out: &'a mut W,
        scenario: &Scenario,
        terminal: Terminal,
        size: Size,
    ) -> io::Result<Self> {
        introduce(out, scenario, terminal)?;
        out.write_all(HIDE_CURSOR.as_bytes())?;
        let (seconds, capacity) = (scenario.duration.as_secs(), scenario.backend.capacity());
        let (from, to) = scenario.fault_span().unwrap_or_default();
        let column = |at: Time| at.since_zero().ratio_to(scenario.duration) * size.width as f64;
        let outage = column(from).floor() as usize..column(to).ceil() as usize;
        Ok(Self { out, terminal, size, seconds, capacity, outage, lines: 0 })
    }

    /// Two charts beside each other, with one scale.
    fn charts(&self, picture: &mut Vec<String>, panel: &Panel<'_>) {
        let Panel { rows, colours, values, most, limit } = panel;
        let [left, right] = values.each_ref().map(|Pair { measured, predicted }| {
            let measured = ChartSeries { values: measured, mark: Mark::Area };
            let limit = ChartSeries { values: limit, mark: Mark::Dotted };
            let predicted = ChartSeries { values: predicted, mark: Mark::Line };
            draw(&[measured, limit, predicted], *most, *rows, self.size.width)
        });
        let mut label = format!("{most:.0}");
        for (left, right) in left.iter().zip(&right) {
            let (left, right) = (self.row(left, colours[0]), self.row(right, colours[1]));
            picture.push(format!("{label:>6} │{left} │{right}"));
            label.clear();
        }
        let axis = self.axis();
        picture.push(format!("{:>6} └{axis} └{axis}", 0));
    }

    /// The line below a chart, on which the outage is marked.
    fn axis(&self) -> String {
        let mark = |column| if self.outage.contains(&column) { '═' } else { '─' };
        let part = |columns: Range<usize>| columns.map(mark).collect::<String>();
        let Range { start, end } = self.outage;
        let (start, end) = (start.min(self.size.width), end.min(self.size.width));
        let outage = self.terminal.with("31", &part(start..end));
        format!("{}{outage}{}", part(0..start), part(end..self.size.width))
    }

    fn row(&self, cells: &[ChartCell], colour: &str) -> String {
        let mut row = String::new();
        let mut last = None;
        for cell in cells {
            if self.terminal.has_colours && last != Some(cell.mark) {
                row.push_str(match cell.mark {
                    Some(Mark::Dotted) => YELLOW,
                    Some(Mark::Line) => CYAN,
                    Some(Mark::Area) | None => colour,
                });
                last = Some(cell.mark);
            }
            row.push(cell.character());
        }
        if self.terminal.has_colours {
            row.push_str(RESET);
        }
        row
    }

    fn picture(&self, sides: &[Side; 2]) -> Vec<String> {
        let width = self.size.width;
        let fitted = |text: &str| sanitise(text).chars().take(width).collect::<String>();
        let beside = |texts: [String; 2]| {
            let [left, right] = texts.map(|text| fitted(&text));
            format!("{left:<width$}  {right}")
        };
        let names = sides.each_ref().map(|side| side.name.clone());
        let mut picture = vec![format!("{:MARGIN$}{}", "", beside(names))];
        picture.push(self.caption("attempts per second (line: predicted, dots: capacity)"));
        let values = sides.each_ref().map(Side::attempts);
        let all = values.iter().flat_map(|pair| pair.measured.iter().chain(&pair.predicted));
        let most = scale(all.copied().fold(self.capacity, f64::max));
        let limit = &vec![self.capacity; self.size.samples()];
        let (rows, colours) = (self.size.attempts_rows, [RED, GREEN]);
        self.charts(&mut picture, &Panel { rows, colours, values, most, limit });
        picture.push(self.caption("answered calls per second (line: predicted, ═: outage)"));
        let values = sides.each_ref().map(Side::answered);
        // The backend cannot answer more than its capacity for long.
        let most = scale(self.capacity);
        // A success is green on both sides.
        let (rows, colours) = (self.size.answered_rows, [GREEN, GREEN]);
        self.charts(&mut picture, &Panel { rows, colours, values, most, limit: &[] });
        let axis =
            format!("{:<8}{:>rest$}", "0 s", format!("{} s", self.seconds), rest = width - 8);
        picture.push(format!("{:MARGIN$}{axis}  {axis}", ""));
        let now = sides[0].now().since_zero().as_secs_f64();
        let seconds = sides.each_ref().map(|side| last_second(side, width));
        picture.push(format!("{now:>5.1} s {}", beside(seconds)));
        picture
    }

    fn caption(&self, text: &str) -> String {
        text.chars().take(self.terminal.width).collect()
    }
}

impl<W: Write> View for Screen<'_, W> {
    fn show(&mut self, sides: &[Side; 2]) -> io::Result<()> {
        let picture = self.picture(sides);
        let mut text = String::new();
        if self.lines > 0 {
            text.push_str(&format!("\x1b[{}A", self.lines));
        }
        for line in &picture {
            // Clears the rest of the line, which may have been longer.
            text.push_str(&format!("\r{line}\x1b[K\n"));
        }
        self.lines = picture.len();
        // One write, because half a picture flickers.
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Drop for Screen<'_, W> {
    fn drop(&mut self) {
        // If this fails, there is no terminal any more.
        drop(writeln!(self.out, "{SHOW_CURSOR}"));
    }
}

impl<'a, W: Write> Plain<'a, W> {
    pub(super) fn new(out: &'a mut W, scenario: &Scenario, terminal: Terminal) -> io::Result<Self> {
        introduce(out, scenario, terminal)?;
        Ok(Self { out, next: FIRST })
    }

    fn head(&mut self, [left, right]: &[Side; 2]) -> io::Result<()> {
        writeln!(self.out, "per second; predictions of the simulator in parentheses")?;
        writeln!(self.out, "{:8}{:<30}{}", "", left.name, right.name)?;
        let columns = format!("{:<15}{:<15}", "attempts", "answered");
        writeln!(self.out, "{:8}{columns}{}", "", columns.trim_end())
    }
}

impl<W: Write> View for Plain<'_, W> {
    fn show(&mut self, sides: &[Side; 2]) -> io::Result<()> {
        let now = sides[0].now();
        if now < self.next {
            return Ok(());
        }
        if self.next == FIRST {
            self.head(sides)?;
        }
        let seconds = now.since_zero().as_secs();
        self.next = Time::at(Span::from_secs(seconds + 1));
        let line: String = sides.iter().flat_map(Side::last_second).map(column).collect();
        writeln!(self.out, "{seconds:>4} s  {}", line.trim_end())?;
        self.out.flush()
    }
}

fn column(Pair { measured, predicted }: Pair<usize>) -> String {
    format!("{measured:>4} {:<10}", format!("({predicted})"))
}

fn last_second(side: &Side, width: usize) -> String {
    let [attempts, answered] = side.last_second().map(|pair| pair.measured);
    let text = format!("{attempts} attempts, {answered} answered");
    if text.len() <= width { text } else { format!("{attempts} → {answered}") }
}
