use std::io::Write;

use redial_queue::durable::{Filter, Job, JobId, State};

use super::place::{Place, tell};
use super::print::{cell, object, payload_cell, table, when};
use crate::failed::Failed;
use crate::run::clock;

/// Show the jobs of a queue, those that were enqueued first before others
#[derive(clap::Args)]
#[command(after_help = "\
Times are seen from this machine's clock; the store has its own.

Examples:
  redial queue ls --store jobs.db
  redial queue ls --store jobs.db --state running
  redial queue ls --store jobs.db --key user-7 --json       an object in a line for each job
  redial queue ls --store jobs.db --after 4711              those with higher numbers")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Only those in this state
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(State::ALL.map(State::name)))]
    state: Option<String>,
    /// Only those with this key
    #[arg(long)]
    key: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    most: u32,
    /// Only those with a higher number than this
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
    /// Print an object in a line for each job, with everything about it
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let queue = args.place.find().await?;
    let filter = Filter {
        state: args.state.as_deref().and_then(State::from_name),
        key: args.key.clone(),
        after: args.after.map(JobId),
        ..args.place.filter()
    };
    let jobs =
        page(
            &queue,
            filter,
            args.most,
            |jobs| {
                if args.json { lines(jobs, out) } else { rows(jobs, out) }
            },
        );
    jobs.await
}

/// How many jobs are read at once: each of them may be large.
const PAGE: u32 = 500;

/// Shows up to `most` jobs, and says if there are more.
pub(crate) async fn page(
    queue: &redial_queue::durable::DurableQueue,
    mut filter: Filter,
    most: u32,
    mut show: impl FnMut(&[Job]) -> Result<(), Failed>,
) -> Result<(), Failed> {
    let mut left = most;
    loop {
        // One more than is shown tells whether there is more.
        let page = left.min(PAGE);
        filter.most = page as usize + 1;
        let mut jobs = queue.store().list(&filter).await?;
        let more = jobs.len() > page as usize;
        jobs.truncate(page as usize);
        if !jobs.is_empty() || left == most {
            show(&jobs)?;
        }
        left -= page;
        filter.after = jobs.last().map(|job| job.id).or(filter.after);
        if !more {
            return Ok(());
        }
        if left == 0 {
            let last = filter.after.map_or(0, |id| id.0);
            tell(&format!("there are more: --after {last} shows them, and --most sets how many"));
            return Ok(());
        }
    }
}

pub(crate) fn lines(jobs: &[Job], out: &mut impl Write) -> Result<(), Failed> {
    jobs.iter().try_for_each(|job| writeln!(out, "{}", object(job)))?;
    Ok(())
}

fn rows(jobs: &[Job], out: &mut impl Write) -> Result<(), Failed> {
    let now = clock::wall();
    let row = |job: &Job| {
        [
            job.id.to_string(),
            job.state.name().to_owned(),
            when(job, now),
            job.progress.attempts.to_string(),
            job.priority.level().to_string(),
            job.key.as_deref().map_or_else(|| "-".to_owned(), cell),
            about(job),
        ]
    };
    let rows: Vec<_> = jobs.iter().map(row).collect();
    Ok(table(["id", "state", "due", "attempts", "priority", "key", "payload"], &rows, out)?)
}

/// Of a delivery, where it goes says more than what is in it.
pub(crate) fn about(job: &Job) -> String {
    let header = |wanted: &str| {
        job.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    };
    match (header(":method"), header(":url")) {
        (Some(method), Some(url)) => cell(&format!("{method} {url}")),
        _ => payload_cell(&job.payload),
    }
}
