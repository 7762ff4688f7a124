//! When one instance syncs with its ledger, and what follows from each result.

use std::sync::{Arc, Weak};

use redial_core::admit::Guards;
use redial_core::admit::budget::TokenLease;
use redial_core::fleet::{Ask, FleetTerms, Grant, Instance};
use redial_core::schedule::{Backoff, Growth, Jitter};
use redial_core::{Deadline, Span, Time};

use super::error::LedgerError;
use super::event::FleetEvent;
use super::handle::Joined;
use super::ledger::Ledger;
use crate::entropy;

/// Clients must not reconnect to Redis at the same time.
const BACKOFF: Backoff = Backoff {
    growth: Growth::Exponential(2.0),
    base: Span::from_millis(100),
    cap: Span::from_secs(10),
    jitter: Jitter::Full,
    clip: false,
};
/// How often an instance without a connection collects its earnings while retries wait for them.
const ACCRUAL_INTERVAL: Span = Span::from_millis(100);

/// The time without syncs after a failure.
pub(super) struct Pause {
    failures: u32,
    pub(super) until: Time,
    seed: u64,
}

impl Pause {
    pub(super) fn new() -> Self {
        Self { failures: 0, until: Time::ZERO, seed: entropy::seed() }
    }

    /// Failures of syncs that were in flight when the pause began do not extend it.
    pub(super) fn extend(&mut self, now: Time) {
        if now >= self.until {
            self.failures = self.failures.saturating_add(1);
            self.until = now + BACKOFF.delay(self.failures, Span::ZERO, self.seed);
        }
    }

    pub(super) fn end(&mut self) {
        (self.failures, self.until) = (0, Time::ZERO);
    }
}

/// The driver's state of one ledger.
pub(super) struct LedgerSync {
    pub(super) ledger: Arc<Ledger>,
    guards: Weak<Guards>,
    /// Kept for the last sync.
    kept: Option<Arc<Guards>>,
    instance: Instance,
    in_flight: bool,
    phase: Phase,
    contact: Contact,
    differs: Option<FleetTerms>,
    pause: Pause,
    /// The last wake-up that was seen.
    wakes: u64,
    /// When to collect earnings again.
    next_accrual: Time,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Active,
    Leaving,
    /// The last sync is in flight.
    Left,
}

enum Contact {
    Unknown,
    Reached,
    Lost(LedgerError),
}

/// The next step for a ledger.
pub(super) enum Step {
    Wait(Deadline),
    Sync(SyncRequest),
    /// The instance has left.
    Left {
        confirmed: bool,
    },
}

/// A sync with the state in which it was sent.
pub(super) struct SyncRequest {
    pub(super) ask: Ask,
    pub(super) sent: Time,
    /// The last wake-up that it serves.
    wakes: u64,
}

impl LedgerSync {
    pub(super) fn new(joined: Joined) -> Self {
        let Joined { ledger, guards, instance } = joined;
        Self {
            ledger,
            guards,
            kept: None,
            instance,
            in_flight: false,
            phase: Phase::Active,
            contact: Contact::Unknown,
            differs: None,
            pause: Pause::new(),
            wakes: 0,
            next_accrual: Time::ZERO,
        }
    }

    pub(super) fn leave(&mut self, guards: Option<Arc<Guards>>) {
        self.kept = self.kept.take().or(guards);
        if self.phase == Phase::Active {
            self.phase = Phase::Leaving;
        }
    }

    pub(super) fn step(&mut self, link: &Pause, now: Time) -> Step {
        let guards = self.guards();
        let lease = guards.as_deref().and_then(Guards::lease);
        let Some(lease) = lease else { return self.leave_without_guards(now) };
        let accrual = self.accrue(lease, now);
        if self.in_flight {
            return Step::Wait(accrual);
        }
        match self.phase {
            Phase::Active => {}
            Phase::Leaving if self.instance.is_reached() => {
                self.phase = Phase::Left;
                let ask = self.instance.leave(lease, now);
                return self.sync(ask, now);
            }
            Phase::Leaving | Phase::Left => return self.left(),
        }
        let paused = self.pause.until.max(link.until);
        let next = self.instance.next(lease, now).max(paused);
        if next > now {
            if !self.instance.is_reached() && paused > now {
                self.ledger.serve(self.wakes);
            }
            return Step::Wait(accrual.min(next.into()));
        }
        let ask = self.instance.ask(lease, now);
        self.sync(ask, now)
    }

