//! When guards park a call, and what releases it.

use core::task::Waker;

use super::{NotParked, ROOM, Ticket, Waiting};
use crate::admit::budget::Charge;
use crate::admit::{Guards, Ledger};
use crate::decide::{Class, Health, Outcome};
use crate::random;
use crate::time::{Deadline, Span, Time, TimeLimit};

/// In the calm, a retry that evidence speaks for costs a quarter: what failed was the exception.
const CALM_DISCOUNT: u32 = 4;
/// The calm is when successes take at most this many times as long as usual.
const CALM: f64 = 1.1;
/// How long the first in line waits before it asks again, if no success wakes it.
const POLL: Span = Span::from_millis(100);
/// A call that the stall rule refuses is alone if no other is expected within so many timeouts.
const STALL_MEMORY: u64 = 4;
/// The stall rule holds a call in outages of up to so many timeouts, also where a timeout is as long as the deadline.
const HELD: u64 = 2;
/// A call may use the budget's reserve if no other is expected within this time: a job that runs now and then, not one of
/// many small clients.
const LONELY: Span = Span::from_secs(30);

/// A call that cannot be sent again now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) class: Class,
    /// When the attempt that failed was sent.
    pub(crate) sent: Time,
    /// What is left of the call's time.
    pub(crate) left: Span,
    /// How many attempts it has made.
    pub(crate) attempts: u32,
    /// The timeout of an attempt, and the deadline of a call, by the policy.
    pub(crate) attempt_timeout: TimeLimit,
    pub(crate) deadline: TimeLimit,
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
        parked_at: Time,
    },
    /// Ask again then, or when woken.
    Wait(Deadline),
    /// No other call will bring evidence, and it cannot pay for a probe.
    Dry,
}

impl Guards {
    /// How many calls are parked.
    pub fn parked(&self) -> u32 {
        self.park.as_ref().map_or(0, |park| park.parked())
    }

    /// An attempt has ended, after the other guards have learnt from it. `deadline` is the policy's.
    pub(crate) fn watch(&self, deadline: TimeLimit, is_first: bool, outcome: &Outcome, now: Time) {
        let Some(park) = &self.park else { return };
        match outcome {
            Outcome::Success | Outcome::NotYet(_) => self.bear_evidence(is_first, now),
            Outcome::Failure(failure) if failure.class.health() == Health::Good => {
                self.bear_evidence(is_first, now);
            }
            Outcome::Failure(failure) if failure.class == Class::Cancelled => {}
            Outcome::Failure(_) => {
                park.failed(is_first, deadline, now);
                self.pace.record_next();
            }
        }
    }

    /// An attempt succeeded: parked calls may go.
    pub(in crate::admit) fn bear_evidence(&self, is_first: bool, now: Time) {
        if let Some(park) = &self.park {
            park.succeeded(is_first, now);
            if park.is_watching(now) {
                self.pace.record_next();
            }
        }
    }

    /// Whether failures are no exception.
    pub(in crate::admit) fn fails_usually(&self) -> bool {
        self.park.as_ref().is_some_and(|park| !park.usually_succeeds())
    }

    /// Whether the process makes so few calls that its timeouts do not show a stall.
    pub(in crate::admit) fn makes_few_calls(&self, now: Time) -> bool {
        let memory = self.pace.patience() * STALL_MEMORY;
        self.park.as_ref().is_some_and(|park| park.is_alone(memory, now))
    }

