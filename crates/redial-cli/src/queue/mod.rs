//! `redial queue …`: durable jobs, which outlive the process that enqueued them.
//!
//! All state is in the store; the commands keep nothing between two of its answers.

mod add;
mod backup;
mod clock;
mod input;
mod list;
mod location;
mod manage;
mod print;
mod send;
mod show;
mod stats;
mod time;
mod work;

pub(crate) mod dead;

use std::io::Write;

use clap::Subcommand;
use tokio::runtime::{Builder, Runtime};

use crate::failed::Failed;

/// Enqueue jobs, process them, and inspect queues
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  # add a job; the store is created if needed
  export REDIAL_STORE=jobs.db
  redial queue add --payload 'resize 17'
  # run a command for each job: the payload is on stdin
  redial queue work --exec 'wc -c' --until nothing-due
  # a webhook, which `redial queue work` sends
  redial queue send -d paid http://127.0.0.1:9/orders --after 1h
  redial queue stats
  # the dead letters
  redial dlq ls"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Add(Box<add::Args>),
    Backup(backup::Args),
    Clock(clock::Args),
    Ls(list::Args),
    Pause(manage::Pause),
    Resume(manage::Resume),
    Rm(manage::Remove),
    Send(Box<send::Args>),
    Set(manage::Set),
    Show(show::Args),
    Stats(stats::Args),
    Verify(manage::Verify),
    Work(Box<work::Args>),
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        match &args.command {
            Command::Add(args) => add::run(args, out).await,
            Command::Backup(args) => backup::run(args, out),
            Command::Clock(args) => clock::run(args, out).await,
            Command::Ls(args) => list::run(args, out).await,
            Command::Pause(args) => manage::pause(args).await,
            Command::Resume(args) => manage::resume(args).await,
            Command::Rm(args) => manage::remove(args, out).await,
            Command::Send(args) => send::run(args, out).await,
            Command::Set(args) => manage::set(args).await,
            Command::Show(args) => show::run(args, None, out).await,
            Command::Stats(args) => stats::run(args, out).await,
            Command::Verify(args) => manage::verify(args, out).await,
            Command::Work(args) => work::run(args, out).await,
        }
    });
    if let Err(Failed::Reported(_)) = done {
        // A worker that stops immediately does not wait for its blocking threads, such as one that resolves a name.
        runtime.shutdown_background();
    }
    done
}

fn runtime() -> Result<Runtime, Failed> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}
