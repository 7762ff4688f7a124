use std::io::{self, BufRead, BufReader, IsTerminal as _, Read as _, Write};

use redial_queue::durable::{DurableQueue, Enqueued, NewJob};
use serde_json::json;

use super::input::{JobArgs, Source, check_delivery, header};
use super::location::QueueArgs;
use crate::failed::Failed;

/// Add jobs to a queue
///
/// A job is on disk before its number is printed.
#[derive(clap::Args)]
#[command(after_help = "\
With --lines each line is a job, and empty lines are skipped. Jobs are added in atomic batches, and their numbers are \
printed as soon as a batch is in the store. A batch does not wait for lines that have not arrived yet.

Exit codes: 0 all jobs were added (or kept, with --when-waiting keep), 1 a job was refused or the store failed, 2 wrong \
usage.

Examples:
  export REDIAL_STORE=jobs.db
  redial queue add --payload 'resize 17'
  # a file, in five minutes
  echo hello > letter.txt
  redial queue add --queue mail --payload @letter.txt --after 5m
  # replace a job that waits and has the same key
  redial queue add --key user-7 --when-waiting replace --payload - < letter.txt
  # a job for each line
  ls | redial queue add --queue images --lines")]
pub(crate) struct Args {
    #[command(flatten)]
    queue: QueueArgs,
    /// The payload: the text, @ and the path of a file, or - for stdin [default: stdin]
    #[arg(long, value_name = "TEXT|@FILE|-", value_parser = Source::read, help_heading = "Job")]
    payload: Option<Source>,
    /// Each line is a job
    #[arg(long, conflicts_with = "idempotency_key", help_heading = "Job")]
    lines: bool,
    /// A header for the handler, such as 'Kind: thumbnail'; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header, help_heading = "Job")]
    headers: Vec<(String, String)>,
    #[command(flatten)]
    job: JobArgs,
}

/// The most jobs of a batch, and their bytes.
const BATCH: usize = 1000;
const BATCH_BYTES: usize = 4 << 20;

pub(super) async fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let source = match &args.payload {
        Some(source) => source.clone(),
        None if io::stdin().is_terminal() => {
            return Err(Failed::input("--payload", "missing, and stdin is a terminal"));
        }
        None => Source::Stdin,
    };
    check_delivery(&args.headers, args.job.idempotency_key.as_deref())?;
    let job = |payload: Vec<u8>| {
        let mut job = args.job.apply(NewJob::new(payload));
        job.headers.clone_from(&args.headers);
        job
    };
    if args.lines {
        return lines(args, &source, job, out).await;
    }
    let job = job(source.bytes()?);
    let queue = args.queue.create().await?;
    let became = queue.enqueue(job).await?;
    print(&[became], args.job.json, out)?;
    refused(&[became])
}

async fn lines(
    args: &Args,
    source: &Source,
    job: impl Fn(Vec<u8>) -> NewJob,
    out: &mut impl Write,
) -> Result<(), Failed> {
    let mut from = BufReader::with_capacity(BATCH_BYTES, source.open()?);
    let queue = args.queue.create().await?;
    let (mut line, mut number, mut bytes) = (Vec::new(), 0_u64, 0);
    let (mut batch, mut first, mut all) = (Batch::default(), 1, Vec::new());
    loop {
        line.clear();
        let most = NewJob::MOST_PAYLOAD as u64 + 2;
        let read = from.by_ref().take(most).read_until(b'\n', &mut line);
        let ended = read.map_err(|error| Failed::input(source.name(), error))? == 0;
        number += 1;
        while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            line.pop();
        }
        if line.len() > NewJob::MOST_PAYLOAD {
            let why = format!("a payload has at most {} bytes", NewJob::MOST_PAYLOAD);
            batch.enqueue(&queue, first, args.job.json, &mut all, out).await?;
            return Err(Failed::input(format!("line {number}"), stopped(why, number)));
        }
        if !line.is_empty() {
            bytes += line.len();
            batch.0.push(job(line.clone()));
        }
        // A slow writer may be gone before a batch is full.
        let may_wait = !from.buffer().contains(&b'\n');
        if ended || may_wait || batch.0.len() >= BATCH || bytes >= BATCH_BYTES {
            batch.enqueue(&queue, first, args.job.json, &mut all, out).await?;
            (first, bytes) = (number + 1, 0);
        }
        if ended {
            return refused(&all);
        }
    }
}

#[derive(Default)]
struct Batch(Vec<NewJob>);

impl Batch {
    /// Adds the batch, prints the results, and collects the refused jobs.
    async fn enqueue(
        &mut self,
        queue: &DurableQueue,
        first: u64,
        json: bool,
        wrong: &mut Vec<Enqueued>,
        out: &mut impl Write,
    ) -> Result<(), Failed> {
        if self.0.is_empty() {
            return Ok(());
        }
        let became = queue.enqueue_all(std::mem::take(&mut self.0)).await;
        let became = became.map_err(|error| match Failed::from(error) {
            Failed::Input(why) => Failed::Input(stopped(why, first)),
            Failed::Other(why) => Failed::Other(stopped(why, first)),
            other => other,
        })?;
        wrong.extend(became.iter().filter(|one| matches!(one, Enqueued::Refused(_))));
        print(&became, json, out)
    }
}

/// Tells the user where to continue.
fn stopped(why: impl std::fmt::Display, line: u64) -> String {
    format!("{why}; the lines before line {line} are in the queue")
}

/// Prints the numbers of the jobs that are in the queue.
pub(super) fn print(all: &[Enqueued], json: bool, out: &mut impl Write) -> Result<(), Failed> {
    for one in all {
        let id = one.id();
        let became = match one {
            Enqueued::Added(_) => "added",
            Enqueued::Replaced(_) => "replaced",
            Enqueued::Kept(_) => "kept",
            Enqueued::Refused(_) => "refused",
        };
        if json {
            writeln!(out, "{}", json!({ "id": id.0, "became": became }))?;
        } else if !matches!(one, Enqueued::Refused(_)) {
            writeln!(out, "{id}")?;
        }
    }
    Ok(out.flush()?)
}

pub(super) fn refused(all: &[Enqueued]) -> Result<(), Failed> {
    let mut refused = all.iter().filter(|one| matches!(one, Enqueued::Refused(_)));
    match (refused.next(), refused.count()) {
        (None, _) => Ok(()),
        (Some(one), 0) => {
            let id = one.id();
            Err(Failed::Other(format!("refused: job {id} with the same key is waiting")))
        }
        (Some(one), more) => {
            let (id, all) = (one.id(), more + 1);
            Err(Failed::Other(format!("{all} refused: job {id} with the same key is waiting")))
        }
    }
}
