//! The arguments of `redial sim`. Its commands share options, and a scenario or a flag without a command is short for one of
//! them.

use std::thread;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use redial_sim::simulate::{Choice, Detail};

use super::setting::Setting;

/// Simulate many callers of a backend in virtual time, and compare what their policies do to it
///
/// `redial sim SCENARIO` is short for `redial sim run SCENARIO`. The short forms take the options of their commands.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    mut_args(|arg| {
        const SHOWN: [&str; 8] =
            ["scenario", "list", "bench", "sweeps", "rate", "latency", "load", "outage"];
        let is_shown = SHOWN.contains(&arg.get_id().as_str());
        arg.hide(!is_shown)
    }),
    mut_args(|arg| match arg.get_id().as_str() {
        "random" | "high_traffic" | "cells" | "full" => arg.requires("bench"),
        "show" | "clients" | "engine" => arg.conflicts_with("bench"),
        "series" => arg.conflicts_with_all(["bench", "sweeps"]),
        "rate" => arg.conflicts_with_all(["list", "bench", "sweeps"]),
        _ => arg,
    }),
    after_help = "\
Examples:
  # the policies of the scenario
  redial sim capacity-loss --runs 1
  # your service, without a file
  redial sim --rate 2000/s --latency 150ms --load 0.7 --outage 2s --runs 1
  # policies ranked
  redial sim bench blip --runs 1 --policy web"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The name of a scenario, or the path of a file
    scenario: Option<String>,
    /// Short for `redial sim list`
    #[arg(long, conflicts_with = "scenario")]
    list: bool,
    /// Short for `redial sim bench`
    #[arg(long, conflicts_with_all = ["list", "sweeps"])]
    bench: bool,
    /// Short for `redial sim sweep`; may be repeated
    #[arg(long = "sweep", value_name = "PATH=VALUES")]
    sweeps: Vec<String>,
    /// Requires --sweep
    #[arg(long = "metric", value_name = "NAME", requires = "sweeps")]
    metrics: Vec<String>,
    #[command(flatten)]
    setting: Setting,
    #[command(flatten)]
    show: Show,
    #[command(flatten)]
    rankings: Rankings,
    #[command(flatten)]
    scenario_options: ScenarioOptions,
    #[command(flatten)]
    options: Options,
}

#[derive(clap::Subcommand)]
pub(super) enum Command {
    Run(RunArgs),
    Sweep(SweepArgs),
    Bench(BenchArgs),
    List(ListArgs),
}

/// Simulate a scenario with some policies beside each other
#[derive(clap::Args)]
#[command(after_help = "\
Runs are repeated with other random numbers, because near collapse a single run says little. Without --runs there are \
about five million calls of each policy, in at most 20 runs. A parameter is named by its path in the file of the scenario \
(`--show` prints it). Short paths are load, rate, clients and outage.

Examples:
  redial sim run capacity-loss --runs 1
  # other policies
  redial presets web > my.toml
  redial sim run blip --policy web --policy my.toml --runs 1
  # a figure and a page
  redial sim run blip --runs 1 --svg blip.svg --html blip.html
  # a scenario to edit
  redial sim run capacity-loss --show > mine.toml
  redial sim run mine.toml --set duration=30s --runs 1 --json > mine.json
  # your service, without a file: the number of servers is computed
  redial sim run --rate 2000/s --latency 150ms --load 0.7 --outage 2s --clients 20 --runs 1
  # five backoffs for writers of one row
  redial sim run contention --clients 100 --runs 3")]
pub(super) struct RunArgs {
    /// The name of a scenario, or the path of a file
    #[arg(required_unless_present = "rate")]
    pub(super) scenario: Option<String>,
    #[command(flatten)]
    pub(super) setting: Setting,
    #[command(flatten)]
    pub(super) show: Show,
    #[command(flatten)]
    pub(super) scenario_options: ScenarioOptions,
    #[command(flatten)]
    pub(super) options: Options,
}

/// Vary one or two parameters of a scenario
#[derive(clap::Args)]
#[command(after_help = "\
A parameter is named by its path in the file of the scenario (`redial sim run SCENARIO --show` prints it). Short paths are \
load, rate, clients and outage. Without --runs a cell has 4 to 20 runs.

Examples:
  redial sim sweep capacity-loss load=0.3,0.9 --runs 1
  # a map of two parameters
  redial sim sweep capacity-loss load=0.3,0.9 clients=10,20 --runs 1 --metric success")]
pub(super) struct SweepArgs {
    /// The name of a scenario, or the path of a file
    pub(super) scenario: String,
    /// A parameter and its values: PATH=A,B,C or PATH=FROM..TO:STEPS; two parameters make a map
    #[arg(value_name = "VALUES", required = true)]
    pub(super) sweeps: Vec<String>,
    /// The metric that is shown, by its name in the JSON; may be repeated [default: collapse]
    #[arg(long = "metric", value_name = "NAME")]
    pub(super) metrics: Vec<String>,
    #[command(flatten)]
    pub(super) scenario_options: ScenarioOptions,
    #[command(flatten)]
    pub(super) options: Options,
}

