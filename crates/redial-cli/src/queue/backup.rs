use std::io::Write;
use std::path::PathBuf;

use redial_queue::sqlite::SqliteStore;

use super::location::{Location, QueueArgs, named_error};
use crate::failed::Failed;

/// Copy a SQLite store to a new file while it is in use
#[derive(clap::Args)]
#[command(after_help = "\
Copying jobs.db with cp is not enough, because the last commits are in jobs.db-wal. The copy is one file, and complete \
once it has its name. To restore it, stop all workers, remove jobs.db (and jobs.db-wal and jobs.db-shm if they exist), \
and rename the copy to jobs.db. Jobs that were done after the backup are then done again, with the same idempotency \
keys.

Examples:
  export REDIAL_STORE=jobs.db
  redial queue add --payload hello
  redial queue backup jobs-monday.db")]
pub(crate) struct Args {
    #[command(flatten)]
    queue: QueueArgs,
    /// The copy, which must not exist
    file: PathBuf,
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let Location::Sqlite(path) = args.queue.location()? else {
        let why = "only SQLite stores can be copied; use pg_dump for Postgres";
        return Err(Failed::input("--store", why));
    };
    SqliteStore::backup(&path, &args.file).map_err(|error| named_error("the backup", error))?;
    writeln!(out, "{}", args.file.display())?;
    Ok(())
}
