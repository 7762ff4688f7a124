//! `redial sim SCENARIO`: what a policy does when many run it at once.

mod ask;
pub(crate) mod attend;
mod chart;
mod contention;
mod deliver;
mod grid;
mod storm;
mod table;

use std::io::{self, Write};
use std::thread;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use redial_sim::contention::BACKOFFS;
use redial_sim::scenario::BUILT_IN;
use redial_sim::simulate::Choice;

use serde_json::{Value, json};

use crate::failed::Failed;

/// Run many callers against a backend in virtual time, and see what their policy does to it
#[derive(clap::Args)]
#[command(after_help = "\
A run is repeated with other random numbers, because near collapse a single one says nothing. Without --runs it
is repeated until there are about five million calls of each policy, at most 20 times; every cell of a sweep 4 to 20
times. A parameter is named by its path in the scenario's file (`--show` prints it). Two sweeps make a map;
short paths are load, rate, clients and outage.

Examples:
  redial sim --list                                what can be run
  redial sim blip                                  its own policies beside each other
  redial sim blip --policy web --policy my.toml    other ones
  redial sim blip --set outage.duration=2s --html report.html
  redial sim blip --show > mine.toml               a scenario to start one's own from
  redial sim mine.toml --json
  redial sim mine.toml --sweep load=0.3..0.9:7 --sweep outage=1s..10s:4
  redial sim contention --clients 1000 --runs 10   the article's five backoffs")]
pub(crate) struct Args {
    /// The name of a scenario, or a file
    #[arg(required_unless_present = "list")]
    scenario: Option<String>,
    /// Say what can be run
    #[arg(long, conflicts_with = "scenario")]
    list: bool,
    /// Print the scenario's file
    #[arg(long)]
    show: bool,
    /// One of the scenario's policies, no-retry, a preset, peer:NAME or a policy file; repeat it to compare
    /// [default: those of the scenario]
    #[arg(long = "policy", value_name = "P")]
    policies: Vec<String>,
    /// Names the random numbers: the same seed gives the same result
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How often each case is repeated, each time with other random numbers [default: as below]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: Option<u32>,
    /// How many callers there are; instances, where calls come at a rate. With contention, repeat it to compare
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    clients: Vec<u64>,
    /// Set a parameter to another value, such as outage.duration=2s
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Vary a parameter: PATH=A,B,C or PATH=FROM..TO:STEPS; repeat it for a map
    #[arg(long = "sweep", value_name = "PATH=VALUES")]
    sweeps: Vec<String>,
    /// What a sweep shows, by its name in the JSON; repeat it for more columns [default: collapse]
    #[arg(long = "metric", value_name = "NAME", requires = "sweeps")]
    metrics: Vec<String>,
    /// How it is computed: every caller by itself (exact), callers that are alike together (cohort), or by cohorts
    /// where there is much to do and the model allows it (auto)
    #[arg(long, default_value = "auto", value_parser = PossibleValuesParser::new(["auto", "exact", "cohort"]).map(|name| engine(&name)))]
    engine: Choice,
    /// How many threads work on it; the result is the same [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["svg", "html"])]
    json: bool,
    /// With the curves in the JSON
    #[arg(long, requires = "json", conflicts_with = "sweeps")]
    series: bool,
    /// Write a figure to this file, or to - for standard output
    #[arg(long, value_name = "F", conflicts_with = "html")]
    svg: Option<String>,
    /// Write a page that stands by itself to this file, or to - for standard output
    #[arg(long, value_name = "F")]
    html: Option<String>,
}

/// [`Choice`], as it is typed.
fn engine(name: &str) -> Choice {
    match name {
        "exact" => Choice::Exact,
        "cohort" => Choice::Cohort,
        _ => Choice::Auto,
    }
}

/// The model of its own that is no file.
const CONTENTION: &str = "contention";
const CONTENTION_TITLE: &str =
    "Many clients write one row; a write that lost its race is refused and repeated";

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    match args.scenario.as_deref() {
        None if args.json => list_json(out),
        None => Ok(list(out)?),
        Some(CONTENTION) => contention::run(args, out),
        Some(name) if args.show => Ok(out.write_all(ask::source(name)?.as_bytes())?),
        Some(name) if args.sweeps.is_empty() => storm::run(args, name, out),
        Some(name) => grid::run(args, name, out),
    }
}

impl Args {
    fn threads(&self) -> usize {
        let all = || thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(all, usize::from)
    }
}

fn list_json(out: &mut impl Write) -> Result<(), Failed> {
    let mut all = Vec::new();
    for built_in in BUILT_IN {
        let scenario = built_in.read(&[]).map_err(io::Error::other)?;
        all.push(json!({
            "name": built_in.name,
            "title": scenario.title,
            "teaches": scenario.teaches,
            "policies": scenario.policies,
        }));
    }
    all.push(json!({
        "name": CONTENTION,
        "title": CONTENTION_TITLE,
        "teaches": "",
        "policies": BACKOFFS,
    }));
    Ok(writeln!(out, "{:#}", Value::from(all))?)
}

fn list(out: &mut impl Write) -> io::Result<()> {
    for scenario in BUILT_IN {
        let title = scenario.read(&[]).map(|scenario| scenario.title).map_err(io::Error::other)?;
        writeln!(out, "{:<18} {title}", scenario.name)?;
    }
    writeln!(out, "{CONTENTION:<18} {CONTENTION_TITLE}")
}
