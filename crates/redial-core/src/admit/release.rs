//! When guards park a call, and what releases it.

use core::task::Waker;

use super::budget::Charge;
use super::park::{Parked, Ticket, Wish};
use super::{Guards, Ledger};
use crate::decide::{Class, Failure, Health, Outcome};
use crate::policy::Policy;
use crate::units::{MS, Nanos};

/// In the calm, a retry that evidence speaks for costs a quarter: what failed was the exception.
const CALM_DISCOUNT: u32 = 4;
/// The calm is when successes take at most this many times as long as usual.
const CALM: f64 = 1.1;
/// How long the first in line waits for tokens before it asks again, if no success wakes it.
const POLL: Nanos = 100 * MS;

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
    pub(super) fn bear_evidence(&self, is_first: bool, now: Nanos) {
        if let Some(park) = &self.park {
            park.succeeded(is_first, now);
            if park.is_watching(now) {
                self.pace.record_next();
            }
        }
    }

    /// Parks a call whose attempt, sent at `sent`, has failed now; `None` if it must not wait. `most` calls can be held
    /// by the runner.
    pub(crate) fn park(
        &self,
        policy: &Policy,
        failure: &Failure,
        sent: Nanos,
        left: Nanos,
        most: u32,
        now: Nanos,
    ) -> Option<Ticket> {
        let park = self.park.as_ref()?;
        // A later attempt that returns a little sooner than a slow one has not overtaken it: both may be in one queue.
        let slow = failure.class == Class::Timeout;
        let since = if slow { sent + now.saturating_sub(sent) / 2 } else { sent };
        let wish = Wish {
            since,
            class: failure.class,
            deadline: policy.deadline_nanos(),
            left,
            has_succeeded: self.pace.has_succeeded(),
            can_pay: self.ledger.balance(now).is_none_or(|retries| retries > 0),
            most,
        };
        park.enter(&wish, now)
    }

    /// A parked call asks whether it may go.
    pub(crate) fn release(
        &self,
        ticket: Ticket,
        deadline: Nanos,
        waker: &Waker,
        now: Nanos,
    ) -> Option<Release> {
        let park = self.park.as_ref()?;
        let parked = park.join(ticket, waker)?;
        if !parked.is_first {
            return Some(Release::Wait(deadline));
        }
        self.pace.record_next();
        let has_evidence = self.pace.has_overtaken(parked.since);
        let due = if has_evidence {
            park.due(now)
        } else {
            let balance = self.ledger.balance(now).unwrap_or(u64::MAX);
            park.probes_at(deadline.saturating_sub(now), balance, now)
        };
        if due > now {
            return Some(Release::Wait(due.min(deadline)));
        }
        let Some(charge) = self.charge_parked(&parked, has_evidence, now) else {
            return Some(Release::Wait(now.saturating_add(POLL).min(deadline)));
        };
        if has_evidence {
            park.released(now);
        } else {
            park.probed(now);
        }
        park.leave(ticket);
        Some(Release::Go { charge, is_probe: !has_evidence, parked_at: parked.at })
    }

    /// The call is over.
    pub(crate) fn unpark(&self, ticket: Ticket) {
        if let Some(park) = &self.park {
            park.leave(ticket);
        }
    }

    fn charge_parked(&self, parked: &Parked, has_evidence: bool, now: Nanos) -> Option<Charge> {
        let quick = !matches!(parked.class, Class::Timeout | Class::Throttled);
        let calm = || {
            self.pace.is_known()
                && !self.pace.is_slower(CALM)
                && self.park.as_ref().is_some_and(|park| park.usually_succeeds())
        };
        match &*self.ledger {
            Ledger::Tokens(tokens) if has_evidence && quick && calm() => {
                tokens.charge_part(CALM_DISCOUNT, now)
            }
            _ => self.charge(parked.class, now),
        }
    }
}
