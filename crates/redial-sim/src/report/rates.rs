//! Measured rates that differ by orders of magnitude, on a logarithmic scale: on a linear one the smaller rate
//! would not be visible.

use super::scale::Scale;
use super::svg::{Svg, brief};
use crate::number::{count, milliseconds, tick};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = 364.0;

/// Curves over the same time, and the events of that time.
#[derive(Clone, Debug)]
pub struct Rates<'a> {
    /// The title.
    pub title: &'a str,
    /// The unit of the curves, such as "retries a second".
    pub unit: &'a str,
    /// The curves: a name, and a value for each second.
    pub curves: &'a [(&'a str, &'a [f64])],
    /// Labelled spans in seconds: from, to, label.
    pub spans: &'a [(f64, f64, &'a str)],
}

impl Rates<'_> {
    /// The figure as a standalone file.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new(WIDTH, BOTTOM + 48.0, self.title).alone();
        svg.text((LEFT, 24.0), "name", self.title);
        let mut legend = LEFT;
        for (number, (name, _)) in self.curves.iter().enumerate() {
            svg.line((legend, 48.0), (legend + 20.0, 48.0), &class(number));
            let name = brief(name, 60);
            svg.text((legend + 27.0, 52.5), "small", &name);
            legend += 54.0 + 6.5 * name.chars().count() as f64;
        }
        svg.text((legend, 52.5), "small dim", &format!("({}, logarithmic)", self.unit));
        let values = || self.curves.iter().flat_map(|(_, values)| *values);
        let decades = values().copied().fold(10.0, f64::max).log10().ceil();
        let seconds = self.curves.iter().map(|(_, values)| values.len()).max().unwrap_or(1);
        let x = Scale::new(seconds as f64, LEFT, RIGHT);
        let y = Scale::new(decades, BOTTOM, TOP);
        self.frame(&mut svg, x, y);
        for (number, (_, values)) in self.curves.iter().enumerate() {
            // Values below one are drawn at one, the foot of the scale.
            let steps = values.iter().zip(1..);
            let steps =
                steps.map(|(value, end)| (y.at(value.max(1.0).log10()), x.at(f64::from(end))));
            svg.steps(x.at(0.0), steps, None, &class(number));
        }
        svg.finish()
    }

    fn frame(&self, svg: &mut Svg, x: Scale, y: Scale) {
        for (from, to, what) in self.spans {
            let (from, to) = (x.at(*from), x.at(*to));
            svg.rect([from, TOP, (to - from).max(2.0), BOTTOM - TOP], "fault", 1.0);
            svg.text((from, TOP - 6.0), "small dim", what);
        }
        for decade in y.ticks(10.0).into_iter().filter(|decade| decade.fract() == 0.0) {
            let at = y.at(decade);
            svg.line((LEFT, at), (RIGHT, at), "rule");
            svg.text((LEFT - 8.0, at + 4.0), "small dim end", &tick(&count(10f64.powf(decade))));
        }
        for second in x.ticks(10.0) {
            let at = x.at(second);
            svg.line((at, BOTTOM), (at, BOTTOM + 4.0), "rule");
            svg.text((at, BOTTOM + 18.0), "small dim mid", &tick(&milliseconds(second * 1e3)));
        }
    }
}

fn class(number: usize) -> String {
    format!("curve c{}", number % 8)
}
