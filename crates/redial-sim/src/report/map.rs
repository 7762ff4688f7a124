//! A sweep of two parameters: a heat map for every figure and policy.

use super::svg::Svg;
use super::{Cells, SweepReport};
use crate::measure::{Metric, Share, Spread, Summary};
use crate::sweep::Axis;

const LEFT: f64 = 110.0;
const TOP: f64 = 52.0;
const WIDEST: f64 = 1_200.0;

impl SweepReport<'_> {
    /// A map of every requested figure, for every policy.
    pub(super) fn maps(&self, metrics: &[Metric], y: &Axis, alone: bool) -> String {
        let x = &self.sweep.x;
        let (columns, rows) = (x.values.len() as f64, y.values.len() as f64);
        let cell =
            (((WIDEST - LEFT) / columns).clamp(6.0, 86.0), if rows > 40.0 { 12.0 } else { 30.0 });
        let (width, height) = (cell.0 * columns, cell.1 * rows);
        let row = height + 116.0;
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name()).collect();
        let label = |metric: &str| format!("{metric} by {} and {}", x.path, y.path);
        let whole = (LEFT + width + 30.0).max(640.0);
        let svg = Svg::new(
            whole,
            TOP + row * (self.cells.len() * metrics.len()) as f64,
            &label(&names.join(", ")),
        );
        let mut svg = if alone { svg.alone() } else { svg };
        if alone {
            svg.text((16.0, 24.0), "name", &self.title());
        }
        let each = self.cells.iter().flat_map(|cells| metrics.iter().map(move |it| (cells, *it)));
        for (index, (cells, metric)) in each.enumerate() {
            let top = TOP + row * index as f64 + 26.0;
            svg.headline((16.0, top - 10.0), &cells.policy, &label(metric.name()));
            self.colours(&mut svg, cells, metric, (top, cell));
            self.key(&mut svg, cells, metric, top + height + 52.0);
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

    /// The legend of the colours, and how certain they are.
    fn key(&self, svg: &mut Svg, cells: &Cells, metric: Metric, top: f64) {
        let (least, most) = self.range(metric);
        if least > most {
            return;
        }
        svg.text((LEFT - 8.0, top + 11.0), "small dim end", &metric.text(least));
        for step in 0..5 {
            let value = least + (most - least) * f64::from(step) / 4.0;
            let place = [LEFT + 22.0 * f64::from(step), top, 22.0, 14.0];
            svg.rect(place, "heat key", Self::depth(metric, value, (least, most)) * 0.999);
            svg.rect(place, "cell", 1.0);
        }
        let said = [Some(metric.text(most)), self.interval(cells, metric)];
        let said = said.into_iter().flatten().collect::<Vec<_>>().join(" · ");
        svg.text((LEFT + 118.0, top + 11.0), "small dim", &said);
    }

    /// How bad a value is in its [range](Self::range), from 0 to 1. For most figures more is worse.
    pub fn depth(metric: Metric, value: f64, (least, most): (f64, f64)) -> f64 {
        let depth = ((value - least) / (most - least).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        if metric == Metric::Success { 1.0 - depth } else { depth }
    }

    /// The widest confidence interval of the shares: a share of few runs is easily overrated.
    pub fn interval(&self, cells: &Cells, metric: Metric) -> Option<String> {
        let ran = || cells.summaries.iter().flatten();
        let width = |summary: &Summary| summary.collapse.high - summary.collapse.low;
        let widest = ran().max_by(|a, b| width(a).total_cmp(&width(b)));
        let summary = widest.filter(|_| metric == Metric::Collapse)?;
        let Share { value, low, high } = summary.collapse;
        let runs = match summary.runs {
            1 => "1 run".to_owned(),
            runs => format!("{runs} runs"),
        };
        let [value, low, high] = [value, low, high].map(|share| format!("{:.0}", share * 100.0));
        Some(format!("{runs} of each cell: {value} % is {low}–{high} %"))
    }

    /// Worse cells are darker. The first row is at the bottom, as in a diagram.
    fn colours(
        &self,
        svg: &mut Svg,
        cells: &Cells,
        metric: Metric,
        (top, (width, height)): (f64, (f64, f64)),
    ) {
        let (rows, range) = (self.sweep.rows(), self.range(metric));
        for (at, summary) in cells.summaries.iter().enumerate() {
            let (column, row) = (at % self.sweep.x.values.len(), at / self.sweep.x.values.len());
            let (x, y) = (LEFT + width * column as f64, top + height * (rows - 1 - row) as f64);
            let value = summary.as_ref().and_then(|summary| summary.value(metric));
            if let Some(Spread { mean: value, .. }) = value {
                let depth = Self::depth(metric, value, range);
                svg.rect([x, y, width, height], "heat", depth * 0.999);
                if width >= 46.0 && height >= 20.0 {
                    let class = if depth > 0.6 { "small mid on" } else { "small mid" };
                    svg.text((x + width / 2.0, y + height / 2.0 + 4.0), class, &metric.text(value));
                }
            }
            svg.rect([x, y, width, height], "cell", 1.0);
            let text = format!("{}: {}", cells.policy, self.text(cells, at, metric));
            svg.hover([x, y, width, height], &text);
        }
    }

    /// The range of the colours, the same for all policies.
    pub fn range(&self, metric: Metric) -> (f64, f64) {
        if metric.is_share() {
            return (0.0, 1.0);
        }
        let all = self.cells.iter().flat_map(|cells| &cells.summaries).flatten();
        let values = all.filter_map(|summary| summary.value(metric)).map(|spread| spread.mean);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
            (least.min(value), most.max(value))
        })
    }
}