    /// Parks a call, or says why it must not wait; `None` if there is no rule.
    pub(crate) fn park(&self, failed: &Failed, now: Time) -> Option<Result<Ticket, NotParked>> {
        let park = self.park.as_ref()?;
        let taken = now - failed.sent;
        let patience = failed.attempt_timeout.cap(taken);
        let has_room = !failed.deadline.is_exceeded_by(patience * ROOM);
        let timed_out = failed.class == Class::Timeout;
        let doubled = || taken * (1 << failed.attempts.min(32));
        let waiting = Waiting {
            // A later attempt that returns a little sooner than a slow one has not overtaken it: both may be in one queue.
            since: if timed_out { failed.sent + taken / 2 } else { failed.sent },
            class: failed.class,
            at: now,
            rest: (timed_out && has_room).then(doubled),
            bits: random::draw(failed.seed, failed.attempts.into()),
        };
        let can_pay = || {
            let is_lonely = park.is_alone(failed.left.max(LONELY), now);
            self.ledger.can_pay(self.priced_as(failed.class), is_lonely, now)
        };
        let held = if failed.attempts == 0 { self.pace.patience() } else { Span::ZERO };
        // The failures of a call that is alone are its own: they do not show that others are in vain.
        Some(match park.is_alone(failed.left, now) {
            true if !waiting.may_probe() => Err(NotParked::NoRoom),
            true if !can_pay() => Err(NotParked::Alone),
            false if park.is_down_for_long(failed.deadline, held * HELD, now) => {
                Err(NotParked::LongOutage)
            }
            _ => park.enter(waiting, failed.most, now),
        })
    }

    /// A parked call asks whether it may go. `attempts` is how many it has made, and how many are left.
    pub(crate) fn release(
        &self,
        ticket: Ticket,
        attempts: (u32, u32),
        deadline: Deadline,
        waker: &Waker,
        now: Time,
    ) -> Option<Release> {
        let park = self.park.as_ref()?;
        let (waiting, is_first_in_line) = park.join(ticket, waker)?;
        if !is_first_in_line {
            return Some(Release::Wait(deadline));
        }
        self.pace.record_next();
        let poll = Some(Release::Wait(deadline.min((now + POLL).into())));
        let left = deadline.left(now).cap(Span::MAX);
        let is_alone = park.is_alone(left, now);
        let is_lonely = park.is_alone(left.max(LONELY), now);
        let has_evidence = self.pace.has_overtaken(waiting.since);
        // The stall rule lets other first attempts pass, and they are the probes.
        let is_held_back = attempts.0 == 0;
        let due = if has_evidence {
            park.due(park.interval(left, now), now)
        } else if is_held_back
            || !(waiting.class != Class::Timeout || is_alone && waiting.may_probe())
        {
            return poll;
        } else {
            let balance =
                if is_lonely { self.ledger.balance_alone(now) } else { self.ledger.balance(now) };
            let attempts = is_alone.then_some(attempts.1.into());
            let retries = balance.into_iter().chain(attempts).min();
            park.probes_at(&waiting, retries, left, is_alone, now)
        };
        if due > now {
            return Some(Release::Wait(deadline.min(due.into())));
        }
        let charge = if is_held_back {
            Charge::default()
        } else if let Some(charge) = self.charge_parked(&waiting, has_evidence, is_lonely, now) {
            charge
        } else if is_alone {
            return Some(Release::Dry);
        } else {
            return poll;
        };
        if has_evidence {
            park.released(park.interval(left, now), now);
        } else {
            park.probed(now);
        }
        park.leave(ticket);
        Some(Release::Go { charge, is_probe: !has_evidence, parked_at: waiting.at })
    }

    /// Whether a hedge beside an overtaken attempt may go: after a hang all attempts in flight are overtaken at once. It
    /// counts as a release.
    pub(crate) fn paces_hedge(&self, now: Time) -> bool {
        self.park.as_ref().is_none_or(|park| {
            let interval = park.hedge_interval(now);
            let is_due = park.due(interval, now) <= now;
            if is_due {
                park.released(interval, now);
            }
            is_due
        })
    }

    /// The call is over.
    pub(crate) fn unpark(&self, ticket: Ticket) {
        if let Some(park) = &self.park {
            park.leave(ticket);
        }
    }

    fn charge_parked(
        &self,
        waiting: &Waiting,
        has_evidence: bool,
        is_lonely: bool,
        now: Time,
    ) -> Option<Charge> {
        let class = self.priced_as(waiting.class);
        let charge = if has_evidence && is_quick(class) {
            self.charge_in_calm(class, now)
        } else {
            self.charge(class, now)
        };
        charge.or_else(|| if is_lonely { self.ledger.charge_alone(class) } else { None })
    }

    /// Charges a retry that a success or the server's hint speaks for.
    pub(crate) fn charge_in_calm(&self, class: Class, now: Time) -> Option<Charge> {
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
