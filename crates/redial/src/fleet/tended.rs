use std::sync::{Arc, Weak};

use redial_core::admit::Guards;
use redial_core::admit::budget::Lease;
use redial_core::fleet::{Answer, Ask, Instance, Terms};
use redial_core::schedule::{Backoff, Growth, Jitter};
use redial_core::{MS, NEVER, Nanos, SECOND};

use super::event::{FleetEvent, Trouble};
use super::handle::Joined;
use super::ledger::Ledger;
use crate::entropy;

/// When Redis is gone, or comes back, its clients do not come all at once.
const BACKOFF: Backoff = Backoff {
    growth: Growth::Exponential(2.0),
    base: 100 * MS,
    cap: 10 * SECOND,
    jitter: Jitter::Full,
    clip: false,
};
/// How often an instance without a ledger looks for what it has earned meanwhile, while retries wait for it.
const EARNS: Nanos = 100 * MS;

/// How long not to ask.
pub(super) struct Pause {
    failures: u32,
    pub(super) until: Nanos,
    seed: u64,
}

impl Pause {
    pub(super) fn new() -> Self {
        Self { failures: 0, until: 0, seed: entropy::seed() }
    }

    /// What was under way when a pause began, and fails too, is part of the same failure.
    pub(super) fn extend(&mut self, now: Nanos) {
        if now >= self.until {
            self.failures = self.failures.saturating_add(1);
            self.until = now.saturating_add(BACKOFF.delay(self.failures, 0, self.seed));
        }
    }

    pub(super) fn end(&mut self) {
        (self.failures, self.until) = (0, 0);
    }
}

/// One ledger, as its driver sees it.
pub(super) struct Tended {
    pub(super) ledger: Arc<Ledger>,
    guards: Weak<Guards>,
    /// Kept for the goodbye only.
    kept: Option<Arc<Guards>>,
    instance: Instance,
    asking: bool,
    phase: Phase,
    contact: Contact,
    differs: Option<Terms>,
    pause: Pause,
    /// The last ring that was heard.
    rings: u64,
    /// When to look for earnings again.
    earns: Nanos,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Stays,
    Leaves,
    /// The goodbye is on its way.
    Said,
}

enum Contact {
    Unknown,
    Reached,
    Lost(Trouble),
}

/// What to do for a ledger.
pub(super) enum Step {
    Wait(Nanos),
    Ask(Asked),
    /// It has left, and said so if it could.
    Gone {
        heard: bool,
    },
}

/// An ask and what was known when it was made.
pub(super) struct Asked {
    pub(super) ask: Ask,
    pub(super) sent: Nanos,
    /// What the bell had asked for by then, if that is part of it.
    rings: u64,
}

impl Tended {
    pub(super) fn new(joined: Joined) -> Self {
        let Joined { ledger, guards, instance } = joined;
        Self {
            ledger,
            guards,
            kept: None,
            instance,
            asking: false,
            phase: Phase::Stays,
            contact: Contact::Unknown,
            differs: None,
            pause: Pause::new(),
            rings: 0,
            earns: 0,
        }
    }

    pub(super) fn leave(&mut self, guards: Option<Arc<Guards>>) {
        self.kept = self.kept.take().or(guards);
        if self.phase == Phase::Stays {
            self.phase = Phase::Leaves;
        }
    }

    pub(super) fn step(&mut self, link: &Pause, now: Nanos) -> Step {
        let guards = self.guards();
        let lease = guards.as_deref().and_then(Guards::lease);
        let Some(lease) = lease else { return self.vanish(now) };
        let looks = self.go_on(lease, now);
        if self.asking {
            return Step::Wait(looks);
        }
        match self.phase {
            Phase::Stays => {}
            Phase::Leaves if self.instance.is_reached() => {
                self.phase = Phase::Said;
                let ask = self.instance.leave(lease, now);
                return self.ask(ask, now);
            }
            Phase::Leaves | Phase::Said => return self.gone(),
        }
        let barred = self.pause.until.max(link.until);
        let next = self.instance.next(lease, now).max(barred);
        if next > now {
            if !self.instance.is_reached() && barred > now {
                self.ledger.serve(self.rings);
            }
            return Step::Wait(next.min(looks));
        }
        let ask = self.instance.ask(lease, now);
        self.ask(ask, now)
    }

