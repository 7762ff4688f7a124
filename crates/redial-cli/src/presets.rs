use std::fmt;
use std::io::{self, Write};

use clap::builder::PossibleValuesParser;
use redial_core::{DurationText, Nanos, Policy, Preset};
use serde_json::{Value, json};

/// Show the policies that have a name, and the most that one call under them can cost
#[derive(clap::Args)]
#[command(after_help = "Examples:
  redial presets                      all of them, with their worst cases
  redial presets web > web.toml       one of them as text, to start a policy from
  redial presets --json               all of them, for a program")]
pub(crate) struct Args {
    /// Print this one as a policy file
    #[arg(value_parser = PossibleValuesParser::new(Preset::ALL.map(Preset::name)))]
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<()> {
    let named = args.name.as_deref().and_then(Preset::from_name);
    match (named, args.json) {
        (Some(preset), false) => out.write_all(file(preset)?.as_bytes()),
        (Some(preset), true) => writeln!(out, "{:#}", describe(preset)?),
        (None, true) => {
            let all: Result<Vec<_>, _> = Preset::ALL.into_iter().map(describe).collect();
            writeln!(out, "{:#}", Value::Array(all?))
        }
        (None, false) => table(out),
    }
}

fn file(preset: Preset) -> io::Result<String> {
    toml::to_string(&Policy::from(preset)).map_err(io::Error::other)
}

fn describe(preset: Preset) -> io::Result<Value> {
    let policy = Policy::from(preset);
    let worst = policy.worst_case();
    let ms = |nanos: Nanos| nanos as f64 / 1e6;
    Ok(json!({
        "name": preset.name(),
        "worst_case": {
            "attempts": worst.attempts,
            "elapsed_ms": ms(worst.elapsed),
            "elapsed_with_hints_ms": ms(worst.elapsed_with_hints),
        },
        "policy": serde_json::to_value(&policy)?,
    }))
}

fn table(out: &mut impl Write) -> io::Result<()> {
    row(
        out,
        ["preset", "attempts", "first wait", "longest", "deadline", "worst case", "dead backend"],
    )?;
    for preset in Preset::ALL {
        let policy = Policy::from(preset);
        let backoff = policy.backoff();
        let waits = policy.attempts() - 1;
        let multiplier = 1.0 + policy.budget().ratio().unwrap_or(f64::from(waits));
        row(
            out,
            [
                &preset.name() as &dyn fmt::Display,
                &policy.attempts(),
                &format_args!("≤ {}", DurationText(backoff.range(1, 0).hi)),
                &format_args!("≤ {}", DurationText(backoff.range(waits, 0).hi)),
                &DurationText(policy.deadline()),
                &DurationText(policy.worst_case().elapsed),
                &format_args!("{multiplier}× the calls"),
            ],
        )?;
    }
    writeln!(
        out,
        "\nThe worst case is one call whose attempts all fail as slowly as they can. A dead backend sees\n\
         that many times the calls, plus the floor of the budget (`redial presets NAME` shows it)."
    )
}

fn row<T: fmt::Display>(out: &mut impl Write, cells: [T; 7]) -> io::Result<()> {
    let [name, attempts, first, longest, deadline, worst, dead] =
        cells.map(|cell| cell.to_string());
    writeln!(
        out,
        "{name:<18} {attempts:>8}  {first:>10}  {longest:>8}  {deadline:>8}  {worst:>10}  {dead}"
    )
}
