//! `redial presets`: the presets of Redial and the defaults of other systems.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use redial_core::admit::budget::Budget;
use redial_core::{Policy, Preset, Span, TimeLimit};
use redial_sim::peers::Peer;
use serde_json::{Value, json};

use crate::text::wrap;

/// The width of the texts beside the names of peers, on a terminal of 100 columns.
const WIDTH: usize = 82;

/// List the policy presets, and the worst case of one call under each
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  # all presets, with their worst cases
  redial presets
  # one preset as a policy file, to edit
  redial presets web > web.toml
  # all presets, for a program
  redial presets --json
  # the defaults of other systems, for --policy peer:NAME
  redial presets --peers")]
pub(crate) struct Args {
    /// Print this preset as a policy file
    #[arg(value_parser = PossibleValuesParser::new(Preset::ALL.map(Preset::name)))]
    name: Option<String>,
    /// List the defaults of other systems instead
    #[arg(long, conflicts_with = "name")]
    peers: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<()> {
    let named = args.name.as_deref().and_then(Preset::from_name);
    match (named, args.json) {
        _ if args.peers && args.json => list(Peer::all().map(describe_peer).collect(), out),
        _ if args.peers => Peer::all().try_for_each(|peer| entry(peer, out)),
        (Some(preset), false) => out.write_all(file(preset)?.as_bytes()),
        (Some(preset), true) => writeln!(out, "{:#}", describe(preset)?),
        (None, true) => list(Preset::ALL.into_iter().map(describe).collect(), out),
        (None, false) => table(out),
    }
}

fn list(all: io::Result<Vec<Value>>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{:#}", Value::Array(all?))
}

fn file(preset: Preset) -> io::Result<String> {
    toml::to_string(&Policy::from(preset)).map_err(io::Error::other)
}

fn describe(preset: Preset) -> io::Result<Value> {
    let policy = Policy::from(preset);
    Ok(json!({
        "name": preset.name(),
        "about": preset.about(),
        "worst_case": worst_case(&policy),
        "policy": serde_json::to_value(&policy)?,
    }))
}

fn describe_peer(peer: &Peer) -> io::Result<Value> {
    let policy = peer.policy();
    Ok(json!({
        "name": peer.name,
        "about": peer.about,
        "differs": peer.differs,
        "checks_safety": peer.checks_safety,
        "worst_case": worst_case(&policy),
        "policy": serde_json::to_value(&policy)?,
    }))
}

/// In milliseconds, and `null` where nothing bounds it.
fn worst_case(policy: &Policy) -> Value {
    let worst = policy.worst_case();
    let ms = |limit: Option<Duration>| limit.map(|limit| limit.as_nanos() as f64 / 1e6);
    json!({
        "attempts": worst.attempts,
        "in_flight": worst.in_flight,
        "elapsed_ms": ms(worst.elapsed),
        "elapsed_with_hints_ms": ms(worst.elapsed_with_hints),
    })
}

fn entry(peer: &Peer, out: &mut impl Write) -> io::Result<()> {
    let differs = peer.differs.map(|differs| format!("Differs: {differs}."));
    texts(peer.name, [Some(format!("{}.", peer.about)), differs], out)
}

fn texts<const N: usize>(
    mut name: &str,
    texts: [Option<String>; N],
    out: &mut impl Write,
) -> io::Result<()> {
    for text in texts.into_iter().flatten() {
        for line in wrap(&text, WIDTH) {
            writeln!(out, "{name:<16} {line}")?;
            name = "";
        }
    }
    Ok(())
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
        let dead = match policy.budget() {
            Budget::Tokens(tokens) => format!("the calls + {}", tokens.capacity / tokens.cost),
            budget => format!("{}× the calls", 1.0 + budget.ratio().unwrap_or(f64::from(waits))),
        };
        row(
            out,
            [
                &preset.name() as &dyn fmt::Display,
                &policy.attempts(),
                &format_args!("≤ {}", backoff.range(1, Span::ZERO).hi),
                &format_args!("≤ {}", backoff.range(waits, Span::ZERO).hi),
                &policy.deadline_limit(),
                &TimeLimit::from(policy.worst_case().elapsed),
                &dead,
            ],
        )?;
    }
    writeln!(out)?;
    for preset in Preset::ALL {
        texts(preset.name(), [Some(format!("{}.", preset.about()))], out)?;
    }
    writeln!(
        out,
        "\nThe worst case is one call whose attempts all fail as slowly as possible. A dead backend receives\n\
         that many times the calls, or the calls and that many retries of each process, however many calls it\n\
         makes; plus the floor of the budget (`redial presets NAME` shows it)."
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
