use std::io::{self, Write};

use redial_core::Nanos;
use redial_live::{Figures, Live, Setting};
use serde_json::{Value, json};

use super::{MS, SECOND};

/// What both came to.
pub(super) fn table(
    out: &mut impl Write,
    setting: &Setting,
    results: &[(String, Live)],
) -> io::Result<()> {
    let width = results.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    writeln!(
        out,
        "\n{:<width$}  {:>6} {:>9} {:>9} {:>8} {:>6} {:>10} {:>7} {:>8}",
        "", "calls", "attempts", "per call", "success", "peak", "recovered", "p50", "p99"
    )?;
    for (name, live) in results {
        write!(out, "{name:<width$}  ")?;
        match live.figures() {
            Ok(figures) => row(out, &figures)?,
            Err(_) => writeln!(out, "no figures")?,
        }
    }
    for (name, live) in results {
        if let Err(refusal) = live.figures() {
            writeln!(out, "{name}: {refusal}")?;
        }
    }
    let lag = results.iter().filter_map(|(_, live)| live.lag().worst()).map(|late| late.p99).max();
    let busy = results.iter().filter_map(|(_, live)| live.busy()).fold(0.0, f64::max);
    writeln!(
        out,
        "\nSuccess: of the calls that ended. Peak: attempts in the busiest 100 ms, relative to\n\
         what 100 ms bring before the outage. Recovered: how long after the outage nobody is\n\
         turned away and no call fails any more.\n\
         A backend whose queue is longer than its callers wait does its work for nobody;\n\
         whether it gets out of that depends on what they send meanwhile.\n\
         Seed {}. In the worst second 99 of 100 wake-ups came at most {} ms late; {:.0}% of the\n\
         processors were busy with this.",
        setting.seed,
        lag.unwrap_or(0) / MS,
        busy * 100.0
    )
}

fn row(out: &mut impl Write, figures: &Figures) -> io::Result<()> {
    let Figures { calls, attempts, amplification, success, peak_ratio, .. } = *figures;
    let recovered = match figures.recover {
        Some(after) => format!("{:.2} s", after as f64 / SECOND as f64),
        None => "not seen".to_owned(),
    };
    let ms = |nanos: Nanos| format!("{:.0} ms", nanos as f64 / MS as f64);
    writeln!(
        out,
        "{calls:>6} {attempts:>9} {amplification:>9.2} {:>7.1}% {peak_ratio:>6.2} {recovered:>10} {:>7} {:>8}",
        success * 100.0,
        ms(figures.p50),
        ms(figures.p99)
    )
}

pub(super) fn describe(setting: &Setting, results: &[(String, Live)]) -> Value {
    let results: Vec<Value> = results.iter().map(|(name, live)| result(name, live)).collect();
    json!({
        "seed": setting.seed,
        "seconds": setting.duration / SECOND,
        "capacity_per_second": setting.capacity(),
        "outage_ms": setting.outage.map(|outage| [outage.start / MS, outage.end() / MS]),
        "results": results,
    })
}

fn result(name: &str, live: &Live) -> Value {
    let ms = |nanos: Nanos| nanos as f64 / MS as f64;
    let lag_ms = live.lag().worst().map(|late| ms(late.p99));
    match live.figures() {
        Ok(figures) => json!({
            "policy": name,
            "calls": figures.calls,
            "attempts": figures.attempts,
            "amplification": figures.amplification,
            "success": figures.success,
            "unfinished": figures.unfinished,
            "peak_ratio": figures.peak_ratio,
            "recover_ms": figures.recover.map(ms),
            "p50_ms": ms(figures.p50),
            "p99_ms": ms(figures.p99),
            "lag_ms": lag_ms,
            "busy": live.busy(),
        }),
        Err(refusal) => json!({
            "policy": name,
            "refused": refusal.to_string(),
            "lag_ms": lag_ms,
            "busy": live.busy(),
        }),
    }
}
