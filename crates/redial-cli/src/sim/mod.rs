//! `redial sim`: simulates what a policy does to a backend when many clients use it.

mod args;
mod bench;
mod chart;
mod contention;
mod list;
mod output;
mod request;
mod scenario;
mod setting;
mod sweep;
mod table;

use std::io::Write;

use crate::failed::Failed;
pub(crate) use args::Args;
use args::Command;

/// The scenario to begin with: a backend that stays overloaded after it has recovered.
const FIRST: &str = "capacity-loss";

pub(crate) fn run(args: Args, out: &mut impl Write) -> Result<(), Failed> {
    match args.command() {
        None => {
            let example = format!("name a scenario, such as `redial sim {FIRST}`");
            Err(Failed::Input(format!("{example}; `redial sim --list` lists them")))
        }
        Some(Command::Run(args)) if args.scenario.as_deref() == Some(contention::NAME) => {
            contention::run(&args, out)
        }
        Some(Command::Run(args)) => scenario::run(&args, out),
        Some(Command::Sweep(args)) => sweep::run(&args, out),
        Some(Command::Bench(args)) => bench::run(&args, out),
        Some(Command::List(args)) => list::run(&args, out),
    }
}
