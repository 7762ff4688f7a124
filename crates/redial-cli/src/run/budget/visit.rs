//! The budget of a fleet is in a Redis that may be far away, slow or gone, and a command must not notice. So its call is
//! deposited while it runs; if it fails, a token is asked for during the backoff, and only a retry that is about to leave
//! waits for the answer, for a second at most.
//!
//! Whoever makes one call is a guest of the fleet: without an answer it has no floor, only what its own call has earned,
//! which is hardly ever a retry.

use std::io;
use std::mem;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use redial::fleet::{Fleet, OneShot};
use redial_core::admit::Guards;
use redial_core::{Invalid, NEVER, Nanos, Policy};

use crate::run::clock;
use crate::run::signals::Signals;
use crate::run::wait;

/// How long a retry waits for the ledger after its backoff.
const PATIENCE: Nanos = 1_000_000_000;
/// How long it waits without looking whether a signal came.
const GLANCE: Duration = Duration::from_millis(10);
/// How long the end of a call is held up by what is still to be told to the ledger.
const GOODBYE: Duration = Duration::from_millis(50);

pub(in crate::run) struct Visit {
    fleet: Fleet,
    guest: OneShot,
    /// Without what nobody should read.
    what: String,
    warnings: Vec<String>,
}

impl Visit {
    pub(super) fn new(policy: &Policy, url: &str, name: &str) -> Result<Self, Invalid> {
        let fleet = Fleet::open(url, name)?;
        let guest = fleet.one_shot(policy)?;
        let what = format!("the fleet {name}");
        Ok(Self { fleet, guest, what, warnings: Vec::new() })
    }

    pub(super) fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    pub(super) fn warnings(&mut self) -> Vec<String> {
        mem::take(&mut self.warnings)
    }

    pub(super) fn place(&self) -> &str {
        &self.what
    }

    pub(super) fn now(&self) -> Nanos {
        self.guest.now()
    }

    /// The fleet has a clock of its own, with another zero.
    pub(super) fn here(&self, at: Nanos) -> Nanos {
        if at == NEVER {
            return NEVER;
        }
        let now = self.guest.now();
        clock::now().saturating_add(at.saturating_sub(now)).saturating_sub(now.saturating_sub(at))
    }

    pub(super) fn step<T>(&self, ask: impl FnOnce(&Guards, Nanos) -> T) -> T {
        ask(self.guest.guards(), self.guest.now())
    }

    pub(super) fn confirm(&self, signals: &mut Signals) -> io::Result<Option<Signal>> {
        let until = clock::now().saturating_add(PATIENCE);
        while !self.guest.wait(GLANCE) && clock::now() < until {
            if let Some(signal) = wait::pause(0, signals)? {
                return Ok(Some(signal));
            }
        }
        Ok(None)
    }

    pub(super) fn refused(&mut self) {
        let Some(stats) = self.fleet.stats().into_iter().next() else { return };
        if stats.connected {
            return;
        }
        let why = stats.last_error.unwrap_or_else(|| "Redis does not answer in time".to_owned());
        self.warn(format!(
            "the shared budget of {}: {why}, so that there is no credit for a retry",
            self.what
        ));
    }
}

/// What the call has earned is for the others, if it reaches the ledger soon.
impl Drop for Visit {
    fn drop(&mut self) {
        let fleet = self.fleet.clone();
        let (done, left) = mpsc::channel();
        let leaves = thread::Builder::new().spawn(move || done.send(fleet.leave()));
        if leaves.is_ok() {
            // Nobody is there to be told that it was too late.
            let _ = left.recv_timeout(GOODBYE);
        }
    }
}
