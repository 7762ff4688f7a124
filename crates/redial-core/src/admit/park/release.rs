//! When guards park a call, and what releases it.

use core::task::Waker;

use super::{ROOM, Ticket, Waiting};
use crate::admit::budget::Charge;
use crate::admit::{Guards, Ledger};
use crate::decide::{Class, Health, Outcome};
use crate::policy::Policy;
use crate::random;
use crate::units::{MS, NEVER, Nanos};

/// In the calm, a retry that evidence speaks for costs a quarter: what failed was the exception.
const CALM_DISCOUNT: u32 = 4;
/// The calm is when successes take at most this many times as long as usual.
const CALM: f64 = 1.1;
/// How long the first in line waits before it asks again, if no success wakes it.
const POLL: Nanos = 100 * MS;
/// A call that the stall rule refuses is alone if no other is expected within so many timeouts.
const STALL_MEMORY: u64 = 4;

/// A call that cannot be sent again now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) class: Class,
    /// When the attempt that failed was sent.
    pub(crate) sent: Nanos,
    /// What is left of the call's time.
    pub(crate) left: Nanos,
    /// How many attempts it has made.
    pub(crate) attempts: u32,
    /// The most calls that the runner can hold.
    pub(crate) most: u32,
    pub(crate) seed: u64,
}

/// The answer to a parked call.
#[derive(Debug)]
pub(crate) enum Release {
    /// It may go, and has paid.
    Go {
        charge: Charge,
        /// Whether it goes without evidence, to find out.
        is_probe: bool,
        /// When it parked.
        parked_at: Nanos,
    },
    /// Ask again then, or when woken.
    Wait(Nanos),
    /// No other call will bring evidence, and it cannot pay for a probe.
    Dry,
}

impl Guards {
    /// How many calls are parked.
    pub fn parked(&self) -> u32 {
        self.park.as_ref().map_or(0, |park| park.parked())
    }

    /// An attempt has ended, after the other guards have learnt from it.
    pub(crate) fn watch(&self, policy: &Policy, is_first: bool, outcome: &Outcome, now: Nanos) {
        let Some(park) = &self.park else { return };
        match outcome {
            Outcome::Success | Outcome::NotYet(_) => self.bear_evidence(is_first, now),
            Outcome::Failure(failure) if failure.class.health() == Health::Good => {
                self.bear_evidence(is_first, now);
            }
            Outcome::Failure(failure) if failure.class == Class::Cancelled => {}
            Outcome::Failure(_) => {
                park.failed(is_first, policy.deadline_nanos(), now);
                self.pace.record_next();
            }
        }
    }

    /// An attempt succeeded: parked calls may go.
    pub(in crate::admit) fn bear_evidence(&self, is_first: bool, now: Nanos) {
        if let Some(park) = &self.park {
            park.succeeded(is_first, now);
            if park.is_watching(now) {
                self.pace.record_next();
            }
        }
    }

    /// The charge of a retry that succeeded. Where failures are usual, retries would sustain themselves for as long as the
    /// destination stays like that: the charge is refunded at once, and earns no bonus.
    pub(in crate::admit) fn with_bonus(&self, charge: Charge) -> Option<Charge> {
        if self.fails_usually() {
            self.ledger.answered(charge);
            return None;
        }
        Some(charge)
    }

    fn fails_usually(&self) -> bool {
        self.park.as_ref().is_some_and(|park| !park.usually_succeeds())
    }

    /// Whether the process makes so few calls that its timeouts do not show a stall.
    pub(in crate::admit) fn makes_few_calls(&self, now: Nanos) -> bool {
        let memory = self.pace.patience().saturating_mul(STALL_MEMORY);
        self.park.as_ref().is_some_and(|park| park.is_alone(memory, now))
    }

