//! The SVG figure of a report: attempts, served attempts and successful calls over time, one panel per policy.
//!
//! A page has two: on a narrow screen, a wide figure would be scaled until its texts cannot be read.

use super::scale::Scale;
use super::svg::Svg;
use super::table::collapse;
use super::{Case, Picture, Point, Report};
use crate::measure::Metric;
use crate::number::{count, milliseconds, percent, ratio, tick};

/// The width of a figure, and what follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    width: f64,
    /// The space for the labels of the values.
    left: f64,
    /// The space for the names at the ends of the curves.
    names: f64,
    /// More points than this cannot be distinguished.
    points: usize,
    /// How many places show their values under the pointer.
    hovers: usize,
    /// How many times have a label.
    times: f64,
}

impl Layout {
    pub(super) const WIDE: Self =
        Self { width: 960.0, left: 84.0, names: 76.0, points: 1_400, hovers: 120, times: 8.0 };
    pub(super) const NARROW: Self =
        Self { width: 368.0, left: 68.0, names: 10.0, points: 300, hovers: 60, times: 3.0 };

    fn right(&self) -> f64 {
        self.width - self.names
    }
}

const PANEL: f64 = 120.0;
/// A line of the legend.
const LINE: f64 = 20.0;

impl Report<'_> {
    /// The figure as a standalone file.
    pub fn svg(&self) -> String {
        self.figure(Layout::WIDE, true)
    }

    pub(super) fn figure(&self, layout: Layout, alone: bool) -> String {
        let cases: Vec<Case> =
            self.cases.iter().filter(|case| case.summary.runs > 0).cloned().collect();
        let picture = Picture::of(self.scenario, &cases, layout.points);
        let capacity = Some(self.scenario.backend.capacity()).filter(|it| it.is_finite());
        // A capacity far above everything else would flatten the curves.
        let capacity = capacity.filter(|it| *it <= picture.most * 4.0);
        let last = (self.scenario.duration.as_millis_f64() / picture.point_ms).ceil() as usize;
        let last = last.saturating_sub(1);
        let legend = Legend::new(layout, &picture, capacity);
        let title = if alone { 30.0 } else { 4.0 };
        let head = facts_lines(self, &cases, layout) * 17.0 + 10.0;
        let row = head + PANEL + 34.0;
        let top = title + legend.height() + 8.0;
        let height = top + row * cases.len() as f64 + 24.0;
        let svg = Svg::new(layout.width, height, &self.scenario.title);
        let mut svg = if alone { svg.alone() } else { svg };
        if alone {
            svg.text((16.0, 22.0), "name", &self.scenario.title);
        }
        legend.draw(&mut svg, title);
        for (index, (case, points)) in cases.iter().zip(&picture.rows).enumerate() {
            let start = top + row * index as f64;
            headline(&mut svg, self, case, layout, start + 14.0);
            let panel = start + head;
            let most = picture.most.max(capacity.unwrap_or(0.0));
            let (x, y) = (
                Scale::new(picture.length_ms(), layout.left, layout.right()),
                Scale::new(most, panel + PANEL, panel + 4.0),
            );
            let plot = Plot { layout, picture: &picture, capacity, x, y, top: panel, last };
            plot.frame(&mut svg);
            plot.curves(&mut svg, points);
            plot.hovers(&mut svg, points);
        }
        let middle = (layout.left + layout.right()) / 2.0;
        svg.text((middle, height - 8.0), "small dim mid", "time");
        svg.finish()
    }
}

fn facts(report: &Report<'_>, Case { summary, .. }: &Case) -> Vec<String> {
    let mut facts = vec![
        format!("amplification {}", ratio(summary.mean(Metric::Amplification))),
        format!("peak ratio {}", ratio(summary.mean(Metric::PeakRatio))),
        format!("success {}", percent(summary.mean(Metric::Success))),
    ];
    if report.tells_collapse() {
        facts.push(format!("collapse {}", collapse(summary)));
    }
    if summary.engine.scale() > 1 {
        facts.push(format!("scale model 1:{}", summary.engine.scale()));
    }
    facts
}

