//! A sweep of one parameter: a diagram for every figure, with a line for every policy.

use super::scale::Scale;
use super::svg::{Svg, brief};
use super::{Cells, SweepReport};
use crate::measure::Metric;
use crate::number::tick;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = WIDTH - 250.0;
const PANEL: f64 = 240.0;
const ROW: f64 = PANEL + 100.0;
/// With more policies than this, colours repeat.
const COLOURS: usize = 8;

impl SweepReport<'_> {
    /// A diagram for every requested figure.
    pub(super) fn diagrams(&self, metrics: &[Metric], alone: bool) -> String {
        let x = &self.sweep.x;
        let legend = self.cells.len() as f64 * 22.0;
        let row = ROW.max(legend + 60.0);
        let svg = Svg::new(WIDTH, 40.0 + row * metrics.len() as f64, &format!("by {}", x.path));
        let mut svg = if alone { svg.alone() } else { svg };
        if alone {
            svg.text((16.0, 24.0), "name", &self.title());
        }
        for (index, metric) in metrics.iter().copied().enumerate() {
            let top = 40.0 + row * index as f64 + 34.0;
            svg.text((LEFT, top - 14.0), "name", metric.name());
            let most = if metric.is_share() { 1.0 } else { self.range(metric).1 };
            let scale = Scale::new(most, top + PANEL, top);
            for value in scale.ticks(5.0) {
                let at = scale.at(value);
                svg.line((LEFT, at), (RIGHT, at), "rule");
                svg.text((LEFT - 8.0, at + 4.0), "small dim end", &tick(&metric.text(value)));
            }
            let every = x.values.len().div_ceil(10);
            for (at, value) in x.values.iter().enumerate().step_by(every) {
                svg.text((self.place(at), top + PANEL + 20.0), "small dim mid", value);
            }
            svg.text(((LEFT + RIGHT) / 2.0, top + PANEL + 42.0), "small mid", &x.path);
            for (number, cells) in self.cells.iter().enumerate() {
                let class = format!("curve c{}", number % COLOURS);
                self.line(&mut svg, cells, metric, scale, &class);
                let y = top + 10.0 + 22.0 * number as f64;
                svg.line((RIGHT + 24.0, y), (RIGHT + 46.0, y), &class);
                svg.text((RIGHT + 54.0, y + 4.0), "small", &brief(&cells.policy, 28));
            }
            for (at, value) in x.values.iter().enumerate() {
                let values = self
                    .cells
                    .iter()
                    .map(|cells| format!("{} {}", cells.policy, self.text(cells, at, metric)));
                let text = format!("{} {value}: {}", x.path, values.collect::<Vec<_>>().join(", "));
                let half = (RIGHT - LEFT - 40.0) / (x.values.len() - 1).max(1) as f64 / 2.0;
                svg.hover([self.place(at) - half, top, 2.0 * half, PANEL], &text);
            }
        }
        svg.finish()
    }

    fn line(&self, svg: &mut Svg, cells: &Cells, metric: Metric, scale: Scale, class: &str) {
        let known = cells.summaries.iter().enumerate().filter_map(|(at, summary)| {
            let spread = summary.as_ref()?.value(metric)?;
            Some((self.place(at), scale.at(spread.mean)))
        });
        let known: Vec<_> = known.collect();
        known.iter().for_each(|at| svg.dot(*at, class));
        svg.path(known.into_iter(), class);
    }

    /// Values are equally spaced, in the given order.
    fn place(&self, at: usize) -> f64 {
        let last = (self.sweep.x.values.len() - 1).max(1) as f64;
        LEFT + 20.0 + (RIGHT - LEFT - 40.0) * at as f64 / last
    }
}
