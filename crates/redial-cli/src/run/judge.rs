//! Which attempts of a command are failures, and which failures are transient?

use redial_core::decide::{Class, Failure, Outcome};

use super::attempt::End;
use super::known::Known;
use crate::process::ExitRules;

/// The exit code for a command whose own is 0 and whose output reports a failure.
const ONLY_PRINTED: u8 = 75;
const TIMED_OUT: u8 = 124;

pub(super) fn outcome(rules: &ExitRules, known: Option<Known>, end: &End) -> Outcome {
    let code = end.status.code();
    let failed = end.timed_out || code != 0 || end.found.retry;
    if !failed {
        return Outcome::Success;
    }
    let class = if end.user.is_some() {
        Class::Cancelled
    } else if end.found.stop {
        Class::Permanent
    } else if end.timed_out {
        Class::Timeout
    } else if let Some(known) = known.filter(|_| rules.are_default())
        && known.is_permanent(code, end.found.status)
    {
        Class::Permanent
    } else {
        rules.class(end.status, end.found.retry)
    };
    let failure = Failure::new(class).code(u16::from(code));
    end.found.hint().map_or(failure, |hint| failure.hint(hint)).into()
}

/// Our exit code if this attempt is the last one.
pub(super) fn exit_code(end: &End) -> u8 {
    match end.status.code() {
        _ if end.timed_out && end.user.is_none() => TIMED_OUT,
        0 if end.found.retry => ONLY_PRINTED,
        code => code,
    }
}