/// Rank policies in many scenarios, with the same deadline, beside no retries and the best policy of each
#[derive(clap::Args)]
#[command(
    mut_arg("policies", |arg| {
        arg.help("no-retry, a preset, peer:NAME or a policy file; may be repeated [default: all presets and all peers]")
    }),
    mut_arg("runs", |arg| arg.help("Number of runs of each policy in each cell [default: 3]")),
    after_help = "\
Examples:
  # in the cells of one scenario
  redial sim bench blip --runs 1 --policy web --cells
  # in random scenarios, with the tables
  redial sim bench --random 2 --seed 7 --runs 1 --policy web --full"
)]
pub(super) struct BenchArgs {
    /// The name of a scenario, or the path of a file [default: all built-in scenarios]
    pub(super) scenario: Option<String>,
    #[command(flatten)]
    pub(super) rankings: Rankings,
    #[command(flatten)]
    pub(super) options: Options,
}

/// List the scenarios
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  redial sim list")]
pub(super) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(clap::Args)]
pub(super) struct Show {
    /// Print the file of the scenario
    #[arg(long)]
    pub(super) show: bool,
    /// Include the time series in the JSON
    #[arg(long, requires = "json")]
    pub(super) series: bool,
}

#[derive(clap::Args)]
pub(super) struct Rankings {
    /// Use this many random scenarios, which the seed determines
    #[arg(long, value_name = "N", conflicts_with = "scenario", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) random: Option<u32>,
    /// Use this many random scenarios in which every process has much traffic; with --random, beside those
    #[arg(long, value_name = "N", conflicts_with = "scenario", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) high_traffic: Option<u32>,
    /// Print the tables of all figures, and what a default should keep, instead of ten lines
    #[arg(long)]
    pub(super) full: bool,
    /// Print the results of every cell too
    #[arg(long)]
    pub(super) cells: bool,
}

#[derive(clap::Args)]
pub(super) struct ScenarioOptions {
    /// Number of callers, or of instances if calls arrive at a rate; with contention, may be repeated
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) clients: Vec<u64>,
    /// The engine: each caller separately (exact), groups of equal callers (cohort), a smaller scenario whose counts are
    /// multiplied (scale), the fastest that is accurate (auto), or what the playground shows within a moment (quick)
    #[arg(long, default_value = "auto", value_parser = PossibleValuesParser::new(["auto", "exact", "cohort", "scale", "quick"]).map(|name| engine(&name)))]
    pub(super) engine: Choice,
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

#[derive(clap::Args)]
pub(super) struct Options {
    /// A policy of the scenario, no-retry, a preset, peer:NAME or a policy file of any known system, with #NAME if it has
    /// several; may be repeated [default: the policies of the scenario]
    #[arg(long = "policy", value_name = "P")]
    pub(super) policies: Vec<String>,
    /// Seed of the random numbers: the same seed gives the same result
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Number of runs of each case, each with other random numbers [default: see below]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) runs: Option<u32>,
    /// Set a parameter to another value, such as outage.duration=2s
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(super) sets: Vec<String>,
    /// Number of threads; does not change the result [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["svg", "html"])]
    pub(super) json: bool,
    /// Write a figure to this file, or to - for standard output
    #[arg(long, value_name = "F")]
    pub(super) svg: Option<String>,
    /// Write a self-contained HTML page to this file, or to - for standard output
    #[arg(long, value_name = "F")]
    pub(super) html: Option<String>,
}

impl Options {
    pub(super) fn threads(&self) -> usize {
        let all = || thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(all, usize::from)
    }
}

impl Args {
    /// The command, or that of the short form; `None` without a scenario.
    pub(super) fn command(self) -> Option<Command> {
        let Self {
            command,
            scenario,
            sweeps,
            metrics,
            setting,
            show,
            rankings,
            scenario_options,
            options,
            ..
        } = self;
        match (command, scenario) {
            (Some(command), _) => Some(command),
            (None, scenario) if self.bench => {
                Some(Command::Bench(BenchArgs { scenario, rankings, options }))
            }
            (None, None) if self.list => Some(Command::List(ListArgs { json: options.json })),
            (None, None) if setting.numbers().is_none() => None,
            (None, Some(scenario)) if !sweeps.is_empty() && !show.show => {
                let args = SweepArgs { scenario, sweeps, metrics, scenario_options, options };
                Some(Command::Sweep(args))
            }
            (None, scenario) => {
                Some(Command::Run(RunArgs { scenario, setting, show, scenario_options, options }))
            }
        }
    }
}
