//! State changes of an upstream as a whole. A line that was suppressed because it came too soon is written later, with the
//! next event, if the state still holds: otherwise the last line about a closed breaker could be that it opened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use redial_core::{Deadline, Span, Time};

use super::line::{About, Line};
use super::table::Limit;

pub(super) struct Changes {
    state: Mutex<State>,
    /// When owed lines may be written, in nanoseconds; the largest number if none is owed.
    due: AtomicU64,
}

#[derive(Default)]
struct State {
    limits: [Limit; KINDS],
    /// The latest state of the breaker and of the storm, if its line was suppressed.
    owed: [Option<(About, Line)>; 2],
}

/// The budget, each state of the breaker, each level of a storm; calls that park, go on, or must not park.
const KINDS: usize = 11;

impl Changes {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default(), due: AtomicU64::new(u64::MAX) }
    }

    /// Whether a line may be owed.
    pub(super) fn has_owed(&self) -> bool {
        self.due().is_some()
    }

    /// The line, if it may be written now.
    pub(super) fn record(
        &self,
        about: About,
        line: Line,
        now: Time,
        interval: Span,
        rest: impl FnOnce() -> bool,
    ) -> Option<(About, Line)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = state.limits[about.kind()].pass(now, interval, rest);
        if let Some(subject) = about.subject() {
            state.owed[subject] = passed.is_none().then_some((about, line));
            self.plan(&state, now, interval);
        }
        passed.map(|suppressed| (about, Line { suppressed, ..line }))
    }

    /// An owed line, if it may be written now.
    pub(super) fn take_owed(
        &self,
        now: Time,
        interval: Span,
        rest: impl FnOnce() -> bool,
    ) -> Option<(About, Line)> {
        if !self.due().is_over(now) {
            return None;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (about, line) = state.owed.iter().flatten().next().copied()?;
        let passed = state.limits[about.kind()].pass_late(now, interval, rest);
        if let (Some(subject), true) = (about.subject(), passed.is_some()) {
            state.owed[subject] = None;
        }
        self.plan(&state, now, interval);
        passed.map(|suppressed| (about, Line { suppressed, ..line }))
    }

    fn due(&self) -> Deadline {
        Time::from_nanos(self.due.load(Ordering::Relaxed)).into()
    }

    fn plan(&self, state: &State, now: Time, interval: Span) {
        let owes = state.owed.iter().any(Option::is_some);
        let due = if owes { (now + interval).as_nanos() } else { u64::MAX };
        self.due.store(due, Ordering::Relaxed);
    }
}
