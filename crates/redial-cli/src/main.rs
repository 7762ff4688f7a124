//! The command `redial`.

mod demo;
mod explain;
mod policy;
mod presets;
mod sim;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Retries that never become a storm.
#[derive(Parser)]
#[command(name = "redial", version, arg_required_else_help = true, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(Box<demo::Args>),
    Explain(Box<explain::Args>),
    Presets(presets::Args),
    Sim(sim::Args),
}

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Demo(args) => demo::run(&args, &mut io::stdout().lock()),
        Command::Explain(args) => explain::run(&args, &mut io::stdout().lock()),
        Command::Presets(args) => presets::run(&args, &mut io::stdout().lock()),
        Command::Sim(args) => sim::run(&args, &mut io::stdout().lock()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads us has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        #[allow(clippy::print_stderr, reason = "the one place where the command reports a failure")]
        Err(error) => {
            eprintln!("redial: {error}");
            ExitCode::FAILURE
        }
    }
}
