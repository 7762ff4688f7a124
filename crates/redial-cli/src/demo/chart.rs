//! A braille character has two columns of four dots, so a chart of a few lines shows a curve of many.

/// Characters across.
pub(super) const WIDTH: usize = 34;
/// Values across: two to a character.
pub(super) const SAMPLES: usize = 2 * WIDTH;
const DOTS_DOWN: usize = 4;

/// Values over time.
pub(super) struct Series<'a> {
    /// From the left; there may be fewer than fit.
    pub(super) values: &'a [f64],
    pub(super) mark: Mark,
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Filled down to zero: what was measured.
    Area,
    /// A dot per value: what it is compared with. Over an area it is a gap, so that it shows without colours.
    Line,
}

/// A character of a chart.
#[derive(Clone, Copy, Default)]
pub(super) struct Cell {
    dots: u8,
    /// Whether a line goes through it.
    pub(super) is_line: bool,
}

impl Cell {
    pub(super) fn character(self) -> char {
        char::from_u32(0x2800 + u32::from(self.dots)).unwrap_or(' ')
    }
}

/// Draws all series over each other; the first row is the top one, where `most` is.
pub(super) fn draw(series: &[Series<'_>], most: f64, rows: usize) -> Vec<[Cell; WIDTH]> {
    let mut cells = vec![[Cell::default(); WIDTH]; rows];
    let levels = rows * DOTS_DOWN;
    for Series { values, mark } in series {
        for (x, value) in values.iter().take(SAMPLES).enumerate() {
            let height = (value / most * levels as f64).round().clamp(0.0, levels as f64) as usize;
            let lowest = if *mark == Mark::Area { 1 } else { height.max(1) };
            for level in lowest..=height {
                let from_top = levels - level;
                let cell = &mut cells[from_top / DOTS_DOWN][x / 2];
                cell.dots ^= dot(x % 2, from_top % DOTS_DOWN);
                cell.is_line |= *mark == Mark::Line;
            }
        }
    }
    cells
}

/// Unicode numbers the dots of the upper three rows by column, and those of the fourth, which came later, at last.
fn dot(column: usize, row: usize) -> u8 {
    match row {
        3 => 0x40 << column,
        _ => 1 << (row + 3 * column),
    }
}

/// The end of a scale: the least of 1, 2, 2.5 and 5 times a power of ten that holds `value`.
pub(super) fn scale(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1.0).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= value).unwrap_or(10.0 * power)
}
