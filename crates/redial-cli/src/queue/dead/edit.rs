use std::io::Write;

use redial_queue::Priority;
use redial_queue::durable::{Edit, JobId, NewPolicy, State};

use super::super::input::{Source, check_delivery, header};
use super::super::location::{IfMissing, QueueArgs};
use crate::failed::Failed;

/// Change a dead letter before it is redriven
#[derive(clap::Args)]
#[command(after_help = "\
A header replaces all headers of the same name; one without a value removes them. :url and :method of a delivery are \
headers too.

Examples:
  # a job that becomes a dead letter
  export REDIAL_STORE=jobs.db
  redial queue add --payload hello
  redial queue work --exec 'exit 65' --stop-on-exit 65 --until nothing-due
  # correct it
  echo fixed > fixed.txt
  redial dlq edit 1 --payload @fixed.txt
  redial dlq edit 1 --header 'X-Trace: 7' --priority 7
  redial dlq edit 1 --header 'X-Trace:' --policy patient")]
#[command(override_usage = "redial dlq edit [OPTIONS] <CHANGE>... <ID>")]
#[group(id = "change", required = true, multiple = true)]
pub(super) struct Args {
    #[command(flatten)]
    queue: QueueArgs,
    /// The number of the job
    id: i64,
    /// The new payload: the text, @ and the path of a file, or - for stdin
    #[arg(long, value_name = "TEXT|@FILE|-", value_parser = Source::read, group = "change")]
    payload: Option<Source>,
    /// A new header; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header, group = "change")]
    headers: Vec<(String, String)>,
    /// The name of the new policy, or none for the worker's policy
    #[arg(long, value_name = "NAME|none", group = "change")]
    policy: Option<String>,
    /// The new priority, from 0 to 7
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7), group = "change")]
    priority: Option<u8>,
}

pub(super) async fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let payload = args.payload.as_ref().map(Source::bytes).transpose()?;
    let store = args.queue.open(IfMissing::Fail).await?;
    let job = args.queue.job(&*store, JobId(args.id)).await?;
    if job.state != State::Dead {
        let (id, state) = (job.id, job.state.name());
        return Err(Failed::Other(format!("job {id} is {state}, not a dead letter")));
    }
    let mut headers = job.headers;
    for (name, value) in &args.headers {
        let place = headers.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
        headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        if !value.is_empty() {
            let place = place.unwrap_or(headers.len()).min(headers.len());
            headers.insert(place, (name.clone(), value.clone()));
        }
    }
    if !args.headers.is_empty() {
        check_delivery(&headers, Some(&job.idempotency_key))?;
    }
    let edit = Edit {
        payload,
        headers: (!args.headers.is_empty()).then_some(headers),
        policy: args.policy.as_deref().map(|name| match name {
            "none" => NewPolicy::OfWorker,
            name => NewPolicy::Named(name.to_owned()),
        }),
        priority: args.priority.map(Priority::new),
    };
    if !store.edit(job.id, edit).await? {
        let why = format!("job {} was redriven or removed meanwhile; nothing was changed", job.id);
        return Err(Failed::Other(why));
    }
    writeln!(out, "{}", job.id)?;
    Ok(())
}
