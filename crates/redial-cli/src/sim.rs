//! `redial sim SCENARIO`: what a policy does when many run it at once.

mod contention;

use std::io::{self, Write};
use std::thread;

use clap::ValueEnum;

use crate::policy::Named;

/// Run many callers against a backend in virtual time, and see what their policy does to it
#[derive(clap::Args)]
#[command(after_help = "Examples:
  redial sim --list                                what can be run
  redial sim contention                            the article's five backoffs, for 1, 10 and 100 clients
  redial sim contention --clients 1000 --runs 10   many more of them
  redial sim contention --policy web --policy my.toml --json")]
pub(crate) struct Args {
    /// What to run
    #[arg(required_unless_present = "list")]
    scenario: Option<Scenario>,
    /// Say what can be run
    #[arg(long, conflicts_with = "scenario")]
    list: bool,
    /// How many clients there are; repeat it to compare [default: 1, 10 and 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: Vec<u32>,
    /// How often each case is repeated, each time with other random numbers
    #[arg(long, value_name = "R", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: u32,
    /// Names the random numbers: the same seed gives the same result
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// A preset, `peer:NAME` or a policy file; repeat it to compare [default: those of the scenario]
    #[arg(long = "policy", value_name = "P", value_parser = Named::read)]
    policies: Vec<Named>,
    /// How many threads work on it; the result is the same [default: one for each processor]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Scenario {
    /// Many clients write one row; a write that lost its race is refused and repeated
    Contention,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<()> {
    match args.scenario {
        Some(Scenario::Contention) => contention::run(args, out),
        None => list(out),
    }
}

impl Args {
    fn threads(&self) -> usize {
        let all = || thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(all, usize::from)
    }
}

fn list(out: &mut impl Write) -> io::Result<()> {
    for scenario in Scenario::value_variants().iter().filter_map(Scenario::to_possible_value) {
        let help = scenario.get_help().map(ToString::to_string).unwrap_or_default();
        writeln!(out, "{:<12} {help}", scenario.get_name())?;
    }
    Ok(())
}
