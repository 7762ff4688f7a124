//! The figures of the demo after its end.

use std::io::{self, Write};

use redial_core::{MS, Nanos};
use redial_sim::Scenario;
use redial_sim::measure::Summary;
use serde_json::{Map, Value, json};

use super::SECOND;
use super::side::Outcome;

/// The measured and the predicted figures.
pub(super) fn table(
    out: &mut impl Write,
    scenario: &Scenario,
    seed: u64,
    outcomes: &[Outcome],
) -> io::Result<()> {
    let names = outcomes.iter().map(|outcome| outcome.name.chars().count());
    let width = names.max().unwrap_or(0).max(PREDICTED.len());
    writeln!(
        out,
        "\n{:<width$}  {:>6} {:>9} {:>8} {:>6} {:>9} {:>9} {:>8}",
        "", "calls", "per call", "success", "peak", "recovered", "collapsed", "p99"
    )?;
    for Outcome { name, live, prediction, .. } in outcomes {
        write!(out, "{name:<width$}  ")?;
        match live.figures() {
            Ok(figures) => {
                let collapsed = if figures.collapsed { "yes" } else { "no" };
                row(out, &Summary::of(&[figures]), collapsed)?;
            }
            Err(_) => writeln!(out, "no figures")?,
        }
        write!(out, "{PREDICTED:<width$}  ")?;
        let collapsed = format!("{:.0}%", prediction.summary.collapse.value * 100.0);
        row(out, &prediction.summary, &collapsed)?;
    }
    for Outcome { name, live, .. } in outcomes {
        if let Err(refusal) = live.figures() {
            writeln!(out, "{name}: {refusal}")?;
        }
    }
    if let Some(at) = outcomes.iter().find_map(|outcome| outcome.interrupted) {
        let at = at as f64 / SECOND as f64;
        writeln!(out, "Interrupted after {at:.1} s; the predictions are for the whole run.")?;
    }
    if scenario.duration < TOO_SHORT {
        let least = TOO_SHORT / SECOND;
        writeln!(
            out,
            "A run of less than {least} s ends before the storm does: see how many calls are answered before the end."
        )?;
    }
    explain(out, seed, outcomes)
}

/// The last calls succeed because no new ones arrive. They are a large part of a short run.
const TOO_SHORT: Nanos = 10 * SECOND;

const PREDICTED: &str = "  predicted";

fn explain(out: &mut impl Write, seed: u64, outcomes: &[Outcome]) -> io::Result<()> {
    let late = outcomes.iter().filter_map(|outcome| outcome.live.lag().worst());
    let lag = late.map(|late| late.p99).max();
    let busy = outcomes.iter().filter_map(|outcome| outcome.live.busy()).fold(0.0, f64::max);
    let runs = outcomes.first().map_or(0, |outcome| outcome.prediction.summary.runs);
    writeln!(
        out,
        "\nPredicted: the mean of {runs} simulated runs, made before this one. Peak: attempts in the\n\
         busiest 100 ms, relative to 100 ms without an outage. Recovered: the time from the\n\
         end of the outage until 95% of calls succeed again. Collapsed: most calls still fail\n\
         at the end. p99: of successful calls.\n\
         This is a setting in which a naive loop collapses: the queue is longer than callers\n\
         wait, so all responses of a backend that has fallen behind come too late. Whether it\n\
         recovers depends on what they send meanwhile. Not every setting is like that.\n\
         Seed {seed}. In the worst second 99% of wake-ups were at most {} ms late; the demo used\n\
         {:.0}% of the processors.",
        lag.unwrap_or(0) / MS,
        busy * 100.0
    )
}

fn row(out: &mut impl Write, summary: &Summary, collapsed: &str) -> io::Result<()> {
    let mean = |name| summary.mean(name);
    let recovered = match summary.value("recover_ms") {
        Some(after) => format!("{:.1} s", after.mean / 1e3),
        None => "not seen".to_owned(),
    };
    writeln!(
        out,
        "{:>6.0} {:>9.2} {:>7.1}% {:>6.2} {recovered:>9} {collapsed:>9} {:>5.0} ms",
        mean("calls"),
        mean("amplification"),
        mean("success") * 100.0,
        mean("peak_ratio"),
        mean("p99_ms")
    )
}

pub(super) fn describe(scenario: &Scenario, seed: u64, outcomes: &[Outcome]) -> Value {
    let results: Vec<Value> = outcomes.iter().map(result).collect();
    let outage = scenario.fault_span().map(|(start, end)| [start / MS, end / MS]);
    json!({
        "seed": seed,
        "seconds": scenario.duration / SECOND,
        "capacity_per_second": scenario.backend.capacity(),
        "outage_ms": outage,
        "results": results,
    })
}

fn result(outcome: &Outcome) -> Value {
    let ms = |nanos: Nanos| nanos as f64 / MS as f64;
    let Outcome { name, live, prediction, interrupted } = outcome;
    let mut predicted = numbers(&prediction.summary);
    predicted.insert("collapse".to_owned(), json!(prediction.summary.collapse.value));
    predicted.insert("runs".to_owned(), json!(prediction.summary.runs));
    let (measured, refused) = match live.figures() {
        Ok(figures) => {
            let mut measured = numbers(&Summary::of(&[figures]));
            measured.insert("unfinished".to_owned(), json!(live.unfinished()));
            (Some(measured), None)
        }
        Err(refusal) => (None, Some(refusal.to_string())),
    };
    json!({
        "policy": name,
        "measured": measured,
        "refused": refused,
        "predicted": predicted,
        "interrupted_ms": interrupted.map(ms),
        "lag_ms": live.lag().worst().map(|late| ms(late.p99)),
        "busy": live.busy(),
    })
}

/// The numbers that real traffic also has, by their names.
fn numbers(summary: &Summary) -> Map<String, Value> {
    let names = [
        "calls",
        "attempts",
        "amplification",
        "success",
        "peak_ratio",
        "recover_ms",
        "goodput_lost",
        "p50_ms",
        "p99_ms",
    ];
    let mean = |name| summary.value(name).map(|spread| spread.mean);
    names.into_iter().map(|name: &str| (name.to_owned(), json!(mean(name)))).collect()
}
