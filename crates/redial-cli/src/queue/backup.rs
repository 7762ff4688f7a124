use std::io::Write;
use std::path::PathBuf;

use redial_queue::sqlite::SqliteStore;

use super::place::{Kept, Place, said};
use crate::failed::Failed;

/// Copy a SQLite store to a new file, while it is in use
#[derive(clap::Args)]
#[command(after_help = "\
Copying jobs.db with cp is not enough: what was committed last is in jobs.db-wal. The copy is one file, and whole
when it has its name. To restore it, stop all workers, remove jobs.db (and jobs.db-wal and jobs.db-shm if they exist), and put the copy in
the place of jobs.db. Jobs that were done after the backup are then done again, with the same idempotency keys.

Examples:
  redial queue backup --store jobs.db jobs-monday.db")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// The copy, which must not exist
    file: PathBuf,
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let Kept::In(path) = args.place.kept()? else {
        let why = "only SQLite files are copied; for Postgres there is pg_dump";
        return Err(Failed::input("--store", why));
    };
    SqliteStore::backup(&path, &args.file).map_err(|error| said("the backup", error))?;
    writeln!(out, "{}", args.file.display())?;
    Ok(())
}
