//! A table: measured, the yardstick, their ratio, and the bar.

use std::fmt;

use serde::Serialize;

use crate::table::Bar;

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(super) seed: u64,
    /// The load of the machine, before and after.
    pub(super) load: [f64; 2],
    pub(super) lines: Vec<Line>,
}

/// One comparison.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    what: String,
    measured: f64,
    unit: &'static str,
    yardstick: Option<Yardstick>,
    ratio: Option<f64>,
    judged: Judged,
    reached: bool,
}

#[derive(Debug, Serialize)]
struct Yardstick {
    what: &'static str,
    value: f64,
}

/// What the bar applies to.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Judged {
    what: &'static str,
    value: f64,
    bar: Bar,
}

impl Line {
    /// Without a bar, until it is [set](Self::by).
    pub(super) fn new(what: impl Into<String>, measured: f64, unit: &'static str) -> Self {
        let judged = Judged { what: "", value: measured, bar: Bar::None };
        Self {
            what: what.into(),
            measured,
            unit,
            yardstick: None,
            ratio: None,
            judged,
            reached: true,
        }
    }

    pub(super) fn beside(self, what: &'static str, value: f64) -> Self {
        let ratio = Some(self.measured / value).filter(|ratio| ratio.is_finite());
        Self { yardstick: Some(Yardstick { what, value }), ratio, ..self }
    }

    /// With a bar for the measured value.
    pub(super) fn bar(self, bar: Bar) -> Self {
        let value = self.measured;
        self.by("", value, bar)
    }

    /// With a bar for the ratio.
    pub(super) fn ratio_bar(self, bar: Bar) -> Self {
        let value = self.ratio.unwrap_or(f64::NAN);
        self.by("ratio", value, bar)
    }

    /// With a bar for another value.
    pub(super) fn by(self, what: &'static str, value: f64, bar: Bar) -> Self {
        let judged = Judged { what, value, bar };
        Self { judged, reached: bar.is_reached(value), ..self }
    }

    fn cells(&self) -> [String; 5] {
        let Self { what, measured, unit, judged, .. } = self;
        let yardstick = self.yardstick.as_ref();
        let bar = match judged {
            Judged { bar: Bar::None, .. } => String::new(),
            Judged { what: "" | "ratio", bar, .. } => bar.to_string(),
            Judged { what, value, bar } => format!("{} {what} {bar}", digits(*value)),
        };
        [
            what.clone(),
            format!("{} {unit}", digits(*measured)).trim_end().to_owned(),
            yardstick.map_or(String::new(), |it| format!("{} {}", digits(it.value), it.what)),
            self.ratio.map_or(String::new(), digits),
            bar,
        ]
    }

    fn mark(&self) -> &'static str {
        match (self.judged.bar, self.reached) {
            (Bar::None, _) => "",
            (_, true) => "ok",
            (_, false) => "RED",
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["", "measured", "yardstick", "ratio", "bar"].map(str::to_owned);
        let rows =
            std::iter::once((heads, "")).chain(self.lines.iter().map(|it| (it.cells(), it.mark())));
        let rows: Vec<_> = rows.collect();
        let wide = |index: usize| rows.iter().map(|(row, _)| row[index].chars().count()).max();
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|index| wide(index).unwrap_or(0));
        for ([what, measured, yardstick, ratio, bar], mark) in &rows {
            let text =
                format!("{what:a$}  {measured:<b$}  {yardstick:c$}  {ratio:>d$}  {bar:e$}  {mark}");
            writeln!(f, "{}", text.trim_end())?;
        }
        let Self { seed, load: [before, after], .. } = self;
        writeln!(
            f,
            "Seed {seed} (`--seed {seed}` reproduces the figures). Times by the clock are the best of 3."
        )?;
        if before.max(*after) > super::BUSY {
            writeln!(
                f,
                "warning: the machine was busy (load {before} before, {after} after): times by the clock are too long"
            )?;
        }
        Ok(())
    }
}

/// Three significant digits, or all before the point.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.places$}")
}
