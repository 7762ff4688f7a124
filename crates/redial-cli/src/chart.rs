//! Charts of braille characters, each of which has two columns of four dots: a curve needs only a few lines.

/// Values across a character.
pub const DOTS_ACROSS: usize = 2;
const DOTS_DOWN: usize = 4;
/// The number of samples per dot of a dotted line.
const DOTTED: usize = 4;

/// Values over time.
#[derive(Clone, Copy, Debug)]
pub struct ChartSeries<'a> {
    /// From the left, [`DOTS_ACROSS`] to a character; may be fewer than the chart has room for.
    pub values: &'a [f64],
    /// How it is drawn.
    pub mark: Mark,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Filled down to zero: the measured values.
    Area,
    /// A dot per value: the values to compare with. Over an area it is a gap, so that it shows without colours.
    Line,
    /// A line with gaps: a limit.
    Dotted,
}

/// A character of a chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChartCell {
    area: u8,
    line: u8,
    /// The last line that passes through it.
    pub mark: Option<Mark>,
}

impl ChartCell {
    /// The braille character.
    pub fn character(self) -> char {
        char::from_u32(0x2800 + u32::from(self.area ^ self.line)).unwrap_or(' ')
    }
}

/// Draws all series over each other. `width` and `rows` count characters. The first row is the top, which is the value `most`.
pub fn draw(
    series: &[ChartSeries<'_>],
    most: f64,
    rows: usize,
    width: usize,
) -> Vec<Vec<ChartCell>> {
    let mut cells = vec![vec![ChartCell::default(); width]; rows];
    let levels = rows * DOTS_DOWN;
    for ChartSeries { values, mark } in series {
        let every = if *mark == Mark::Dotted { DOTTED } else { 1 };
        for (x, value) in values.iter().take(width * DOTS_ACROSS).enumerate().step_by(every) {
            let height = (value / most * levels as f64).round().clamp(0.0, levels as f64) as usize;
            let lowest = if *mark == Mark::Area { 1 } else { height.max(1) };
            for level in lowest..=height {
                let from_top = levels - level;
                let cell = &mut cells[from_top / DOTS_DOWN][x / DOTS_ACROSS];
                let dot = dot(x % DOTS_ACROSS, from_top % DOTS_DOWN);
                if *mark == Mark::Area {
                    cell.area |= dot;
                } else {
                    cell.line |= dot;
                    cell.mark = Some(*mark);
                }
            }
        }
    }
    cells
}

/// Unicode numbers the dots of the upper three rows by column, and then those of the fourth row, which was added later.
fn dot(column: usize, row: usize) -> u8 {
    match row {
        3 => 0x40 << column,
        _ => 1 << (row + 3 * column),
    }
}

/// The upper end of a scale: the smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `value`.
pub fn scale(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1.0).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= value).unwrap_or(10.0 * power)
}
