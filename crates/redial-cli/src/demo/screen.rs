//! The charts that are shown while the demo runs. They fit into 80 columns and 24 lines, so the size of the terminal does
//! not matter.

use redial_core::MS;
use std::io::{self, Write};

use redial_cli::chart::{Cell, Mark, SAMPLES, Series, WIDTH, draw, scale};
use redial_sim::Scenario;

use super::side::{Pair, Side};
use super::{NAIVE, SECOND};

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const CYAN: &str = "\x1b[36m";
const RESET: &str = "\x1b[0m";
const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
const ATTEMPTS_ROWS: usize = 6;
const ANSWERED_ROWS: usize = 4;

/// Shows both sides, several times a second.
pub(super) trait View {
    fn show(&mut self, sides: &[Side; 2]) -> io::Result<()>;
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Colours,
    Plain,
}

/// Charts that are redrawn in place.
pub(super) struct Screen<'a, W: Write> {
    out: &'a mut W,
    look: Look,
    seconds: u64,
    capacity: f64,
    /// The number of lines of the last picture; the cursor is below them.
    lines: usize,
}

/// One quantity of both sides.
struct Panel<'a> {
    rows: usize,
    values: [Pair<Vec<f64>>; 2],
    /// Where the scale ends.
    most: f64,
    /// The limit.
    limit: &'a [f64],
}

/// A line per second, for output that is not a terminal.
pub(super) struct Plain<'a, W: Write> {
    out: &'a mut W,
    next: u64,
}

/// Describes the setting.
fn introduce(out: &mut impl Write, scenario: &Scenario) -> io::Result<()> {
    let (from, to) = scenario.fault_span().unwrap_or_default();
    let tenths = |at: u64| at as f64 / SECOND as f64;
    let patience = scenario.policy.get(NAIVE).map_or(0, |naive| naive.attempt_timeout_nanos());
    writeln!(
        out,
        "Two backends on loopback, each with a capacity of {:.0} requests per second and\n\
         callers that send 0.8 of that. Both are down from {:.1} s to {:.1} s. Callers wait\n\
         {} ms for a response, and the queue of a backend has room for {} requests.\n",
        scenario.backend.capacity(),
        tenths(from),
        tenths(to),
        patience / MS,
        scenario.backend.queue
    )
}

impl<'a, W: Write> Screen<'a, W> {
    pub(super) fn new(out: &'a mut W, scenario: &Scenario, look: Look) -> io::Result<Self> {
        introduce(out, scenario)?;
        out.write_all(HIDE_CURSOR.as_bytes())?;
        let (seconds, capacity) = (scenario.duration / SECOND, scenario.backend.capacity());
        Ok(Self { out, look, seconds, capacity, lines: 0 })
    }

    /// Two charts beside each other, with one scale.
    fn charts(&self, picture: &mut Vec<String>, panel: &Panel<'_>) {
        let Panel { rows, values, most, limit } = panel;
        let [left, right] = values.each_ref().map(|Pair { measured, predicted }| {
            let measured = Series { values: measured, mark: Mark::Area };
            let limit = Series { values: limit, mark: Mark::Dotted };
            let predicted = Series { values: predicted, mark: Mark::Line };
            draw(&[measured, limit, predicted], *most, *rows)
        });
        let mut label = format!("{most:.0}");
        for (left, right) in left.iter().zip(&right) {
            let (left, right) = (self.row(left, RED), self.row(right, GREEN));
            picture.push(format!("{label:>6} │{left} │{right}"));
            label.clear();
        }
        let axis = "─".repeat(WIDTH);
        picture.push(format!("{:>6} └{axis} └{axis}", 0));
    }

    fn row(&self, cells: &[Cell; WIDTH], colour: &str) -> String {
        let mut row = String::new();
        let mut last = None;
        for cell in cells {
            if self.look == Look::Colours && last != Some(cell.mark) {
                row.push_str(match cell.mark {
                    Some(Mark::Dotted) => YELLOW,
                    Some(Mark::Line) => CYAN,
                    Some(Mark::Area) | None => colour,
                });
                last = Some(cell.mark);
            }
            row.push(cell.character());
        }
        if self.look == Look::Colours {
            row.push_str(RESET);
        }
        row
    }

    fn picture(&self, sides: &[Side; 2]) -> Vec<String> {
        let [left, right] = sides;
        let mut picture = vec![format!("        {:<WIDTH$}  {}", left.name, right.name)];
        picture.push("attempts per second (line: predicted, dots: capacity)".into());
        let values = sides.each_ref().map(Side::attempts);
        let all = values.iter().flat_map(|pair| pair.measured.iter().chain(&pair.predicted));
        let most = scale(all.copied().fold(self.capacity, f64::max));
        let limit = &[self.capacity; SAMPLES];
        self.charts(&mut picture, &Panel { rows: ATTEMPTS_ROWS, values, most, limit });
        picture.push("answered calls per second (line: predicted)".into());
        let values = sides.each_ref().map(Side::answered);
        // The backend cannot answer more than its capacity for long.
        let most = scale(self.capacity);
        self.charts(&mut picture, &Panel { rows: ANSWERED_ROWS, values, most, limit: &[] });
        let axis =
            format!("{:<w$}{:>h$}", "0 s", format!("{} s", self.seconds), w = 10, h = WIDTH - 10);
        picture.push(format!("        {axis}  {axis}"));
        let now = left.now() as f64 / SECOND as f64;
        let [left, right] = sides.each_ref().map(last_second);
        picture.push(format!("{now:>5.1} s {left:<WIDTH$}  {right}"));
        picture
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
    pub(super) fn new(out: &'a mut W, scenario: &Scenario) -> io::Result<Self> {
        introduce(out, scenario)?;
        Ok(Self { out, next: SECOND })
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
        if self.next == SECOND {
            self.head(sides)?;
        }
        self.next = (now / SECOND + 1) * SECOND;
        let line: String = sides.iter().flat_map(Side::last_second).map(column).collect();
        writeln!(self.out, "{:>4} s  {}", now / SECOND, line.trim_end())?;
        self.out.flush()
    }
}

fn column(Pair { measured, predicted }: Pair<usize>) -> String {
    format!("{measured:>4} {:<10}", format!("({predicted})"))
}

fn last_second(side: &Side) -> String {
    let [attempts, answered] = side.last_second();
    format!("{} attempts, {} answered", attempts.measured, answered.measured)
}
