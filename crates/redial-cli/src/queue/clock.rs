use std::io::Write;
use std::time::{Duration, SystemTime};

use redial_queue::durable::Store;
use redial_queue::sqlite::SqliteStore;
use serde_json::json;

use super::location::{IfMissing, Location, QueueArgs, named_error};
use super::time::Utc;
use crate::clock::wall;
use crate::duration;
use crate::failed::Failed;

/// Compare the store's clock with this machine's clock, or repair it
///
/// A SQLite store has its own clock, so that setting the machine's clock changes no wait. The two may differ by up to a
/// week; beyond that the store is not opened, because one of them is wrong.
#[derive(clap::Args)]
#[command(after_help = "\
With --repair the store's clock is set to this machine's clock, and every other time in the store moves along: waits and \
leases keep their remaining time. Running workers continue with the new time.

Examples:
  export REDIAL_STORE=jobs.db
  redial queue add --payload hello
  redial queue clock
  redial queue clock --repair")]
pub(crate) struct Args {
    #[command(flatten)]
    queue: QueueArgs,
    /// Set the store's clock to this machine's clock
    #[arg(long)]
    repair: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    if args.repair {
        return repair(args, out);
    }
    let store = args.queue.open(IfMissing::Fail).await?;
    let offset = Offset::of(&*store).await?;
    if args.json {
        writeln!(
            out,
            "{}",
            json!({ "time": Utc(offset.time).to_string(), "clock_offset_ms": offset.ms() })
        )?;
    } else {
        writeln!(out, "the store's clock is {}, {offset}", Utc(offset.time))?;
    }
    Ok(())
}

fn repair(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let Location::Sqlite(path) = args.queue.location()? else {
        let why = "the clock of a Postgres store is that of its server: set that clock";
        return Err(Failed::input("--store", why));
    };
    let micros =
        SqliteStore::repair_clock(&path).map_err(|error| named_error(path.display(), error))?;
    if args.json {
        writeln!(out, "{}", json!({ "moved_ms": micros / 1000 }))?;
    } else if micros.unsigned_abs() < 1_000_000 {
        writeln!(out, "the store's clock already matches this machine's clock")?;
    } else {
        let by = duration::text(Duration::from_micros(micros.unsigned_abs()));
        let direction = if micros < 0 { "back" } else { "forward" };
        writeln!(out, "all times were moved {direction} by {by}")?;
    }
    Ok(())
}

/// The difference between a store's clock and this machine's clock.
pub(super) struct Offset {
    time: SystemTime,
    wall: SystemTime,
}

impl Offset {
    pub(super) async fn of(store: &dyn Store) -> Result<Self, Failed> {
        let time = store.time().await?;
        Ok(Self { time, wall: wall() })
    }

    /// Positive if the store's clock is ahead.
    pub(super) fn ms(&self) -> i64 {
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        match self.time.duration_since(self.wall) {
            Ok(ahead) => ms(ahead),
            Err(behind) => -ms(behind.duration()),
        }
    }

    /// Whether a person would notice.
    pub(super) fn matters(&self) -> bool {
        self.ms().unsigned_abs() >= 1000
    }
}

impl std::fmt::Display for Offset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let apart = duration::text(Duration::from_millis(self.ms().unsigned_abs()));
        match self.ms() {
            _ if !self.matters() => f.write_str("the same as this machine's clock"),
            0.. => write!(f, "{apart} ahead of this machine's clock"),
            _ => write!(f, "{apart} behind this machine's clock"),
        }
    }
}
