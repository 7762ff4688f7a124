use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redial_core::{Span, Time};

/// Records events as they happen. Times are since the start of the run.
#[derive(Debug)]
pub struct Record {
    log: Mutex<EventLog>,
    is_kept: bool,
}

/// The recorded events, each list in the order of recording.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    /// When calls began.
    pub begun: Vec<Time>,
    /// Attempts, as they arrived at the backend.
    pub attempts: Vec<Arrived>,
    /// When the backend refused one.
    pub refused: Vec<Time>,
    /// When the backend finished one.
    pub served: Vec<Time>,
    /// Calls that are over.
    pub ended: Vec<Ended>,
    /// Attempts without a connection. On loopback these are the machine's fault.
    pub broken: u32,
}

/// An attempt that arrived at the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// When.
    pub at: Time,
    /// The attempt number; 1 is the first of its call.
    pub number: u32,
}

/// A call that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When it began.
    pub started: Time,
    /// When it was over.
    pub at: Time,
    /// Whether one of them was answered in time.
    pub succeeded: bool,
}

impl Default for Record {
    fn default() -> Self {
        Self { log: Mutex::default(), is_kept: true }
    }
}

impl Record {
    /// Keeps nothing.
    pub(crate) fn none() -> Self {
        Self { log: Mutex::default(), is_kept: false }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// A call begins.
    pub fn begun(&self, now: Time) {
        self.add(|log| log.begun.push(now));
    }

    /// An attempt arrives at the backend; 1 is the first of its call.
    pub fn attempt(&self, now: Time, number: u32) {
        self.add(|log| log.attempts.push(Arrived { at: now, number }));
    }

    /// The backend refuses an attempt.
    pub fn refused(&self, now: Time) {
        self.add(|log| log.refused.push(now));
    }

    /// The backend finishes an attempt.
    pub fn served(&self, now: Time) {
        self.add(|log| log.served.push(now));
    }

    /// An attempt found no connection.
    pub fn broken(&self) {
        self.add(|log| log.broken += 1);
    }

    /// A call that began at `started` is over.
    pub fn ended(&self, started: Time, now: Time, succeeded: bool) {
        self.add(|log| log.ended.push(Ended { started, at: now, succeeded }));
    }

    /// Reads the events. Server and callers are blocked meanwhile.
    pub fn read<T>(&self, look: impl FnOnce(&EventLog) -> T) -> T {
        look(&self.log())
    }

    pub(crate) fn take(&self) -> EventLog {
        mem::take(&mut self.log())
    }

    fn add(&self, event: impl FnOnce(&mut EventLog)) {
        if self.is_kept {
            event(&mut self.log());
        }
    }

    fn log(&self) -> MutexGuard<'_, EventLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ended {
    /// How long the call took, waits included.
    pub fn took(&self) -> Span {
        self.at - self.started
    }
}
