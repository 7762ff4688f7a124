//! `redial queue pause`, `resume`, `set`, `rm` and `verify`.

use std::io::Write;
use std::num::NonZeroU32;
use std::str::FromStr;

use redial_core::admit::RateRule;
use redial_core::{Rate, Span};
use redial_queue::durable::{Filter, JobId};
use serde_json::json;

use super::location::{IfMissing, Location, QueueArgs, named_error, open_file};
use crate::failed::Failed;
use crate::text::sanitise;

/// Stop claiming jobs of a queue; running jobs continue
#[derive(clap::Args)]
#[command(after_help = "\
Applies to all workers of the queue, including workers that start later, until `redial queue resume`.

Examples:
  export REDIAL_STORE=jobs.db
  redial queue pause --queue mail")]
pub(crate) struct Pause {
    #[command(flatten)]
    queue: QueueArgs,
}

/// Resume a paused queue
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  export REDIAL_STORE=jobs.db
  redial queue resume --queue mail")]
pub(crate) struct Resume {
    #[command(flatten)]
    queue: QueueArgs,
}

pub(super) async fn pause(args: &Pause) -> Result<(), Failed> {
    Ok(args.queue.find_or_make().await?.pause().await?)
}

pub(super) async fn resume(args: &Resume) -> Result<(), Failed> {
    Ok(args.queue.find_or_make().await?.resume().await?)
}

/// Change settings that apply to all workers of a queue
#[derive(clap::Args)]
#[command(after_help = "\
The settings are kept in the store and apply immediately, also to running workers. `redial queue stats` shows them.

Examples:
  export REDIAL_STORE=jobs.db
  # limit the rate of attempts
  redial queue set --queue mail --rate 100/s
  # never two together
  redial queue set --queue mail --rate 10/m --burst 1
  redial queue set --queue mail --rate none
  # drop the oldest dead letters beyond this number
  redial queue set --queue mail --most-dead 10000
  # process jobs with the same key in any order
  redial queue set --queue mail --per-key none")]
#[command(override_usage = "redial queue set [OPTIONS] <SETTING>...")]
#[group(id = "setting", required = true, multiple = true)]
pub(crate) struct Set {
    #[command(flatten)]
    queue: QueueArgs,
    /// The rate at which all workers together claim jobs: such as 100/s, 5/m, or none for no limit
    #[arg(long, value_name = "RATE|none", value_parser = choice::<Rate>, group = "setting")]
    rate: Option<Choice<Rate>>,
    /// The most jobs at once after a pause [default: one second's worth of the rate]
    #[arg(long, value_name = "N", requires = "rate", value_parser = clap::value_parser!(u32).range(1..))]
    burst: Option<u32>,
    /// The most jobs of a key that run or wait for a retry concurrently, or none for no limit; 1 keeps them in order
    #[arg(long, value_name = "N|none", value_parser = per_key, group = "setting")]
    per_key: Option<Choice<NonZeroU32>>,
    /// The most dead letters, or none for no limit
    #[arg(long, value_name = "N|none", value_parser = choice::<u64>, group = "setting")]
    most_dead: Option<Choice<u64>>,
}

/// A value, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice<T> {
    Some(T),
    None,
}

impl<T> Choice<T> {
    fn into_option(self) -> Option<T> {
        match self {
            Self::Some(value) => Some(value),
            Self::None => None,
        }
    }
}

/// A setting that can be none.
pub(crate) trait Settable: FromStr {
    const FORM: &'static str;
}

impl Settable for Rate {
    const FORM: &'static str = "not a rate such as 100/s, 5/m or 1/30s, or none";
}

impl Settable for u64 {
    const FORM: &'static str = "not a number or none";
}

impl Settable for NonZeroU32 {
    const FORM: &'static str = "not a number or none";
}

pub(crate) fn choice<T: Settable>(text: &str) -> Result<Choice<T>, String> {
    match text {
        "none" => Ok(Choice::None),
        _ => text.parse().map(Choice::Some).map_err(|_| T::FORM.to_owned()),
    }
}