/// How many facts are in a line.
fn facts_in_line(layout: Layout) -> usize {
    if layout.width < 500.0 { 2 } else { 5 }
}

/// How many lines there are above a panel.
fn facts_lines(report: &Report<'_>, cases: &[Case], layout: Layout) -> f64 {
    let most = cases.iter().map(|case| facts(report, case).len()).max().unwrap_or(0);
    if layout.width < 500.0 { 1.0 + most.div_ceil(facts_in_line(layout)) as f64 } else { 1.0 }
}

fn headline(svg: &mut Svg, report: &Report<'_>, case: &Case, layout: Layout, y: f64) {
    let facts = facts(report, case);
    if layout.width >= 500.0 {
        svg.headline((layout.left, y), &case.subject.name, &facts.join(" · "));
        return;
    }
    svg.headline((8.0, y), &case.subject.name, "");
    for (line, facts) in facts.chunks(facts_in_line(layout)).enumerate() {
        svg.text((8.0, y + 17.0 * (line + 1) as f64), "small dim", &facts.join(" · "));
    }
}

/// The entries of the legend, in lines that fit.
struct Legend {
    entries: Vec<Entry>,
    lines: f64,
    unit: String,
}

struct Entry {
    class: &'static str,
    is_line: bool,
    text: &'static str,
    x: f64,
    line: f64,
}

impl Legend {
    fn new(layout: Layout, picture: &Picture, capacity: Option<f64>) -> Self {
        let mut all: Vec<(&'static str, bool, &'static str)> = Vec::new();
        if picture.steady.is_some() {
            all.push(("first", false, "first attempts"));
        }
        all.push(("retry", false, "retries"));
        all.push(("curve served", true, "served"));
        all.push(("curve good", true, "calls that succeeded"));
        if picture.steady.is_some() {
            all.push(("steady", true, "usual"));
        }
        if capacity.is_some() {
            all.push(("capacity", true, "capacity"));
        }
        if picture.fault_ms.is_some() {
            all.push(("fault", false, "fault"));
        }
        let start = if layout.width < 500.0 { 8.0 } else { layout.left };
        let (mut x, mut line) = (start, 0.0);
        let mut entries = Vec::new();
        for (class, is_line, text) in all {
            let width = 46.0 + 6.6 * text.chars().count() as f64;
            if x + width > layout.width && x > start {
                (x, line) = (start, line + 1.0);
            }
            entries.push(Entry { class, is_line, text, x, line });
            x += width;
        }
        Self { entries, lines: line + 2.0, unit: unit(picture) }
    }

    fn height(&self) -> f64 {
        self.lines * LINE
    }

    fn draw(&self, svg: &mut Svg, top: f64) {
        for Entry { class, is_line, text, x, line } in &self.entries {
            let y = top + line * LINE + 12.0;
            if *is_line {
                svg.line((*x, y), (x + 22.0, y), class);
            } else {
                svg.rect([*x, y - 6.0, 22.0, 12.0], class, 1.0);
            }
            svg.text((x + 28.0, y + 4.5), "small", text);
        }
        let x = self.entries.first().map_or(8.0, |entry| entry.x);
        svg.text((x, top + (self.lines - 1.0) * LINE + 14.0), "small dim", &self.unit);
    }
}

fn unit(picture: &Picture) -> String {
    let window = milliseconds(picture.window_ms);
    match (picture.steady, picture.point_ms > picture.window_ms) {
        (None, _) => format!("Rates a second, over {window}; first attempts left out"),
        (_, false) => format!("Rates a second, over {window}"),
        (_, true) => {
            let point = milliseconds(picture.point_ms);
            format!("Rates a second, the busiest {window} of each {point}")
        }
    }
}

/// A panel.
struct Plot<'a> {
    layout: Layout,
    picture: &'a Picture,
    capacity: Option<f64>,
    x: Scale,
    y: Scale,
    top: f64,
    /// The last point while calls begin. What follows is a backend without load.
    last: usize,
}

