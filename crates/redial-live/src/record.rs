use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redial_core::Nanos;

/// What happens, as it happens. Times are since the start of the run.
#[derive(Debug, Default)]
pub struct Record(Mutex<Log>);

/// What has happened so far, each list in the order in which it was written down.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// When calls began.
    pub begun: Vec<Nanos>,
    /// Attempts, as they arrived at the backend.
    pub attempts: Vec<Arrived>,
    /// When the backend turned one away.
    pub refused: Vec<Nanos>,
    /// When the backend was done with one.
    pub served: Vec<Nanos>,
    /// Calls that are over.
    pub ended: Vec<Ended>,
    /// Attempts that got no answer for want of a connection. On loopback that is the machine's fault.
    pub broken: u32,
}

/// An attempt that arrived at the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// When.
    pub at: Nanos,
    /// 1 is the first of its call.
    pub number: u32,
}

/// A call that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When it began.
    pub started: Nanos,
    /// When it was over.
    pub at: Nanos,
    /// How many attempts it made.
    pub attempts: u32,
    /// Whether one of them was answered in time.
    pub succeeded: bool,
}

/// What happened within one bucket of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// First attempts that arrived.
    pub firsts: u32,
    /// Retries that arrived.
    pub retries: u32,
    /// Attempts that were turned away.
    pub refused: u32,
    /// Attempts that were served.
    pub served: u32,
    /// Calls that ended with an answer.
    pub succeeded: u32,
    /// Calls that ended without.
    pub failed: u32,
}

impl Record {
    /// A call begins.
    pub fn begun(&self, now: Nanos) {
        self.log().begun.push(now);
    }

    /// An attempt arrives at the backend; 1 is the first of its call.
    pub fn attempt(&self, now: Nanos, number: u32) {
        self.log().attempts.push(Arrived { at: now, number });
    }

    /// The backend turns an attempt away.
    pub fn refused(&self, now: Nanos) {
        self.log().refused.push(now);
    }

    /// The backend is done with an attempt.
    pub fn served(&self, now: Nanos) {
        self.log().served.push(now);
    }

    /// An attempt got no answer for want of a connection.
    pub fn broken(&self) {
        self.log().broken += 1;
    }

    /// A call that began at `started` is over.
    pub fn ended(&self, started: Nanos, now: Nanos, attempts: u32, succeeded: bool) {
        self.log().ended.push(Ended { started, at: now, attempts, succeeded });
    }

    /// Looks at what there is. Server and callers wait meanwhile.
    pub fn read<T>(&self, look: impl FnOnce(&Log) -> T) -> T {
        look(&self.log())
    }

    pub(crate) fn take(&self) -> Log {
        mem::take(&mut self.log())
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ended {
    /// How long the call took, waits included.
    pub fn took(&self) -> Nanos {
        self.at - self.started
    }
}

impl Log {
    /// Counts per `width` of time, as many as the last event needs.
    pub fn buckets(&self, width: Nanos) -> Vec<Bucket> {
        let mut buckets = Vec::new();
        let mut add = |at: Nanos, count: fn(&mut Bucket) -> &mut u32| {
            let index = (at / width.max(1)) as usize;
            if index >= buckets.len() {
                buckets.resize(index + 1, Bucket::default());
            }
            *count(&mut buckets[index]) += 1;
        };
        for arrived in &self.attempts {
            let is_first = arrived.number == 1;
            add(arrived.at, if is_first { |b| &mut b.firsts } else { |b| &mut b.retries });
        }
        self.refused.iter().for_each(|at| add(*at, |b| &mut b.refused));
        self.served.iter().for_each(|at| add(*at, |b| &mut b.served));
        for ended in &self.ended {
            add(ended.at, if ended.succeeded { |b| &mut b.succeeded } else { |b| &mut b.failed });
        }
        buckets
    }
}
