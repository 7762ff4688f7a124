//! `redial sim SCENARIO`: simulates what a policy does to a backend when many clients use it.

mod bench;
mod chart;
mod contention;
mod output;
pub(crate) mod progress;
mod request;
mod scenario;
mod sweep;
mod table;

use std::io::{self, Write};
use std::thread;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use redial_sim::contention::BACKOFFS;
use redial_sim::scenario::{BUILT_IN, BuiltIn};
use redial_sim::simulate::{Choice, Detail};

use serde_json::{Value, json};

use crate::failed::Failed;
use crate::terminal::Terminal;

/// Simulate many callers of a backend in virtual time, and compare what their policies do to it
#[derive(clap::Args)]
#[command(after_help = "\
Runs are repeated with other random numbers, because near collapse a single run says little. Without --runs there are \
about five million calls of each policy, in at most 20 runs; a cell of a sweep has 4 to 20 runs. A parameter is named by \
its path in the file of the scenario (`--show` prints it). Two sweeps make a map. Short paths are load, rate, clients \
and outage.

Examples:
  redial sim --list
  # the policies of the scenario
  redial sim capacity-loss --runs 1
  # other policies
  redial presets web > my.toml
  redial sim blip --policy web --policy my.toml --runs 1
  # a figure and a page
  redial sim blip --runs 1 --svg blip.svg --html blip.html
  # a scenario to edit
  redial sim capacity-loss --show > mine.toml
  redial sim mine.toml --set duration=30s --runs 1 --json > mine.json
  # a map of two parameters
  redial sim mine.toml --sweep load=0.3,0.9 --sweep clients=10,20 --runs 1
  # policies ranked
  redial sim --bench blip --runs 1 --policy web --policy my.toml
  # five backoffs for writers of one row
  redial sim contention --clients 100 --runs 3")]
pub(crate) struct Args {
    /// The name of a scenario, or the path of a file
    scenario: Option<String>,
    /// List the scenarios
    #[arg(long, conflicts_with = "scenario")]
    list: bool,
    /// Print the file of the scenario
    #[arg(long)]
    show: bool,
    /// Compare policies fairly: in many scenarios, with the same patience, against one attempt and the best policy of each
    /// [default: all built-in scenarios, all presets and all peers]
    #[arg(long, conflicts_with_all = ["list", "show", "clients", "sweeps", "engine", "series"])]
    bench: bool,
    /// With --bench: in this many random scenarios, which the seed determines
    #[arg(long, value_name = "N", requires = "bench", conflicts_with = "scenario", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    random: Option<u32>,
    /// With --bench: in this many random scenarios in which every process has much traffic; with --random, beside those
    #[arg(long, value_name = "N", requires = "bench", conflicts_with = "scenario", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    high_traffic: Option<u32>,
    /// With --bench: print the results of every cell too
    #[arg(long, requires = "bench")]
    cells: bool,
    /// A policy of the scenario, no-retry, a preset, peer:NAME or a policy file; may be repeated [default: the policies of
    /// the scenario; with --bench all presets and peers]
    #[arg(long = "policy", value_name = "P")]
    policies: Vec<String>,
    /// Seed of the random numbers: the same seed gives the same result
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of runs of each case, each with other random numbers [default: see below; with --bench 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: Option<u32>,
    /// Number of callers, or of instances if calls arrive at a rate; with contention, may be repeated
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    clients: Vec<u64>,
    /// Set a parameter to another value, such as outage.duration=2s
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Vary a parameter: PATH=A,B,C or PATH=FROM..TO:STEPS; two sweeps make a map
    #[arg(long = "sweep", value_name = "PATH=VALUES")]
    sweeps: Vec<String>,
    /// The metric that a sweep shows, by its name in the JSON; may be repeated [default: collapse]
    #[arg(long = "metric", value_name = "NAME", requires = "sweeps")]
    metrics: Vec<String>,
    /// The engine: each caller separately (exact), groups of equal callers (cohort), a smaller scenario whose counts are
    /// multiplied (scale), the fastest that is accurate (auto), or what the playground shows within a moment (quick)
    #[arg(long, default_value = "auto", value_parser = PossibleValuesParser::new(["auto", "exact", "cohort", "scale", "quick"]).map(|name| engine(&name)))]
    engine: Choice,
    /// Number of threads; does not change the result [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["svg", "html"])]
    json: bool,
    /// Include the time series in the JSON
    #[arg(long, requires = "json", conflicts_with = "sweeps")]
    series: bool,
    /// Write a figure to this file, or to - for standard output
    #[arg(long, value_name = "F")]
    svg: Option<String>,
    /// Write a self-contained HTML page to this file, or to - for standard output
    #[arg(long, value_name = "F")]
    html: Option<String>,
}

/// Parses a [`Choice`].
fn engine(name: &str) -> Choice {
    match name {
        "exact" => Choice::Exact,
        "cohort" => Choice::Cohort,
        "scale" => Choice::Scale,
        "quick" => Choice::Quick(Detail::Full),
        _ => Choice::Auto,
    }
}

/// A model of its own, which has no scenario file.
const CONTENTION: &str = "contention";
const CONTENTION_TITLE: &str =
    "Many clients write one row; a write that lost a race is rejected and repeated";

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    match args.scenario.as_deref() {
        _ if args.bench => bench::run(args, out),
        None if args.list && args.json => list_json(out),
        None if args.list => Ok(list(Terminal::of_stdout(), out)?),
        None => {
            let example = format!("name a scenario, such as `redial sim {FIRST}`");
            Err(Failed::Input(format!("{example}; `redial sim --list` lists them")))
        }
        Some(CONTENTION) => contention::run(args, out),
        Some(name) if args.show => Ok(out.write_all(request::source(name)?.as_bytes())?),
        Some(name) if args.sweeps.is_empty() => scenario::run(args, name, out),
        Some(name) => sweep::run(args, name, out),
    }
}

impl Args {
    fn threads(&self) -> usize {
        let all = || thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(all, usize::from)
    }
}

/// The scenario to begin with: a backend that stays overloaded after it has recovered.
const FIRST: &str = "capacity-loss";

fn listed() -> impl Iterator<Item = &'static BuiltIn> {
    let (first, others): (Vec<_>, Vec<_>) = BUILT_IN.iter().partition(|it| it.name == FIRST);
    first.into_iter().chain(others)
}

fn list_json(out: &mut impl Write) -> Result<(), Failed> {
    let mut all = Vec::new();
    for built_in in listed() {
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

fn list(terminal: Terminal, out: &mut impl Write) -> io::Result<()> {
    let mut rows = Vec::new();
    for scenario in listed() {
        let title = scenario.read(&[]).map(|scenario| scenario.title).map_err(io::Error::other)?;
        rows.push((scenario.name.to_owned(), title));
    }
    rows.push((CONTENTION.to_owned(), CONTENTION_TITLE.to_owned()));
    terminal.rows(&rows, out)
}
