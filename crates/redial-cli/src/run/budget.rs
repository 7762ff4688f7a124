//! A process that makes one call has a budget that means nothing: its floor alone pays for all retries of one call.
//! Five hundred of them that fail together are the storm that a budget is there to prevent. So the account is where all
//! of them find it: in a file ([`book`]) for those of one machine, in the ledger of a fleet ([`visit`]) for others.

mod book;
mod place;
mod record;
mod visit;

pub(super) use book::Patience;
pub(super) use place::Place;

use std::io;

use nix::sys::signal::Signal;
use redial_core::admit::Guards;
use redial_core::{Invalid, Nanos, Policy};

use super::clock;
use super::signals::Signals;
use book::Book;
use visit::Visit;

/// The guards of this call, and whose budget they have.
pub(super) enum Account {
    /// The call's own, or that of all who share a file.
    Book(Box<Book>),
    /// That of a fleet.
    Visit(Visit),
}

impl Account {
    pub(super) fn own(policy: &Policy, seed: u64) -> Self {
        Self::Book(Box::new(Book::own(policy, seed)))
    }

    pub(super) fn shared(policy: &Policy, seed: u64, place: &Place) -> io::Result<Self> {
        Book::shared(policy, seed, place).map(|book| Self::Book(Box::new(book)))
    }

    pub(super) fn of_fleet(policy: &Policy, url: &str, name: &str) -> Result<Self, Invalid> {
        Visit::new(policy, url, name).map(Self::Visit)
    }

    pub(super) fn warn(&mut self, warning: String) {
        match self {
            Self::Book(book) => book.warn(warning),
            Self::Visit(visit) => visit.warn(warning),
        }
    }

    pub(super) fn warnings(&mut self) -> Vec<String> {
        match self {
            Self::Book(book) => book.warnings(),
            Self::Visit(visit) => visit.warnings(),
        }
    }

    /// Where the budget is, if it is shared.
    pub(super) fn place(&self) -> Option<&str> {
        match self {
            Self::Book(book) => book.place(),
            Self::Visit(visit) => Some(visit.place()),
        }
    }

    /// What time it is for the guards.
    pub(super) fn now(&self) -> Nanos {
        match self {
            Self::Book(_) => clock::now(),
            Self::Visit(visit) => visit.now(),
        }
    }

    /// What a time of the guards is for everybody else.
    pub(super) fn here(&self, at: Nanos) -> Nanos {
        match self {
            Self::Book(_) => at,
            Self::Visit(visit) => visit.here(at),
        }
    }

    /// One step of the engine.
    pub(super) fn step<T>(
        &mut self,
        patience: Patience,
        signals: &mut Signals,
        ask: impl FnOnce(&Guards, Nanos) -> T,
    ) -> T {
        match self {
            Self::Book(book) => book.step(patience, signals, ask),
            Self::Visit(visit) => visit.step(ask),
        }
    }

    /// A retry is about to leave: waits for what was asked elsewhere on its behalf. Says which signal came meanwhile.
    pub(super) fn confirm(&self, signals: &mut Signals) -> io::Result<Option<Signal>> {
        match self {
            Self::Book(_) => Ok(None),
            Self::Visit(visit) => visit.confirm(signals),
        }
    }

    /// The budget had nothing for a retry; the user should know if there was nobody to ask.
    pub(super) fn refused(&mut self) {
        if let Self::Visit(visit) = self {
            visit.refused();
        }
    }
}
