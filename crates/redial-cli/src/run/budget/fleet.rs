//! The budget of a fleet is in a Redis that may be far away, slow or down, and a command must not be delayed by it. So
//! the call is deposited while the command runs. If it fails, a token is requested during the backoff, and only a retry
//! that is about to be made waits for the answer, for at most a second.
//!
//! A process that makes one call has no share of the fleet's floor: without an answer it has only what its own call has
//! earned, which is rarely a retry.

use std::io;
use std::mem;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use redial::fleet::{Fleet, OneShot};
use redial_core::admit::Guards;
use redial_core::{Invalid, Policy, Span, Time};

use crate::clock;
use crate::process::SignalFlags;
use crate::run::wait;

/// How long a retry waits for the ledger after its backoff.
const TIMEOUT: Span = Span::SECOND;
/// How often signals are checked meanwhile.
const POLL: Duration = Duration::from_millis(10);
/// How long the end of a call waits for the last message to the ledger.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(50);

pub(in crate::run) struct FleetBudget {
    fleet: Fleet,
    account: OneShot,
    /// The name of the fleet, without the URL and its password.
    name: String,
    warnings: Vec<String>,
}

impl FleetBudget {
    pub(super) fn new(policy: &Policy, fleet: Fleet) -> Result<Self, Invalid> {
        let account = fleet.one_shot(policy)?;
        let name = format!("fleet {}", fleet.name());
        Ok(Self { fleet, account, name, warnings: Vec::new() })
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
        &self.name
    }

    pub(super) fn now(&self) -> Time {
        self.account.now()
    }

    /// The fleet's clock has another zero.
    pub(super) fn to_local(&self, at: Time) -> Time {
        let now = self.account.now();
        clock::now() + (at - now) - (now - at)
    }

    pub(super) fn step<T>(&self, ask: impl FnOnce(&Guards, Time) -> T) -> T {
        ask(self.account.guards(), self.account.now())
    }

    pub(super) fn confirm(&self, signals: &mut SignalFlags) -> io::Result<Option<Signal>> {
        let until = clock::now() + TIMEOUT;
        while !self.account.wait(POLL) && clock::now() < until {
            if let Some(signal) = wait::pause(Time::ZERO, signals)? {
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
        let why = stats.last_error.unwrap_or_else(|| "Redis timed out".to_owned());
        self.warn(format!("shared budget of {}: {why}; no credit for retries", self.name));
    }
}

/// Deposits what the call has earned, if the ledger answers in time.
impl Drop for FleetBudget {
    fn drop(&mut self) {
        let fleet = self.fleet.clone();
        let (done, left) = mpsc::channel();
        let leaves = thread::Builder::new().spawn(move || done.send(fleet.leave()));
        if leaves.is_ok() {
            // A timeout has no consequence.
            let _ = left.recv_timeout(LEAVE_TIMEOUT);
        }
    }
}