/// Also 0, as no limit is written in JSON.
fn per_key(text: &str) -> Result<Choice<NonZeroU32>, String> {
    choice(if text == "0" { "none" } else { text })
}

pub(super) async fn set(args: &Set) -> Result<(), Failed> {
    let rate = args.rate.map(|rate| rule(rate.into_option(), args.burst)).transpose()?;
    let queue = args.queue.find_or_make().await?;
    let change = queue.change(|settings| {
        settings.rate = rate.unwrap_or(settings.rate);
        if let Some(most) = args.per_key {
            settings.per_key = most.into_option();
        }
        if let Some(most) = args.most_dead {
            settings.most_dead = most.into_option();
        }
    });
    Ok(change.await?)
}

fn rule(rate: Option<Rate>, burst: Option<u32>) -> Result<Option<RateRule>, Failed> {
    let Some(rate) = rate else { return Ok(None) };
    if rate.count == 0 {
        let why = "no job would ever be claimed; use `redial queue pause`";
        return Err(Failed::input("--rate", why));
    }
    let a_second = Span::SECOND * u64::from(rate.count) / rate.per;
    let usual = u32::try_from(a_second).unwrap_or(u32::MAX).max(1);
    Ok(Some(RateRule::new(rate, burst.unwrap_or(usual))))
}

/// Remove jobs that are not running
#[derive(clap::Args)]
#[command(after_help = "\
Exit codes: 0 all were removed, 1 one of them is running or does not exist.

Examples:
  export REDIAL_STORE=jobs.db
  redial queue add --payload hello
  redial queue rm 1")]
pub(crate) struct Remove {
    #[command(flatten)]
    queue: QueueArgs,
    /// The numbers of the jobs
    #[arg(required = true, value_name = "ID")]
    ids: Vec<i64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn remove(args: &Remove, out: &mut impl Write) -> Result<(), Failed> {
    let store = args.queue.open(IfMissing::Fail).await?;
    let (mut removed, mut left) = (Vec::new(), Vec::new());
    for id in args.ids.iter().copied().map(JobId) {
        let filter = Filter {
            queue: args.queue.named().map(str::to_owned),
            ids: vec![id],
            ..Filter::default()
        };
        if store.remove(&filter).await? > 0 {
            removed.push(id.0);
            continue;
        }
        left.push(match args.queue.job(&*store, id).await {
            Ok(job) => format!("job {id} is {}", job.state.name()),
            Err(Failed::Other(why)) => why,
            Err(other) => return Err(other),
        });
    }
    if args.json {
        writeln!(out, "{}", json!({ "removed": removed }))?;
    } else {
        writeln!(out, "{} removed", removed.len())?;
    }
    if left.is_empty() { Ok(()) } else { Err(Failed::Other(left.join("\n"))) }
}

/// Check the integrity of a SQLite store
#[derive(clap::Args)]
#[command(after_help = "\
Reads the whole file, which takes a while for a large store. Workers can continue meanwhile.

Exit codes: 0 the store is intact, 1 it is damaged.

Examples:
  export REDIAL_STORE=jobs.db
  redial queue add --payload hello
  redial queue verify")]
pub(crate) struct Verify {
    #[command(flatten)]
    queue: QueueArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn verify(args: &Verify, out: &mut impl Write) -> Result<(), Failed> {
    match args.queue.location()? {
        Location::Sqlite(path) => {
            let store = open_file(&path, IfMissing::Fail)?;
            let wrong = store.verify().map_err(|error| named_error(path.display(), error))?;
            if args.json {
                writeln!(out, "{}", json!({ "intact": wrong.is_empty(), "damage": wrong }))?;
            } else if wrong.is_empty() {
                writeln!(out, "the store is intact")?;
            } else {
                wrong.iter().try_for_each(|line| writeln!(out, "{}", sanitise(line)))?;
            }
            if wrong.is_empty() {
                return Ok(());
            }
            Err(Failed::Other(format!("{}: the store is damaged", path.display())))
        }
        Location::Postgres(_) => {
            let why = "only SQLite stores can be verified; use pg_amcheck for Postgres";
            Err(Failed::input("--store", why))
        }
    }
}
