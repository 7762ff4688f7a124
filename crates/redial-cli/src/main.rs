//! The command `redial`.

// The subcommands:
mod check;
mod convert;
mod demo;
mod doctor;
mod explain;
mod presets;
mod proxy;
mod queue;
mod run;
mod schema;
mod shell;
mod sim;
mod up;

// What they share:
mod clock;
mod duration;
mod failed;
mod foreign;
mod log;
mod policy;
mod problem;
mod process;
mod progress;
mod stderr;
mod terminal;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use failed::Failed;

/// Retries that never become a storm.
#[derive(Parser)]
#[command(name = "redial", version, arg_required_else_help = true, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(Box<check::Args>),
    Completions(shell::CompletionsArgs),
    Demo(Box<demo::Args>),
    Doctor(Box<doctor::Args>),
    Dlq(queue::dead::Args),
    Explain(Box<explain::Args>),
    Export(convert::ExportArgs),
    #[command(hide = true)]
    Guard(process::guard::Args),
    Import(convert::ImportArgs),
    Man(shell::ManArgs),
    Presets(presets::Args),
    Proxy(Box<proxy::Args>),
    Queue(queue::Args),
    Run(Box<run::Args>),
    Schema(schema::Args),
    Sim(Box<sim::Args>),
    Up(Box<up::Args>),
}

fn main() -> ExitCode {
    let mut out = Stdout { out: io::stdout().lock(), is_closed: false };
    let done = match Args::parse().command {
        Command::Check(args) => check::run(&args, &mut out),
        Command::Completions(args) => shell::completions(&args, Args::command(), &mut out),
        Command::Demo(args) => demo::run(&args, &mut out),
        Command::Doctor(args) => doctor::run(&args, &mut out),
        Command::Dlq(args) => queue::dead::run(&args, &mut out),
        Command::Explain(args) => explain::run(&args, &mut out).map_err(Failed::from),
        Command::Export(args) => convert::export(&args, &mut out),
        Command::Guard(args) => process::guard::run(&args).map_err(Failed::from),
        Command::Import(args) => convert::import(&args, &mut out),
        Command::Man(args) => shell::man(&args, Args::command(), &mut out),
        Command::Presets(args) => presets::run(&args, &mut out).map_err(Failed::from),
        Command::Proxy(args) => proxy::run(&args, &mut out),
        Command::Queue(args) => queue::run(&args, &mut out),
        Command::Run(args) => return run::run(&args),
        Command::Schema(args) => schema::run(&args, &mut out).map_err(Failed::from),
        Command::Sim(args) => sim::run(*args, &mut out),
        Command::Up(args) => up::run(&args, &mut out),
    };
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if out.is_closed => ExitCode::SUCCESS,
        Err(failed) => failed.report(),
    }
}

/// Standard output, which remembers whether its reader has closed it: `redial sim … | head` is not a failure.
struct Stdout<W> {
    out: W,
    is_closed: bool,
}

impl<W: Write> Stdout<W> {
    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        let is_closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        self.is_closed |= done.as_ref().is_err_and(is_closed);
        done
    }
}

impl<W: Write> Write for Stdout<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.note(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.flush();
        self.note(done)
    }
}
