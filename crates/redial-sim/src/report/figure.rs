//! The SVG figure of a report: attempts, served attempts and successful calls over time, one panel per policy.

use super::number::{count, milliseconds, percent, ratio, tick};
use super::scale::Scale;
use super::svg::Svg;
use super::table::collapse;
use super::{Case, Picture, Point, Report};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = WIDTH - 20.0;
/// The space for the title and the legend.
const TOP: f64 = 66.0;
const PANEL: f64 = 120.0;
/// A panel with its headline and its axis.
const ROW: f64 = PANEL + 66.0;
/// More points than this cannot be distinguished.
const POINTS: usize = 1_400;

impl Report<'_> {
    /// The figure as a standalone file.
    pub fn svg(&self) -> String {
        self.figure(true)
    }

    pub(super) fn figure(&self, alone: bool) -> String {
        let cases: Vec<Case> =
            self.cases.iter().filter(|case| case.summary.runs > 0).cloned().collect();
        let picture = Picture::of(self.scenario, &cases, POINTS);
        let height = TOP + ROW * cases.len() as f64 + 8.0;
        let svg = Svg::new(WIDTH, height, &self.scenario.title);
        let mut svg = if alone { svg.alone() } else { svg };
        if alone {
            svg.text((LEFT, 24.0), "name", &self.scenario.title);
        }
        legend(&mut svg, &picture);
        for (index, (case, points)) in cases.iter().zip(&picture.rows).enumerate() {
            let top = TOP + ROW * index as f64 + 26.0;
            svg.headline((LEFT, top - 9.0), &case.subject.name, &facts(self, case));
            let (x, y) = (
                Scale::new(picture.length_ms(), LEFT, RIGHT),
                Scale::new(picture.most, top + PANEL, top + 4.0),
            );
            frame(&mut svg, &picture, x, y, top);
            curves(&mut svg, points, &picture, x, y);
        }
        svg.finish()
    }
}

fn facts(report: &Report<'_>, Case { summary, .. }: &Case) -> String {
    let mut facts = vec![
        format!("amplification {}", ratio(summary.mean("amplification"))),
        format!("peak ratio {}", ratio(summary.mean("peak_ratio"))),
        format!("success {}", percent(summary.mean("success"))),
    ];
    if report.tells_collapse() {
        facts.push(format!("collapse {}", collapse(summary)));
    }
    if summary.engine.scale() > 1 {
        facts.push(format!("scale model 1:{}", summary.engine.scale()));
    }
    facts.join(" · ")
}

fn legend(svg: &mut Svg, picture: &Picture) {
    let mut x = LEFT;
    let mut entry = |class: &str, is_line: bool, text: &str, width: f64| {
        if is_line {
            svg.line((x, 48.0), (x + 20.0, 48.0), class);
        } else {
            svg.rect([x, 42.0, 20.0, 12.0], class, 1.0);
        }
        svg.text((x + 27.0, 52.5), "small", text);
        x += width;
    };
    if picture.steady.is_some() {
        entry("first", false, "first attempts", 126.0);
    }
    entry("retry", false, "retries", 88.0);
    entry("curve served", true, "served", 84.0);
    entry("curve good", true, "calls that succeeded", 164.0);
    if picture.steady.is_some() {
        entry("steady", true, "steady", 84.0);
    }
    if picture.fault_ms.is_some() {
        entry("fault", false, "fault", 88.0);
    }
    let window = milliseconds(picture.window_ms);
    let unit = match (picture.steady, picture.point_ms > picture.window_ms) {
        (None, _) => format!("(rates a second, over {window}; first attempts left out)"),
        (_, false) => format!("(rates a second, over {window})"),
        (_, true) => {
            format!(
                "(rates a second, the busiest {window} of each {})",
                milliseconds(picture.point_ms)
            )
        }
    };
    svg.text((x, 52.5), "small dim", &unit);
}

/// The background of the curves: the faults, grid lines and labels.
fn frame(svg: &mut Svg, picture: &Picture, x: Scale, y: Scale, top: f64) {
    let bottom = top + PANEL;
    if let Some((start, end)) = picture.fault_ms {
        let (from, to) = (x.at(start), x.at(end));
        svg.rect([from, top, (to - from).max(2.0), PANEL], "fault", 1.0);
    }
    for value in y.ticks(4.0) {
        let at = y.at(value);
        svg.line((LEFT, at), (RIGHT, at), "rule");
        svg.text((LEFT - 8.0, at + 4.0), "small dim end", &tick(&count(value)));
    }
    for ms in x.ticks(8.0) {
        let at = x.at(ms);
        svg.line((at, bottom), (at, bottom + 4.0), "rule");
        svg.text((at, bottom + 18.0), "small dim mid", &tick(&milliseconds(ms)));
    }
}

fn curves(svg: &mut Svg, points: &[Point], picture: &Picture, x: Scale, y: Scale) {
    let mut draw = |of: fn(&Point) -> f64, ground: Option<f64>, class: &str| {
        let ends = points
            .iter()
            .zip(1..)
            .map(|(point, number)| (y.at(of(point)), x.at(f64::from(number) * picture.point_ms)));
        svg.steps(x.at(0.0), ends, ground, class);
    };
    // The retries are stacked on the first attempts, which cover their lower part.
    draw(Point::attempts, Some(y.at(0.0)), "retry");
    draw(|point| point.firsts, Some(y.at(0.0)), "first");
    draw(|point| point.served, None, "curve served");
    draw(|point| point.succeeded, None, "curve good");
    if let Some(steady) = picture.steady {
        svg.line((LEFT, y.at(steady)), (RIGHT, y.at(steady)), "steady");
    }
}
