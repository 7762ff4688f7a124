//! Two parameters, one number: where on the map is the edge?

use super::number::{is_share, named};
use super::svg::Svg;
use super::{Cells, SweepReport};
use crate::sweep::Axis;

const LEFT: f64 = 110.0;
const TOP: f64 = 52.0;
const WIDEST: f64 = 1_200.0;

impl SweepReport<'_> {
    /// A map of one number for every policy.
    pub(super) fn maps(&self, metric: &str, y: &Axis, alone: bool) -> String {
        let x = &self.sweep.x;
        let (columns, rows) = (x.values.len() as f64, y.values.len() as f64);
        let cell =
            (((WIDEST - LEFT) / columns).clamp(6.0, 86.0), if rows > 40.0 { 12.0 } else { 30.0 });
        let (width, height) = (cell.0 * columns, cell.1 * rows);
        let row = height + 92.0;
        let label = format!("{metric} by {} and {}", x.path, y.path);
        let whole = (LEFT + width + 30.0).max(640.0);
        let svg = Svg::new(whole, TOP + row * self.cells.len() as f64, &label);
        let mut svg = if alone { svg.alone() } else { svg };
        if alone {
            svg.text((16.0, 24.0), "name", &self.scenario.title);
        }
        let range = self.range(metric);
        for (index, cells) in self.cells.iter().enumerate() {
            let top = TOP + row * index as f64 + 26.0;
            svg.headline((16.0, top - 10.0), &cells.policy, &label);
            self.colours(&mut svg, cells, metric, range, (top, cell));
            for (at, value) in y.values.iter().enumerate() {
                let middle = top + cell.1 * (rows - 0.5 - at as f64) + 4.0;
                svg.text((LEFT - 8.0, middle), "small dim end", value);
            }
            let every = (46.0 / cell.0).ceil().max(1.0) as usize;
            for (at, value) in x.values.iter().enumerate().step_by(every) {
                let middle = LEFT + cell.0 * (at as f64 + 0.5);
                svg.text((middle, top + height + 18.0), "small dim mid", value);
            }
            svg.text((LEFT + width / 2.0, top + height + 38.0), "small mid", &x.path);
            svg.text((16.0, top + 12.0), "small", &super::svg::brief(y.name(), 11));
        }
        svg.finish()
    }

    /// The higher, the darker; the first row is the lowest, as in a diagram.
    fn colours(
        &self,
        svg: &mut Svg,
        cells: &Cells,
        metric: &str,
        (least, most): (f64, f64),
        (top, (width, height)): (f64, (f64, f64)),
    ) {
        let rows = self.sweep.rows();
        for (at, summary) in cells.summaries.iter().enumerate() {
            let (column, row) = (at % self.sweep.x.values.len(), at / self.sweep.x.values.len());
            let (x, y) = (LEFT + width * column as f64, top + height * (rows - 1 - row) as f64);
            let value = summary.as_ref().and_then(|summary| super::metric(summary, metric));
            if let Some(value) = value {
                let depth = (value - least) / (most - least).max(f64::MIN_POSITIVE);
                svg.rect([x, y, width, height], "heat", depth.clamp(0.0, 1.0) * 0.999);
                if width >= 46.0 && height >= 20.0 {
                    let class = if depth > 0.6 { "small mid on" } else { "small mid" };
                    svg.text(
                        (x + width / 2.0, y + height / 2.0 + 4.0),
                        class,
                        &named(metric, value),
                    );
                }
            }
            svg.rect([x, y, width, height], "cell", 1.0);
        }
    }

    /// From the lightest to the darkest, the same for all policies.
    pub fn range(&self, metric: &str) -> (f64, f64) {
        if is_share(metric) {
            return (0.0, 1.0);
        }
        let all = self.cells.iter().flat_map(|cells| &cells.summaries).flatten();
        let values = all.filter_map(|summary| super::metric(summary, metric));
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
            (least.min(value), most.max(value))
        })
    }
}