    /// Pays for waiting retries while the ledger cannot be reached. Returns when to do it again.
    fn accrue(&mut self, lease: &TokenLease, now: Time) -> Deadline {
        let wakes = self.ledger.waker.wakes();
        if wakes != self.wakes || now >= self.next_accrual {
            self.wakes = wakes;
            self.instance.pay_pending(lease, now);
            self.next_accrual = now + ACCRUAL_INTERVAL;
        }
        let waits = u64::from(lease.demand()) > lease.held(now);
        let accrues = waits && !self.instance.is_reached();
        accrues.then_some(self.next_accrual).into()
    }

    fn sync(&mut self, ask: Ask, now: Time) -> Step {
        self.in_flight = true;
        // The first sync only registers the instance.
        let wakes = if self.instance.is_reached() { self.wakes } else { 0 };
        Step::Sync(SyncRequest { ask, sent: now, wakes })
    }

    /// All users of the guards are gone.
    fn leave_without_guards(&mut self, now: Time) -> Step {
        match self.phase {
            _ if self.in_flight => Step::Wait(Deadline::NONE),
            Phase::Left => self.left(),
            _ if !self.instance.is_reached() => self.left(),
            _ => {
                self.phase = Phase::Left;
                let ask = self.instance.leave_without_lease();
                self.sync(ask, now)
            }
        }
    }

    fn left(&self) -> Step {
        self.end();
        Step::Left { confirmed: self.phase == Phase::Left && self.instance.is_reached() }
    }

    /// Retries get no leases from now on, and none waits for one.
    pub(super) fn end(&self) {
        if let Some(lease) = self.guards().as_deref().and_then(Guards::lease) {
            lease.set_dry(Deadline::NONE);
        }
        self.ledger.end();
    }

    pub(super) fn answered(
        &mut self,
        request: &SyncRequest,
        grant: &Grant,
        now: Time,
        events: &mut Vec<FleetEvent>,
    ) {
        self.in_flight = false;
        self.pause.end();
        let guards = self.guards();
        let Some(lease) = guards.as_deref().and_then(Guards::lease) else { return };
        let changes = self.instance.answered(lease, &request.ask, grant, request.sent, now);
        self.ledger.answered(grant, changes.stricter);
        self.ledger.serve(request.wakes);
        let name = || self.ledger.name();
        if !matches!(self.contact, Contact::Reached) {
            self.contact = Contact::Reached;
            events.push(FleetEvent::Reached { ledger: name(), members: grant.members });
        }
        if changes.new_ledger {
            events.push(FleetEvent::Reset { ledger: name() });
        }
        if changes.stricter != self.differs {
            self.differs = changes.stricter;
            events.push(match changes.stricter {
                Some(terms) => FleetEvent::Differs { ledger: name(), terms },
                None => FleetEvent::Agrees { ledger: name() },
            });
        }
    }

    /// The sync of this ledger failed.
    pub(super) fn failed(&mut self, error: &LedgerError, now: Time, events: &mut Vec<FleetEvent>) {
        self.in_flight = false;
        self.ledger.failed(error);
        if error.is_of_one_key() {
            self.pause.extend(now);
        }
        self.disconnect(error, now, events);
    }

    /// The ledger cannot be reached. A sync that is in flight will fail separately.
    pub(super) fn disconnect(
        &mut self,
        error: &LedgerError,
        now: Time,
        events: &mut Vec<FleetEvent>,
    ) {
        if self.in_flight {
            return;
        }
        let guards = self.guards();
        let Some(lease) = guards.as_deref().and_then(Guards::lease) else { return };
        self.instance.failed(lease, now);
        self.ledger.stats().connected = false;
        self.wakes = self.ledger.waker.wakes();
        self.ledger.serve(self.wakes);
        if !matches!(&self.contact, Contact::Lost(known) if known.is_like(error)) {
            self.contact = Contact::Lost(error.clone());
            events.push(FleetEvent::Lost { ledger: self.ledger.name(), error: error.clone() });
        }
    }

    fn guards(&self) -> Option<Arc<Guards>> {
        self.kept.clone().or_else(|| self.guards.upgrade())
    }
}
