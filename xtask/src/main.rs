//! `cargo xtask`: the library describes each command.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program prints")]

use std::process::ExitCode;

use xtask::args::{Command, USAGE, parse};
use xtask::{bench, ci, dist, features, fuzz, prove, screenshots, setup, test, tidy, web};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let command = match parse(&args) {
        Ok(command) => command,
        Err(message) => {
            eprintln!("xtask: {message}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(command) {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<u8, String> {
    match command {
        Command::Help => {
            println!("{USAGE}");
            Ok(0)
        }
        Command::Setup => setup::run().map(|()| 0),
        Command::Test { busy, extra } => {
            let report = test::run(&extra, busy)?;
            print!("{report}");
            Ok(report.exit_code())
        }
        Command::Tidy => tidy::run().map(|()| 0),
        Command::Features => features::check().map(|()| 0),
        Command::Bench { args } => bench::run(&args),
        Command::Fuzz { target, seconds } => fuzz::run(&target, seconds),
        Command::Prove(proof) => prove::run(&proof),
        Command::Screenshots { folder } => screenshots::run(folder.as_deref()).map(|()| 0),
        Command::Web => web::build().map(|()| 0),
        Command::Dist => dist::run().map(|()| 0),
        Command::Ci => ci::run(),
    }
}
