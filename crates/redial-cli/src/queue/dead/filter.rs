//! The arguments that select dead letters.

use std::time::Duration;

use redial_queue::durable::{Filter, JobId, State};

use crate::duration;
use crate::failed::Failed;

const WHICH: &str = "Selection";

/// The arguments that select dead letters.
#[derive(clap::Args)]
pub(super) struct Which {
    /// The job with this number; may be repeated
    #[arg(long = "id", value_name = "ID", help_heading = WHICH)]
    ids: Vec<i64>,
    /// Jobs with this key
    #[arg(long, value_name = "KEY", help_heading = WHICH)]
    key: Option<String>,
    /// Jobs that were given up for this reason, such as attempts, permanent or unreadable
    #[arg(long, value_name = "REASON", help_heading = WHICH)]
    reason: Option<String>,
    /// Jobs with this text in their last cause
    #[arg(long, value_name = "TEXT", help_heading = WHICH)]
    outcome: Option<String>,
    /// Jobs that have been dead for at least this long
    #[arg(long, value_name = "TIME", value_parser = duration::read, help_heading = WHICH)]
    older: Option<Duration>,
}

impl Which {
    pub(super) fn filter(&self, of: Filter) -> Filter {
        Filter {
            state: Some(State::Dead),
            ids: self.ids.iter().copied().map(JobId).collect(),
            key: self.key.clone(),
            reason: self.reason.clone(),
            outcome: self.outcome.clone(),
            older: self.older,
            ..of
        }
    }

    /// Requires a selection: no arguments do not mean all jobs.
    pub(super) fn require(&self, all: bool, does: &str) -> Result<(), Failed> {
        let is_given = !self.ids.is_empty()
            || self.key.is_some()
            || self.reason.is_some()
            || self.outcome.is_some()
            || self.older.is_some();
        match (is_given, all) {
            (true, false) | (false, true) => Ok(()),
            (false, false) => Err(Failed::Input(format!(
                "select jobs with --id, --key, --reason, --outcome or --older; --all {does} all of the queue"
            ))),
            (true, true) => Err(Failed::input("--all", "cannot be combined with a selection")),
        }
    }
}