    /// Pays the retries that wait, if the ledger is not there. Says when to do it again.
    fn go_on(&mut self, lease: &Lease, now: Nanos) -> Nanos {
        let rings = self.ledger.bell.rings();
        if rings != self.rings || now >= self.earns {
            self.rings = rings;
            self.instance.pay_pending(lease, now);
            self.earns = now + EARNS;
        }
        let waits = u64::from(lease.demand()) > lease.held(now);
        if waits && !self.instance.is_reached() { self.earns } else { NEVER }
    }

    fn ask(&mut self, ask: Ask, now: Nanos) -> Step {
        self.asking = true;
        // A first ask only says hello.
        let rings = if self.instance.is_reached() { self.rings } else { 0 };
        Step::Ask(Asked { ask, sent: now, rings })
    }

    /// Nobody makes calls any more.
    fn vanish(&mut self, now: Nanos) -> Step {
        match self.phase {
            _ if self.asking => Step::Wait(NEVER),
            Phase::Said => self.gone(),
            _ if !self.instance.is_reached() => self.gone(),
            _ => {
                self.phase = Phase::Said;
                let ask = self.instance.leave_without_lease();
                self.ask(ask, now)
            }
        }
    }

    fn gone(&self) -> Step {
        self.end();
        Step::Gone { heard: self.phase == Phase::Said && self.instance.is_reached() }
    }

    /// Nobody will pay for retries any more, and none waits for it.
    pub(super) fn end(&self) {
        if let Some(lease) = self.guards().as_deref().and_then(Guards::lease) {
            lease.set_dry(NEVER);
        }
        self.ledger.end();
    }

    pub(super) fn answered(
        &mut self,
        asked: &Asked,
        answer: &Answer,
        now: Nanos,
        events: &mut Vec<FleetEvent>,
    ) {
        self.asking = false;
        self.pause.end();
        let guards = self.guards();
        let Some(lease) = guards.as_deref().and_then(Guards::lease) else { return };
        let told = self.instance.answered(lease, &asked.ask, answer, asked.sent, now);
        self.ledger.answered(answer, told.stricter);
        self.ledger.serve(asked.rings);
        let name = || self.ledger.name();
        if !matches!(self.contact, Contact::Reached) {
            self.contact = Contact::Reached;
            events.push(FleetEvent::Reached { ledger: name(), members: answer.members });
        }
        if told.new_ledger {
            events.push(FleetEvent::Anew { ledger: name() });
        }
        if told.stricter != self.differs {
            self.differs = told.stricter;
            events.push(match told.stricter {
                Some(terms) => FleetEvent::Differs { ledger: name(), terms },
                None => FleetEvent::Agrees { ledger: name() },
            });
        }
    }

    /// Its own ask failed.
    pub(super) fn failed(&mut self, trouble: &Trouble, now: Nanos, events: &mut Vec<FleetEvent>) {
        self.asking = false;
        self.ledger.failed(trouble);
        if trouble.is_of_one_key() {
            self.pause.extend(now);
        }
        self.cut_off(trouble, now, events);
    }

    /// There is no way to the ledger. An ask that is under way will fail by itself.
    pub(super) fn cut_off(&mut self, trouble: &Trouble, now: Nanos, events: &mut Vec<FleetEvent>) {
        if self.asking {
            return;
        }
        let guards = self.guards();
        let Some(lease) = guards.as_deref().and_then(Guards::lease) else { return };
        self.instance.failed(lease, now);
        self.ledger.stats().connected = false;
        self.rings = self.ledger.bell.rings();
        self.ledger.serve(self.rings);
        if !matches!(&self.contact, Contact::Lost(known) if known.is_like(trouble)) {
            self.contact = Contact::Lost(trouble.clone());
            events.push(FleetEvent::Lost { ledger: self.ledger.name(), trouble: trouble.clone() });
        }
    }

    fn guards(&self) -> Option<Arc<Guards>> {
        self.kept.clone().or_else(|| self.guards.upgrade())
    }
}
