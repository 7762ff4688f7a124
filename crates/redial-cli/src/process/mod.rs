//! Commands as child processes, and signals: what `redial run`, `redial proxy`, `redial up` and `redial queue work` share.
//!
//! A command is a group of processes ([`Group`]) whose end has a [`Status`]. A second process, the [`Guard`], ends it if this
//! one is killed.

pub(crate) mod guard;
pub(crate) mod open_files;

mod group;
mod signals;
mod status;
mod unnamed_file;
mod wait;

pub(crate) use group::{Group, Grouping, die_of_interrupt};
pub(crate) use guard::{CommandGuard, Guard, MARK};
pub(crate) use signals::{SignalFlags, StopSignals, is_ending, is_ignored};
pub(crate) use status::{ExitCodes, ExitRules, OURS, Status, is_missing, not_started};
pub(crate) use unnamed_file::unnamed_file;
pub(crate) use wait::{ready, stop_ourselves};
