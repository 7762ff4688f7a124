use std::io::{IsTerminal as _, Write};
use std::time::SystemTime;

use redial_queue::durable::{Job, JobId, State};

use super::location::{IfMissing, QueueArgs};
use super::print::{object, payload_lines, relative};
use super::time::Utc;
use crate::duration;
use crate::failed::Failed;
use crate::text::sanitise;

/// Show a job: its fields, and the results of its attempts
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  export REDIAL_STORE=jobs.db
  redial queue add --payload hello
  redial queue show 1
  redial queue show 1 --json
  # the bytes of the payload
  redial queue show 1 --payload > payload")]
pub(crate) struct Args {
    #[command(flatten)]
    queue: QueueArgs,
    /// The number of the job
    id: i64,
    /// Print only the payload; control characters are replaced on a terminal
    #[arg(long, conflicts_with = "json")]
    payload: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The most lines of a payload that are shown with the other fields.
const MOST_LINES: usize = 20;
/// The most characters of each line.
const MOST_WIDE: usize = 400;

/// `only` is the state that the job must have.
pub(crate) async fn run(
    args: &Args,
    only: Option<State>,
    out: &mut impl Write,
) -> Result<(), Failed> {
    let store = args.queue.open(IfMissing::Fail).await?;
    let job = args.queue.job(&*store, JobId(args.id)).await?;
    if let Some(only) = only
        && job.state != only
    {
        let (id, state) = (job.id, job.state.name());
        return Err(Failed::Other(format!("job {id} is {state}; use `redial queue show`")));
    }
    if args.payload && std::io::stdout().is_terminal() {
        payload_lines(&job.payload).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    } else if args.payload {
        out.write_all(&job.payload)?;
    } else if args.json {
        writeln!(out, "{:#}", object(&job))?;
    } else {
        show(&job, store.time().await?, out)?;
    }
    Ok(())
}

fn show(job: &Job, now: SystemTime, out: &mut impl Write) -> std::io::Result<()> {
    let time = |time| format!("{} ({})", Utc(time), relative(time, now));
    let mut line = |name: &str, value: &str| writeln!(out, "{name:<16} {}", sanitise(value));
    line("job", &format!("{} of the queue {}", job.id, job.queue))?;
    match &job.reason {
        Some(reason) => line("state", &format!("{}: {reason}", job.state.name()))?,
        None => line("state", job.state.name())?,
    }
    if let Some(key) = &job.key {
        line("key", key)?;
    }
    line("priority", &job.priority.level().to_string())?;
    line("policy", job.policy.as_deref().unwrap_or("the worker's"))?;
    line("idempotency key", &job.idempotency_key)?;
    line("enqueued", &time(job.created))?;
    if let Some(begun) = job.begun {
        line("first attempt", &time(begun))?;
    }
    match job.state {
        State::Waiting | State::Held => line("due", &time(job.due))?,
        State::Running => line("leased until", &time(job.due))?,
        State::Dead => {}
    }
    line("attempts", &job.progress.attempts.to_string())?;
    for tried in &job.history {
        let (ended, took) = (relative(tried.ended, now), duration::text(tried.took));
        line(&format!("  {}", tried.number), &format!("{} ({ended}, took {took})", tried.outcome))?;
    }
    for (name, value) in &job.headers {
        let secret =
            ["authorization", "cookie"].iter().any(|known| name.eq_ignore_ascii_case(known));
        let value = if secret { "(hidden; --json shows it)" } else { value };
        line("header", &format!("{name}: {value}"))?;
    }
    line("payload", &format!("{} bytes", job.payload.len()))?;
    let lines = payload_lines(&job.payload);
    for line in lines.iter().take(MOST_LINES) {
        let shown: String = line.chars().take(MOST_WIDE).collect();
        let cut = if shown.len() < line.len() { "…" } else { "" };
        writeln!(out, "  {shown}{cut}")?;
    }
    if lines.len() > MOST_LINES {
        writeln!(out, "  … {} more lines; --payload prints them all", lines.len() - MOST_LINES)?;
    }
    Ok(())
}