impl Plot<'_> {
    /// The background of the curves: the faults, grid lines and labels.
    fn frame(&self, svg: &mut Svg) {
        let (left, right) = (self.layout.left, self.layout.right());
        let bottom = self.top + PANEL;
        if let Some((start, end)) = self.picture.fault_ms {
            let (from, to) = (self.x.at(start), self.x.at(end));
            svg.rect([from, self.top, (to - from).max(2.0), PANEL], "fault", 1.0);
        }
        for value in self.y.ticks(4.0) {
            let at = self.y.at(value);
            svg.line((left, at), (right, at), "rule");
            svg.text((left - 8.0, at + 4.0), "small dim end", &tick(&count(value)));
        }
        for ms in self.x.ticks(self.layout.times) {
            let at = self.x.at(ms);
            svg.line((at, bottom), (at, bottom + 4.0), "rule");
            svg.text((at, bottom + 18.0), "small dim mid", &tick(&milliseconds(ms)));
        }
        svg.upright((14.0, self.top + PANEL / 2.0), "small dim mid", "requests/s");
    }

    fn curves(&self, svg: &mut Svg, points: &[Point]) {
        let mut draw = |of: fn(&Point) -> f64, ground: Option<f64>, class: &str| {
            let ends = points.iter().zip(1..).map(|(point, number)| {
                (self.y.at(of(point)), self.x.at(f64::from(number) * self.picture.point_ms))
            });
            svg.steps(self.x.at(0.0), ends, ground, class);
        };
        let ground = Some(self.y.at(0.0));
        // The retries are stacked on the first attempts, which cover their lower part.
        draw(Point::attempts, ground, "retry");
        draw(|point| point.firsts, ground, "bg");
        draw(|point| point.firsts, ground, "first");
        // Lines on top of each other stay visible: each has a halo, and the upper one has gaps.
        draw(|point| point.succeeded, None, "halo");
        draw(|point| point.succeeded, None, "curve good");
        draw(|point| point.served, None, "curve served");
        let (left, right) = (self.layout.left, self.layout.right());
        for (value, class) in [(self.picture.steady, "steady"), (self.capacity, "capacity")] {
            if let Some(value) = value {
                svg.line((left, self.y.at(value)), (right, self.y.at(value)), class);
            }
        }
        if self.layout.names > 40.0 {
            self.names(svg, points);
        }
    }

    /// The names of the curves at their ends, from top to bottom without overlap.
    fn names(&self, svg: &mut Svg, points: &[Point]) {
        let last = points.get(self.last).or(points.last()).copied().unwrap_or_default();
        let mut names = vec![
            (self.y.at(last.attempts()), "attempts"),
            (self.y.at(last.served), "served"),
            (self.y.at(last.succeeded), "succeeded"),
        ];
        names.extend(self.capacity.map(|capacity| (self.y.at(capacity), "capacity")));
        names.sort_by(|a, b| a.0.total_cmp(&b.0));
        // As many lines above the bottom as there are names below.
        let mut least = self.top;
        let count = names.len();
        for (index, (y, name)) in names.into_iter().enumerate() {
            let most = self.top + PANEL - 13.0 * (count - 1 - index) as f64;
            let y = y.min(most).max(least);
            svg.text((self.layout.right() + 6.0, y + 4.0), "small dim", name);
            least = y + 13.0;
        }
    }

    /// The values of a place, under the pointer.
    fn hovers(&self, svg: &mut Svg, points: &[Point]) {
        let group = points.len().div_ceil(self.layout.hovers).max(1);
        for (index, points) in points.chunks(group).enumerate() {
            let start = index as f64 * group as f64 * self.picture.point_ms;
            let end = start + points.len() as f64 * self.picture.point_ms;
            let busiest = points.iter().max_by(|a, b| a.attempts().total_cmp(&b.attempts()));
            let Some(point) = busiest else { continue };
            let (from, to) = (self.x.at(start), self.x.at(end));
            let text = format!(
                "{}: {} attempts/s, {} of them retries; {} served/s, {} succeeded/s",
                milliseconds(start),
                count(point.attempts()),
                count(point.retries),
                count(point.served),
                count(point.succeeded)
            );
            svg.hover([from, self.top, to - from, PANEL], &text);
        }
    }
}
