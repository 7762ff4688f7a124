//! `redial dlq …`: dead letters, which are the jobs that the policy gave up. An operator inspects them, repairs them, and
//! restarts them at a limited rate.

mod edit;
mod filter;

use std::io::Write;
use std::time::Duration;

use clap::Subcommand;
use redial_core::Rate;
use redial_queue::durable::{
    Filter, Job, JobId, Redrive, Redriven, State, redrive_in_pages, remove_in_pages,
};
use serde_json::json;

use super::list::{self, about};
use super::location::QueueArgs;
use super::manage::{Choice, choice};
use super::print::{age, cell};
use super::show;
use crate::duration;
use crate::failed::Failed;
use filter::Which;

/// Inspect, repair and restart dead letters: jobs that were given up
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  # a job that becomes a dead letter
  export REDIAL_STORE=jobs.db
  redial queue add --key user-7 --payload hello
  redial queue work --exec 'exit 65' --stop-on-exit 65 --until nothing-due
  # the dead letters, with the reasons
  redial dlq ls
  # the results of its attempts
  redial dlq show 1
  redial dlq edit 1 --payload fixed
  redial dlq redrive --all --rate 100/s
  redial dlq purge --older 30d"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Ls(List),
    Show(show::Args),
    Edit(edit::Args),
    Redrive(RedriveArgs),
    Purge(Purge),
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    super::runtime()?.block_on(async {
        match &args.command {
            Command::Ls(args) => ls(args, out).await,
            Command::Show(args) => show::run(args, Some(State::Dead), out).await,
            Command::Edit(args) => edit::run(args, out).await,
            Command::Redrive(args) => redrive(args, out).await,
            Command::Purge(args) => purge(args, out).await,
        }
    })
}

/// List the dead letters of a queue: age, attempts, reason, and last cause
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  # a job that becomes a dead letter
  export REDIAL_STORE=jobs.db
  redial queue add --key user-7 --payload hello
  redial queue work --exec 'exit 65' --stop-on-exit 65 --until nothing-due
  redial dlq ls
  redial dlq ls --outcome 'exit code 65' --older 1h
  # a JSON object per line, with all fields
  redial dlq ls --json")]
struct List {
    #[command(flatten)]
    queue: QueueArgs,
    #[command(flatten)]
    which: Which,
    /// The most jobs to list
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    most: u32,
    /// Only jobs with a higher number than this
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
    /// Print a JSON object per line for each
    #[arg(long)]
    json: bool,
}

async fn ls(args: &List, out: &mut impl Write) -> Result<(), Failed> {
    let queue = args.queue.find().await?;
    let filter = Filter { after: args.after.map(JobId), ..args.which.filter(args.queue.filter()) };
    let now = queue.store().time().await?;
    let row = |job: &Job| {
        let last = job.history.last();
        [
            job.id.to_string(),
            age(last.map_or(job.created, |tried| tried.ended), now),
            job.progress.attempts.to_string(),
            cell(job.reason.as_deref().unwrap_or("-")),
            last.map_or_else(|| "-".to_owned(), |tried| cell(&tried.outcome)),
            about(job),
        ]
    };
    let head = ["id", "age", "attempts", "reason", "last cause", "payload"];
    list::show(&queue, filter, args.most, args.json, head, row, out).await
}

/// The dead letters that a command changes: by filter, or all of them on request.
#[derive(clap::Args)]
struct Chosen {
    #[command(flatten)]
    which: Which,
    /// All dead letters of the queue
    #[arg(long)]
    all: bool,
    /// The most jobs, lowest numbers first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    most: Option<u64>,
}

impl Chosen {
    fn filter(&self, of: Filter) -> Filter {
        let most = self.most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        Filter { most, ..self.which.filter(of) }
    }
}

/// Put dead letters back into their queue, with their attempts reset
///
/// They start one after the other, at the rate, so that a backend that has just recovered does not receive all of them at
/// once. Their history and their idempotency keys are kept.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  # a job that becomes a dead letter
  export REDIAL_STORE=jobs.db
  redial queue add --key user-7 --payload hello
  redial queue work --exec 'exit 65' --stop-on-exit 65 --until nothing-due
  redial dlq redrive --id 1
  redial dlq redrive --all --rate 100/s
  # start in ten minutes
  redial dlq redrive --outcome 65 --rate 5/s --delay 10m
  # start all at once
  redial dlq redrive --key user-7 --rate none")]
struct RedriveArgs {
    #[command(flatten)]
    queue: QueueArgs,
    #[command(flatten)]
    chosen: Chosen,
    /// The rate at which they start, or none for all at once
    #[arg(long, value_name = "RATE|none", default_value = "10/s", value_parser = choice::<Rate>)]
    rate: Choice<Rate>,
    /// Delay before the first one starts
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration::read)]
    delay: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

async fn redrive(args: &RedriveArgs, out: &mut impl Write) -> Result<(), Failed> {
    args.chosen.which.require(args.chosen.all, "redrives")?;
    let Redrive { apart, .. } = match args.rate {
        Choice::None => Redrive::default(),
        Choice::Some(rate) => Redrive::at(rate).map_err(|error| Failed::input("--rate", error))?,
    };
    let queue = args.queue.find().await?;
    let filter = args.chosen.filter(args.queue.filter());
    let redrive = Redrive { after: args.delay, apart };
    let Redriven { jobs: count, last } =
        redrive_in_pages(&**queue.store(), filter, redrive).await?;
    if args.json {
        writeln!(out, "{}", json!({ "redriven": count, "last_starts_in_ms": duration::ms(last) }))?;
    } else if count > 0 {
        writeln!(out, "{count} redriven; the last one starts in {}", duration::text(last))?;
    } else {
        writeln!(out, "0 redriven")?;
    }
    Ok(())
}

/// Remove dead letters permanently
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  # a job that becomes a dead letter
  export REDIAL_STORE=jobs.db
  redial queue add --key user-7 --payload hello
  redial queue work --exec 'exit 65' --stop-on-exit 65 --until nothing-due
  redial dlq purge --id 1
  redial dlq purge --older 30d
  redial dlq purge --all")]
struct Purge {
    #[command(flatten)]
    queue: QueueArgs,
    #[command(flatten)]
    chosen: Chosen,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

async fn purge(args: &Purge, out: &mut impl Write) -> Result<(), Failed> {
    args.chosen.which.require(args.chosen.all, "removes")?;
    let queue = args.queue.find().await?;
    let filter = args.chosen.filter(args.queue.filter());
    let count = remove_in_pages(&**queue.store(), filter).await?;
    if args.json {
        writeln!(out, "{}", json!({ "purged": count }))?;
    } else {
        writeln!(out, "{count} purged")?;
    }
    Ok(())
}
