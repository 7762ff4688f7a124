//! The figures of the demo after its end.

use std::io::{self, Write};

use redial_core::Span;
use redial_sim::Scenario;
use redial_sim::measure::{Metric, Summary};
use serde_json::{Map, Value, json};

use super::side::Outcome;
use crate::terminal::Terminal;
use crate::text::{aligned, sanitise, widths};

/// Prints the measured and the predicted figures, and how to read them.
pub(super) fn print(
    out: &mut impl Write,
    scenario: &Scenario,
    seed: u64,
    outcomes: &[Outcome],
    terminal: Terminal,
) -> io::Result<()> {
    writeln!(out)?;
    table(out, outcomes, terminal)?;
    for Outcome { name, live, .. } in outcomes {
        if let Err(refusal) = live.figures() {
            let text = format!(
                "Warning: {name}: {refusal}, so these figures are also about this machine."
            );
            writeln!(out, "{}", terminal.wrap(&sanitise(&text)))?;
        }
    }
    if let Some(at) = outcomes.iter().find_map(|outcome| outcome.interrupted) {
        let at = at.since_zero().as_secs_f64();
        let text = format!("Interrupted after {at:.1} s; the predictions are for the whole run.");
        writeln!(out, "{}", terminal.wrap(&text))?;
    }
    if scenario.duration < TOO_SHORT {
        let text = format!(
            "A run of less than {} s ends before the storm does: see how many calls are answered before the end.",
            TOO_SHORT.as_secs()
        );
        writeln!(out, "{}", terminal.wrap(&text))?;
    }
    writeln!(out, "\n{}", terminal.wrap(&explanation(seed, outcomes)))
}

const HEADS: [&str; 7] = ["calls", "per call", "success", "peak", "recovered", "collapsed", "p99"];

/// A row for each side and its prediction; in a narrow terminal, a paragraph.
fn table(out: &mut impl Write, outcomes: &[Outcome], terminal: Terminal) -> io::Result<()> {
    let mut rows = Vec::new();
    for Outcome { name, live, prediction, .. } in outcomes {
        let figures = live.measured();
        let collapsed = if figures.collapsed { "yes" } else { "no" }.to_owned();
        rows.push((sanitise(name), cells(&Summary::of(&[figures]), collapsed)));
        let collapsed = format!("{:.0}%", prediction.summary.collapse.value * 100.0);
        rows.push((PREDICTED.to_owned(), cells(&prediction.summary, collapsed)));
    }
    let heads = ("".to_owned(), HEADS.map(str::to_owned));
    let lines: Vec<Vec<String>> = std::iter::once(&heads)
        .chain(&rows)
        .map(|(name, cells)| std::iter::once(name).chain(cells).cloned().collect())
        .collect();
    let widths = widths(&lines);
    let whole = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
    if !terminal.is_bounded || whole <= terminal.width {
        for line in &lines {
            writeln!(out, "{}", aligned(line, &widths, "  ", |column| column == 0))?;
        }
        return Ok(());
    }
    for (name, cells) in &rows {
        let pairs = HEADS.iter().zip(cells).map(|(head, cell)| format!("{head} {cell}"));
        let pieces: Vec<_> = pairs.map(|text| (text.clone(), text.chars().count())).collect();
        writeln!(out, "{}\n{}", name.trim_start(), terminal.flow(&pieces))?;
    }
    Ok(())
}

/// The last calls succeed because no new ones arrive. They are a large part of a short run.
const TOO_SHORT: Span = Span::from_secs(10);

const PREDICTED: &str = "  predicted";

fn explanation(seed: u64, outcomes: &[Outcome]) -> String {
    let late = outcomes.iter().filter_map(|outcome| outcome.live.lag().worst());
    let lag = late.map(|late| late.p99).max();
    let busy = outcomes.iter().filter_map(|outcome| outcome.live.busy()).fold(0.0, f64::max);
    let runs = outcomes.first().map_or(0, |outcome| outcome.prediction.summary.runs);
    format!(
        "Predicted: the mean of {runs} simulated runs, made before this one. Peak: attempts in the busiest 100 ms, relative \
         to 100 ms without an outage. Recovered: the time from the end of the outage until 95% of calls succeed again. \
         Collapsed: most calls still fail at the end. p99: of successful calls. This is a setting in which a naive loop \
         collapses: the queue is longer than callers wait, so all responses of a backend that has fallen behind come too \
         late. Whether it recovers depends on what they send meanwhile. Not every setting is like that. Seed {seed}. In \
         the worst second 99% of wake-ups were at most {} ms late; the demo used {:.0}% of the processors.",
        lag.unwrap_or_default().as_millis(),
        busy * 100.0
    )
}

fn cells(summary: &Summary, collapsed: String) -> [String; 7] {
    let mean = |metric| summary.mean(metric);
    let recovered = match summary.value(Metric::RecoverMs) {
        Some(after) => format!("{:.1} s", after.mean / 1e3),
        None => "not seen".to_owned(),
    };
    [
        format!("{:.0}", mean(Metric::Calls)),
        format!("{:.2}", mean(Metric::Amplification)),
        format!("{:.1}%", mean(Metric::Success) * 100.0),
        format!("{:.2}", mean(Metric::PeakRatio)),
        recovered,
        collapsed,
        format!("{:.0} ms", mean(Metric::P99Ms)),
    ]
}

pub(super) fn describe(scenario: &Scenario, seed: u64, outcomes: &[Outcome]) -> Value {
    let results: Vec<Value> = outcomes.iter().map(result).collect();
    let outage = scenario
        .fault_span()
        .map(|(start, end)| [start, end].map(|at| at.since_zero().as_millis()));
    json!({
        "seed": seed,
        "seconds": scenario.duration.as_secs(),
        "capacity_per_second": scenario.backend.capacity(),
        "outage_ms": outage,
        "results": results,
    })
}

fn result(outcome: &Outcome) -> Value {
    let Outcome { name, live, prediction, interrupted } = outcome;
    let mut predicted = numbers(&prediction.summary);
    predicted.insert("collapse".to_owned(), json!(prediction.summary.collapse.value));
    predicted.insert("runs".to_owned(), json!(prediction.summary.runs));
    let mut measured = numbers(&Summary::of(&[live.measured()]));
    measured.insert("unfinished".to_owned(), json!(live.unfinished()));
    let warning = live.figures().err().map(|refusal| refusal.to_string());
    json!({
        "policy": name,
        "measured": measured,
        "warning": warning,
        "predicted": predicted,
        "interrupted_ms": interrupted.map(|at| at.since_zero().as_millis_f64()),
        "lag_ms": live.lag().worst().map(|late| late.p99.as_millis_f64()),
        "busy": live.busy(),
    })
}

/// The numbers that real traffic also has, by their names.
fn numbers(summary: &Summary) -> Map<String, Value> {
    let metrics = [
        Metric::Calls,
        Metric::Attempts,
        Metric::Amplification,
        Metric::Success,
        Metric::PeakRatio,
        Metric::RecoverMs,
        Metric::GoodputLost,
        Metric::P50Ms,
        Metric::P99Ms,
    ];
    let mean = |metric| summary.value(metric).map(|spread| spread.mean);
    metrics.into_iter().map(|metric| (metric.to_string(), json!(mean(metric)))).collect()
}
