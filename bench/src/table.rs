//! A report for people and for programs.

use std::fmt;

use serde::Serialize;

/// A table of comparisons.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    pub(crate) notes: &'static [&'static str],
    /// What could not be measured, and why.
    pub(crate) absent: Vec<String>,
}

/// One topic with its comparisons.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) number: u32,
    pub(crate) lines: Vec<Line>,
}

/// One comparison.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) what: &'static str,
    pub(crate) peers: Vec<Part>,
    pub(crate) ours: f64,
    pub(crate) bar: Bar,
    pub(crate) reached: bool,
    /// The parts of our number, where they are known.
    pub(crate) made_of: Vec<Part>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
}

/// The bar for our number.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bar {
    /// For information.
    None,
    AtMost(f64),
    AtLeast(f64),
    /// As when it was last changed, within [`TOLERANCE`]: a figure that rises is a mistake, and one that falls is the next
    /// bar. The goal is what it should become.
    Ratchet {
        figure: f64,
        goal: Option<f64>,
    },
}

/// Instruction counts do not depend on the speed of the machine, but a little on the compiler.
const TOLERANCE: f64 = 0.03;

impl Report {
    pub(crate) fn new(
        rows: impl IntoIterator<Item = Vec<Line>>,
        notes: &'static [&'static str],
    ) -> Self {
        let numbered = rows.into_iter().zip(1..).map(|(lines, number)| Row { number, lines });
        Self { rows: numbered.collect(), notes, absent: Vec::new() }
    }

    /// An error if a bar is missed.
    pub(crate) fn check(&self) -> Result<(), String> {
        let lines = self.rows.iter().flat_map(|row| &row.lines);
        match lines.filter(|line| !line.reached).count() {
            0 => Ok(()),
            missed => Err(format!("{missed} bars are missed")),
        }
    }

    pub(crate) fn with(self, absent: Vec<String>) -> Self {
        Self { absent, ..self }
    }
}

impl Line {
    pub(crate) fn new(what: &'static str, peers: Vec<Part>, ours: f64, bar: Bar) -> Self {
        let reached = bar.is_reached(ours);
        Self { what, peers, ours, bar, reached, made_of: Vec::new() }
    }

    fn mark(&self) -> &'static str {
        match (self.bar, self.reached) {
            (Bar::None, _) => "",
            (_, true) => "ok",
            (_, false) => "RED",
        }
    }

    pub(crate) fn made_of(self, made_of: Vec<Part>) -> Self {
        Self { made_of, ..self }
    }
}

impl Bar {
    pub(crate) fn is_reached(self, value: f64) -> bool {
        match self {
            Self::None => true,
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::Ratchet { figure, .. } => (value - figure).abs() <= TOLERANCE * figure,
        }
    }

    /// A bar that only goes down.
    pub(crate) fn ratchet(figure: f64) -> Self {
        Self::Ratchet { figure, goal: None }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::None => String::new(),
            Self::AtMost(most) => format!("≤ {}", number(*most)),
            Self::AtLeast(least) => format!("≥ {}", number(*least)),
            Self::Ratchet { figure, goal: None } => format!("{} ± 3%", number(*figure)),
            Self::Ratchet { figure, goal: Some(goal) } => {
                format!("{} ± 3%, goal {}", number(*figure), number(*goal))
            }
        };
        f.pad(&text)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = || self.rows.iter().flat_map(|row| &row.lines);
        let wide = |text: &str| text.chars().count();
        let first = lines().map(|line| wide(line.what)).max().unwrap_or(0);
        let second = lines().map(|line| wide(&list(&line.peers, ", "))).max().unwrap_or(0);
        let third = lines().map(|line| wide(&line.bar.to_string())).max().unwrap_or(0);
        writeln!(f, "  {:first$}  {:second$}  {:>6}  bar", "", "peers", "ours")?;
        for row in &self.rows {
            for (index, line) in row.lines.iter().enumerate() {
                let row_number = if index == 0 { row.number.to_string() } else { String::new() };
                let (what, peers, ours) = (line.what, list(&line.peers, ", "), number(line.ours));
                let (bar, mark) = (line.bar, line.mark());
                let text = format!(
                    "{row_number:1} {what:first$}  {peers:second$}  {ours:>6}  {bar:<third$}  {mark}"
                );
                writeln!(f, "{}", text.trim_end())?;
            }
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))?;
        self.absent.iter().try_for_each(|what| writeln!(f, "{what}"))?;
        for line in lines().filter(|line| !line.reached && !line.made_of.is_empty()) {
            writeln!(f, "RED: {}: {}", line.what, list(&line.made_of, " + "))?;
        }
        for line in lines().filter(|line| !line.reached) {
            if let Bar::Ratchet { figure, .. } = line.bar {
                let better = if line.ours < figure { ": lower its bar" } else { "" };
                let [ours, figure] = [line.ours, figure].map(number);
                writeln!(f, "RED: {}: {ours} instead of {figure}{better}", line.what)?;
            }
        }
        Ok(())
    }
}

fn list(parts: &[Part], between: &str) -> String {
    let parts = parts.iter().map(|part| format!("{} {}", part.name, number(part.value)));
    parts.collect::<Vec<_>>().join(between)
}

/// An integer where the fraction does not matter.
fn number(value: f64) -> String {
    if value.abs() >= 10.0 || (value - value.round()).abs() < 0.005 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}
