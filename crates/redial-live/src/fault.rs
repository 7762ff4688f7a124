//! Faults that are switched on while a server runs: a person who watches wants to break it now, not where a scenario says.

use std::sync::{Mutex, PoisonError};

use redial_core::{Deadline, Time};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Every request is refused with a 503.
    Down,
    /// This share of the requests is refused with a 503.
    Failing(f64),
    /// This share of the requests is refused with a 429, and a `Retry-After` of a second.
    Limiting(f64),
    /// This share of the requests is served, but the connection breaks before the response.
    LosingReplies(f64),
    /// Every request takes this many times as long.
    Slow(f64),
}

/// The fault that is switched on, if any. Only one is at a time.
#[derive(Debug, Default)]
pub(crate) struct Switch(Mutex<Option<(Fault, Deadline)>>);

impl Switch {
    /// Switches a fault on until this time. The one before it ends.
    pub(crate) fn set(&self, fault: Option<Fault>, until: Deadline) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fault.map(|fault| (fault, until));
    }

    /// The fault at this time, and when it ends.
    pub(crate) fn at(&self, now: Time) -> Option<(Fault, Deadline)> {
        let set = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        set.filter(|(_, until)| !until.is_over(now))
    }
}
