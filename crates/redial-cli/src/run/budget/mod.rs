//! A budget of its own means nothing to a process that makes one call: the floor alone pays for all retries of one call.
//! Five hundred processes that fail together are the storm that a budget should prevent. So they share one: in a file
//! ([`file`]) on one machine, or in the ledger of a fleet ([`fleet`]).

mod file;
mod fleet;
mod place;
mod record;

pub(super) use file::LockWait;
pub(super) use place::Place;

use std::io;

use nix::sys::signal::Signal;
use redial::fleet::{Fleet, FleetDraft};
use redial_core::admit::Guards;
use redial_core::admit::budget::Budget;
use redial_core::{Invalid, Policy, Time};

use super::args::{Args, Budgeted};
use crate::clock;
use crate::failed::Failed;
use crate::process::SignalFlags;
use file::FileBudget;
use fleet::FleetBudget;

/// The guards of this call, with its own budget or a shared one.
pub(super) enum Account {
    /// The call's own budget, or one that is shared in a file.
    File(Box<FileBudget>),
    /// The budget of a fleet.
    Fleet(FleetBudget),
}

impl Account {
    /// The budget that the arguments name.
    pub(super) fn of(args: &Args, policy: &Policy, seed: u64) -> Result<Self, Failed> {
        if let Some((location, fleet)) = args.fleet() {
            return Self::of_fleet(policy, Fleet::at(location, fleet))
                .map_err(|wrong| Failed::input("--policy", wrong));
        }
        let can_share = matches!(policy.budget(), Budget::Window(_) | Budget::Tokens(_));
        match &args.budget {
            Some(Budgeted::No) => Ok(Self::own(policy, seed)),
            Some(Budgeted::By { fleet, .. }) if fleet.is_empty() => Err(Failed::input(
                "--budget",
                "missing name of the fleet, as in redis://host:6379#checkout; write a # in a password as %23",
            )),
            Some(Budgeted::By { url, fleet }) => {
                Self::of_fleet(policy, Ok(Fleet::draft(url, fleet)))
                    .map_err(|wrong| Failed::input("--budget", wrong))
            }
            Some(Budgeted::In(_)) if !can_share => Err(Failed::input(
                "--budget",
                "the policy's budget cannot be shared: only a window or tokens can; set --budget-ratio too",
            )),
            Some(Budgeted::In(place)) => Self::shared(policy, seed, place).map_err(|error| {
                Failed::input("--budget", format!("{error}; name another budget, or none"))
            }),
            None if !can_share => Ok(Self::own(policy, seed)),
            None => {
                let place = Place::of_program(&args.command[0]);
                Ok(Self::shared(policy, seed, &place).unwrap_or_else(|error| {
                    let mut own = Self::own(policy, seed);
                    own.warn(format!("the budget is not shared: {error}; see --budget"));
                    own
                }))
            }
        }
    }

    fn own(policy: &Policy, seed: u64) -> Self {
        Self::File(Box::new(FileBudget::own(policy, seed)))
    }

    fn shared(policy: &Policy, seed: u64, place: &Place) -> io::Result<Self> {
        FileBudget::shared(policy, seed, place).map(|budget| Self::File(Box::new(budget)))
    }

    fn of_fleet(policy: &Policy, fleet: Result<FleetDraft, Invalid>) -> Result<Self, Invalid> {
        FleetBudget::new(policy, fleet?.open()?).map(Self::Fleet)
    }

    pub(super) fn warn(&mut self, warning: String) {
        match self {
            Self::File(budget) => budget.warn(warning),
            Self::Fleet(budget) => budget.warn(warning),
        }
    }

    pub(super) fn warnings(&mut self) -> Vec<String> {
        match self {
            Self::File(budget) => budget.warnings(),
            Self::Fleet(budget) => budget.warnings(),
        }
    }

    /// Where the budget is, if it is shared.
    pub(super) fn place(&self) -> Option<&str> {
        match self {
            Self::File(budget) => budget.place(),
            Self::Fleet(budget) => Some(budget.place()),
        }
    }

    /// The time of the guards' clock.
    pub(super) fn now(&self) -> Time {
        match self {
            Self::File(_) => clock::now(),
            Self::Fleet(budget) => budget.now(),
        }
    }

    /// Converts a time of the guards' clock to our clock.
    pub(super) fn to_local(&self, at: Time) -> Time {
        match self {
            Self::File(_) => at,
            Self::Fleet(budget) => budget.to_local(at),
        }
    }

    /// One step of the engine.
    pub(super) fn step<T>(
        &mut self,
        wait: LockWait,
        signals: &mut SignalFlags,
        ask: impl FnOnce(&Guards, Time) -> T,
    ) -> T {
        match self {
            Self::File(budget) => budget.step(wait, signals, ask),
            Self::Fleet(budget) => budget.step(ask),
        }
    }

    /// Waits for the token of a retry that is about to be made. Returns the signal that interrupted it.
    pub(super) fn confirm(&self, signals: &mut SignalFlags) -> io::Result<Option<Signal>> {
        match self {
            Self::File(_) => Ok(None),
            Self::Fleet(budget) => budget.confirm(signals),
        }
    }

    /// The budget refused a retry. Adds a warning if the ledger could not be reached.
    pub(super) fn refused(&mut self) {
        if let Self::Fleet(budget) = self {
            budget.refused();
        }
    }
}
