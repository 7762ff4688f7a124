use std::io::Write;

use redial_queue::durable::{DurableQueue, Filter, Job, JobId, State};

use super::location::{QueueArgs, note};
use super::print::{cell, object, payload_cell, table, when};
use crate::failed::Failed;

/// List the jobs of a queue, oldest first
#[derive(clap::Args)]
#[command(after_help = "\
Times are relative to the store's clock.

Examples:
  export REDIAL_STORE=jobs.db
  redial queue add --key user-7 --payload hello
  redial queue ls
  redial queue ls --state running
  # a JSON object per line
  redial queue ls --key user-7 --json
  # jobs with higher numbers
  redial queue ls --after 4711")]
pub(crate) struct Args {
    #[command(flatten)]
    queue: QueueArgs,
    /// Only jobs in this state
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(State::ALL.map(State::name)))]
    state: Option<String>,
    /// Only jobs with this key
    #[arg(long)]
    key: Option<String>,
    /// The most jobs to list
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    most: u32,
    /// Only jobs with a higher number than this
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
    /// Print a JSON object per line for each job, with all of its fields
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let queue = args.queue.find().await?;
    let filter = Filter {
        state: args.state.as_deref().and_then(State::from_name),
        key: args.key.clone(),
        after: args.after.map(JobId),
        ..args.queue.filter()
    };
    let now = queue.store().time().await?;
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
    let head = ["id", "state", "due", "attempts", "priority", "key", "payload"];
    show(&queue, filter, args.most, args.json, head, row, out).await
}

/// The most jobs that are read at once: each may be large.
const PAGE: usize = 64;

/// Lists up to `most` jobs, as a table or as JSON lines, and notes whether there are more.
pub(crate) async fn show<const N: usize>(
    queue: &DurableQueue,
    mut filter: Filter,
    most: u32,
    json: bool,
    head: [&str; N],
    row: impl Fn(&Job) -> [String; N],
    out: &mut impl Write,
) -> Result<(), Failed> {
    let (mut rows, mut left) = (Vec::new(), most as usize);
    let more = loop {
        // One more than is shown, to know whether there are more.
        let page = left.min(PAGE);
        filter.most = page + 1;
        let mut jobs = queue.store().list(&filter).await?;
        let more = jobs.len() > page;
        jobs.truncate(page);
        if json {
            jobs.iter().try_for_each(|job| writeln!(out, "{}", object(job)))?;
        } else {
            rows.extend(jobs.iter().map(&row));
        }
        left -= page;
        filter.after = jobs.last().map(|job| job.id).or(filter.after);
        if !more || left == 0 {
            break more;
        }
    };
    if !json {
        table(head, &rows, out)?;
    }
    if let Some(last) = filter.after.filter(|_| more) {
        out.flush()?;
        note(&format!("there are more jobs: list them with --after {last}, or raise --most"));
    }
    Ok(())
}

/// The method and URL of a delivery, or the payload of another job.
pub(crate) fn about(job: &Job) -> String {
    let header = |wanted: &str| {
        job.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    };
    match (header(":method"), header(":url")) {
        (Some(method), Some(url)) => cell(&format!("{method} {url}")),
        _ => payload_cell(&job.payload),
    }
}