    /// Parks a call; `None` if it must not wait.
    pub(crate) fn park(&self, policy: &Policy, failed: &Failed, now: Nanos) -> Option<Ticket> {
        let park = self.park.as_ref()?;
        let taken = now.saturating_sub(failed.sent);
        let patience = taken.min(policy.attempt_timeout_nanos());
        let has_room = patience.saturating_mul(ROOM) <= policy.deadline_nanos();
        let timed_out = failed.class == Class::Timeout;
        let doubled = || taken.saturating_mul(1 << failed.attempts.min(32));
        let waiting = Waiting {
            // A later attempt that returns a little sooner than a slow one has not overtaken it: both may be in one queue.
            since: if timed_out { failed.sent + taken / 2 } else { failed.sent },
            class: failed.class,
            at: now,
            rest: (timed_out && has_room).then(doubled),
            bits: random::draw(failed.seed, failed.attempts.into()),
        };
        let probes = waiting.may_probe() && self.ledger.can_pay(self.priced_as(failed.class), now);
        // The failures of a call that is alone are its own: they do not show that others are in vain.
        let is_hopeless = if park.is_alone(failed.left, now) {
            !probes
        } else {
            park.is_down_for_long(policy.deadline_nanos(), now)
        };
        if is_hopeless { None } else { park.enter(waiting, failed.most, now) }
    }

    /// A parked call asks whether it may go. `attempts` is how many it has made, and how many are left.
    pub(crate) fn release(
        &self,
        ticket: Ticket,
        attempts: (u32, u32),
        deadline: Nanos,
        waker: &Waker,
        now: Nanos,
    ) -> Option<Release> {
        let park = self.park.as_ref()?;
        let (waiting, is_first_in_line) = park.join(ticket, waker)?;
        if !is_first_in_line {
            return Some(Release::Wait(deadline));
        }
        self.pace.record_next();
        let poll = Some(Release::Wait(now.saturating_add(POLL).min(deadline)));
        let left = deadline.saturating_sub(now);
        let is_alone = park.is_alone(left, now);
        let has_evidence = self.pace.has_overtaken(waiting.since);
        // The stall rule lets other first attempts pass, and they are the probes.
        let is_held_back = attempts.0 == 0;
        let due = if has_evidence {
            park.due(left, now)
        } else if is_held_back
            || !(waiting.class != Class::Timeout || is_alone && waiting.may_probe())
        {
            return poll;
        } else {
            // A call that is alone spreads its attempts over what is left.
            let balance = || self.ledger.balance(now).unwrap_or(u64::MAX);
            let (retries, longest) =
                if is_alone { (attempts.1.into(), left / 3) } else { (balance(), NEVER) };
            park.probes_at(&waiting, retries, left, longest, now)
        };
        if due > now {
            return Some(Release::Wait(due.min(deadline)));
        }
        let charge = if is_held_back {
            Charge::default()
        } else if let Some(charge) = self.charge_parked(&waiting, has_evidence, now) {
            charge
        } else if is_alone {
            return Some(Release::Dry);
        } else {
            return poll;
        };
        if has_evidence {
            park.released(left, now);
        } else {
            park.probed(now);
        }
        park.leave(ticket);
        Some(Release::Go { charge, is_probe: !has_evidence, parked_at: waiting.at })
    }

    /// The call is over.
    pub(crate) fn unpark(&self, ticket: Ticket) {
        if let Some(park) = &self.park {
            park.leave(ticket);
        }
    }

    fn charge_parked(&self, waiting: &Waiting, has_evidence: bool, now: Nanos) -> Option<Charge> {
        let class = self.priced_as(waiting.class);
        if has_evidence && is_quick(class) {
            self.charge_in_calm(class, now)
        } else {
            self.charge(class, now)
        }
    }

    /// Charges a retry that a success or the server's hint speaks for.
    pub(crate) fn charge_in_calm(&self, class: Class, now: Nanos) -> Option<Charge> {
        let is_calm =
            || self.pace.is_known() && !self.pace.is_slower(CALM) && !self.fails_usually();
        match &*self.ledger {
            Ledger::Tokens(tokens) if is_calm() => tokens.charge_part(CALM_DISCOUNT, now),
            _ => self.charge(class, now),
        }
    }

    /// The kind of failure that a retry is paid for. Before the first success, a timeout costs no more than any other: a new
    /// process has little, and makes the attempts of its policy.
    fn priced_as(&self, class: Class) -> Class {
        if self.pace.has_succeeded() { class } else { Class::Transient }
    }
}

impl Waiting {
    /// Whether it may go without evidence, if it is alone.
    fn may_probe(&self) -> bool {
        self.class != Class::Timeout || self.rest.is_some()
    }
}

fn is_quick(class: Class) -> bool {
    !matches!(class, Class::Timeout | Class::Throttled)
}
