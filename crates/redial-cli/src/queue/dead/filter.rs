use std::time::Duration;

use redial_queue::durable::{Filter, JobId, State};

use crate::duration;
use crate::failed::Failed;

const WHICH: &str = "Which dead letters";

/// Which dead letters are meant.
#[derive(clap::Args)]
pub(super) struct Which {
    /// The one with this number; may be repeated
    #[arg(long = "id", value_name = "ID", help_heading = WHICH)]
    ids: Vec<i64>,
    /// Those with this key
    #[arg(long, value_name = "KEY", help_heading = WHICH)]
    key: Option<String>,
    /// Those that were given up for this reason, such as attempts, permanent or unreadable
    #[arg(long, value_name = "REASON", help_heading = WHICH)]
    reason: Option<String>,
    /// Those with this text in their last cause
    #[arg(long, value_name = "TEXT", help_heading = WHICH)]
    outcome: Option<String>,
    /// Those that have been dead for at least this long
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

    /// Nobody means everything by saying nothing.
    pub(super) fn require(&self, all: bool, does: &str) -> Result<(), Failed> {
        let says = !self.ids.is_empty()
            || self.key.is_some()
            || self.reason.is_some()
            || self.outcome.is_some()
            || self.older.is_some();
        match (says, all) {
            (true, false) | (false, true) => Ok(()),
            (false, false) => Err(Failed::Input(format!(
                "say which: --id, --key, --reason, --outcome, --older; --all {does} every one of the queue"
            ))),
            (true, true) => {
                Err(Failed::input("--all", "something else says which already; leave one out"))
            }
        }
    }
}
