use std::io::Write;
use std::str::FromStr;

use redial_core::Rate;
use redial_core::admit::RateRule;
use redial_queue::durable::{Filter, JobId};
use serde_json::json;

use super::place::{Kept, Missing, Place, open_file, said};
use crate::failed::Failed;
use crate::text::sanitise;

/// Claim nothing more of a queue; what runs goes on
#[derive(clap::Args)]
#[command(after_help = "\
It holds for all workers of the queue, and for those that start later, until `redial queue resume`.

Examples:
  redial queue pause --store jobs.db --queue mail")]
pub(crate) struct Pause {
    #[command(flatten)]
    place: Place,
}

/// Go on with a queue that was paused
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  redial queue resume --store jobs.db --queue mail")]
pub(crate) struct Resume {
    #[command(flatten)]
    place: Place,
}

pub(super) async fn pause(args: &Pause) -> Result<(), Failed> {
    Ok(args.place.find_or_make().await?.pause().await?)
}

pub(super) async fn resume(args: &Resume) -> Result<(), Failed> {
    Ok(args.place.find_or_make().await?.resume().await?)
}

/// Set what holds for all workers of a queue
#[derive(clap::Args)]
#[command(after_help = "\
It is kept in the store and counts at once, for workers that run too. `redial queue stats` shows it.

Examples:
  redial queue set --store jobs.db --queue mail --rate 100/s           at most so many attempts
  redial queue set --store jobs.db --queue mail --rate 10/m --burst 1  never two together
  redial queue set --store jobs.db --rate none
  redial queue set --store jobs.db --most-dead 10000                   beyond it the oldest are dropped, and counted
  redial queue set --store jobs.db --per-key 0                         jobs with the same key need no order")]
#[group(id = "setting", required = true, multiple = true)]
pub(crate) struct Set {
    #[command(flatten)]
    place: Place,
    /// How often jobs are claimed, over all workers: such as 100/s, 5/m, or none for no limit
    #[arg(long, value_name = "RATE|none", value_parser = choice::<Rate>, group = "setting")]
    rate: Option<Choice<Rate>>,
    /// How many at once after a pause; without this, as many as the rate has in a second
    #[arg(long, value_name = "N", requires = "rate", value_parser = clap::value_parser!(u32).range(1..))]
    burst: Option<u32>,
    /// How many jobs of a key are worked on or wait for a retry at once; 1 keeps them in order, 0 is no limit
    #[arg(long, value_name = "N", group = "setting")]
    per_key: Option<u32>,
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

/// What can be set or be none.
pub(crate) trait Settable: FromStr {
    const FORM: &'static str;
}

impl Settable for Rate {
    const FORM: &'static str = "a rate such as 100/s, 5/m or 1/30s, or none";
}

impl Settable for u64 {
    const FORM: &'static str = "a number, or none";
}

pub(crate) fn choice<T: Settable>(text: &str) -> Result<Choice<T>, String> {
    match text {
        "none" => Ok(Choice::None),
        _ => text.parse().map(Choice::Some).map_err(|_| T::FORM.to_owned()),
    }
}

pub(super) async fn set(args: &Set) -> Result<(), Failed> {
    let rate = args.rate.map(|rate| rule(rate.into_option(), args.burst)).transpose()?;
    let queue = args.place.find_or_make().await?;
    let change = queue.change(|settings| {
        settings.rate = rate.unwrap_or(settings.rate);
        settings.per_key = args.per_key.unwrap_or(settings.per_key);
        if let Some(most) = args.most_dead {
            settings.most_dead = most.into_option();
        }
    });
    Ok(change.await?)
}

fn rule(rate: Option<Rate>, burst: Option<u32>) -> Result<Option<RateRule>, Failed> {
    let Some(rate) = rate else { return Ok(None) };
    if rate.count == 0 {
        let why = "nothing would ever be claimed; `redial queue pause` says so more clearly";
        return Err(Failed::input("--rate", why));
    }
    let a_second = u64::from(rate.count) * 1_000_000_000 / rate.per.max(1);
    let usual = u32::try_from(a_second).unwrap_or(u32::MAX).max(1);
    Ok(Some(RateRule::new(rate, burst.unwrap_or(usual))))
}

/// Remove jobs that are not running
#[derive(clap::Args)]
#[command(after_help = "\
Exit codes: 0 if all of them are gone, 1 if one is running or was not there.

Examples:
  redial queue rm --store jobs.db 17 18")]
pub(crate) struct Remove {
    #[command(flatten)]
    place: Place,
    /// Their numbers
    #[arg(required = true, value_name = "ID")]
    ids: Vec<i64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn remove(args: &Remove, out: &mut impl Write) -> Result<(), Failed> {
    let store = args.place.open(Missing::Wrong).await?;
    let (mut removed, mut left) = (Vec::new(), Vec::new());
    for id in args.ids.iter().copied().map(JobId) {
        let filter = Filter {
            queue: args.place.named().map(str::to_owned),
            ids: vec![id],
            ..Filter::default()
        };
        if store.remove(&filter).await? > 0 {
            removed.push(id.0);
            continue;
        }
        left.push(match args.place.job(&*store, id).await {
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

/// Read all of a SQLite store, and say whether it is whole
#[derive(clap::Args)]
#[command(after_help = "\
It reads the whole file, which takes a while for a large one. Workers can go on meanwhile.

Exit codes: 0 if it is whole, 1 if it is damaged.

Examples:
  redial queue verify --store jobs.db")]
pub(crate) struct Verify {
    #[command(flatten)]
    place: Place,
}

pub(super) async fn verify(args: &Verify, out: &mut impl Write) -> Result<(), Failed> {
    match args.place.kept()? {
        Kept::In(path) => {
            let store = open_file(&path, Missing::Wrong)?;
            let wrong = store.verify().map_err(|error| said(path.display(), error))?;
            if wrong.is_empty() {
                writeln!(out, "the store is whole")?;
                return Ok(());
            }
            wrong.iter().try_for_each(|line| writeln!(out, "{}", sanitise(line)))?;
            Err(Failed::Other(format!("{}: the store is damaged", path.display())))
        }
        Kept::Postgres(_) => {
            let why = "only SQLite files are verified; for Postgres there is pg_amcheck";
            Err(Failed::input("--store", why))
        }
    }
}
