//! What a retry has paid, and the wait of a parked call that has not paid yet.

use core::task::Waker;
use core::time::Duration;

use super::{Call, Charge, Class, Context, Deadline, Event, Failure, Span, Stop, Time};
use crate::admit::{Failed, NotParked, Release, Ticket};

/// How the scheduled retry is paid for. With the number beside it in one enum, a call would not fit in 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payment {
    /// None is scheduled, or it is a poll.
    Nothing,
    /// With this charge, which is refunded if the retry is not sent.
    Charged,
    /// Not yet: the call is parked at this place.
    Parked,
}

/// What a parked call may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is not parked, or no longer: call [`Call::admit`].
    Go,
    /// Ask again then, or when the waker is woken.
    Wait(Deadline),
    /// Its time is over.
    Stop(Stop),
}

impl Call {
    /// Whether its retry waits for evidence.
    #[inline]
    pub fn is_parked(&self) -> bool {
        self.payment == Payment::Parked
    }

    /// Asks whether a parked call may go. Call it after every wait, before [`admit`](Self::admit). `waker` is woken when
    /// it is worth asking again; the last one that was passed counts.
    pub fn unpark(&mut self, cx: &Context<'_>, waker: &Waker, now: Time) -> Turn {
        if !self.is_parked() {
            return Turn::Go;
        }
        if self.deadline.is_over(now) {
            *self = self.take().stopped(*cx, Stop::Deadline, now);
            return Turn::Stop(Stop::Deadline);
        }
        let attempts = (self.attempts, self.most_attempts(cx).saturating_sub(self.attempts));
        match cx.guards.release(Ticket(self.token), attempts, self.deadline, waker, now) {
            Some(Release::Wait(until)) => Turn::Wait(until),
            Some(Release::Go { charge, is_probe, parked_at }) => {
                self.payment = Payment::Nothing;
                if self.attempts > 0 {
                    self.set_charge(charge);
                }
                let (attempt, held) = (self.attempts + 1, Duration::from(now - parked_at));
                cx.emit(|| Event::Released { attempt, held, probe: is_probe });
                Turn::Go
            }
            Some(Release::Dry) => {
                cx.emit(|| Event::BudgetDry);
                fails_fast(cx, Some(NotParked::Alone));
                *self = self.take().stopped(*cx, Stop::Budget, now);
                Turn::Stop(Stop::Budget)
            }
            // Other guards have taken the place of those where it parked.
            None => {
                self.payment = Payment::Nothing;
                match self.pay(cx, Class::Transient, now) {
                    Ok(()) => Turn::Go,
                    Err(stop) => {
                        *self = self.take().stopped(*cx, stop, now);
                        Turn::Stop(stop)
                    }
                }
            }
        }
    }

    pub(super) fn take_ticket(&mut self) -> Option<Ticket> {
        let ticket = self.is_parked().then_some(Ticket(self.token))?;
        self.payment = Payment::Nothing;
        Some(ticket)
    }

    pub(super) fn set_charge(&mut self, charge: Charge) {
        (self.token, self.payment) = (charge.tokens(), Payment::Charged);
    }

    pub(super) fn take_charge(&mut self) -> Option<Charge> {
        let charge = (self.payment == Payment::Charged).then(|| Charge::of(self.token))?;
        self.payment = Payment::Nothing;
        Some(charge)
    }

    /// A retry with a hint pays at once if it can: the server has said when.
    pub(super) fn pay_or_park(
        &mut self,
        cx: &Context<'_>,
        failure: &Failure,
        sent: Time,
        seed: u64,
        now: Time,
    ) -> Result<(), Stop> {
        if cx.request.park > 0
            && failure.hint.is_some()
            && let Some(charge) = cx.guards.charge_in_calm(failure.class, now)
        {
            self.set_charge(charge);
            Ok(())
        } else {
            self.park(cx, failure.class, sent, seed, now).or_else(|reason| {
                self.pay(cx, failure.class, now).inspect_err(|_| fails_fast(cx, reason))
            })
        }
    }

    /// Parks a call that the stall rule refuses: others are sent, and their success releases it.
    #[cold]
    pub(super) fn park_stalled(&mut self, cx: &Context<'_>, now: Time) -> bool {
        self.refund(cx, now);
        let class = if self.attempts > 0 { Class::Timeout } else { Class::Transient };
        self.park(cx, class, now, 0, now).inspect_err(|reason| fails_fast(cx, *reason)).is_ok()
    }

    /// Says why not, if calls are parked here at all.
    fn park(
        &mut self,
        cx: &Context<'_>,
        class: Class,
        sent: Time,
        seed: u64,
        now: Time,
    ) -> Result<(), Option<NotParked>> {
        let (attempts, most) = (self.attempts, cx.request.park);
        let left = self.deadline.left(now).cap(Span::MAX);
        let (attempt_timeout, deadline) =
            (cx.policy.attempt_timeout_limit(), cx.policy.deadline_limit());
        let failed = Failed { class, sent, left, attempts, attempt_timeout, deadline, most, seed };
        let parked = if most > 0 { cx.guards.park(&failed, now) } else { None };
        let Ticket(place) = parked.ok_or(None)?.map_err(Some)?;
        (self.token, self.payment) = (place, Payment::Parked);
        cx.emit(|| Event::Parked { attempt: attempts + 1 });
        Ok(())
    }

    pub(super) fn pay(&mut self, cx: &Context<'_>, class: Class, now: Time) -> Result<(), Stop> {
        let Some(charge) = cx.guards.charge(class, now) else {
            cx.emit(|| Event::BudgetDry);
            return Err(Stop::Budget);
        };
        self.set_charge(charge);
        Ok(())
    }

    pub(super) fn refund(&mut self, cx: &Context<'_>, now: Time) {
        if let Some(charge) = self.take_charge() {
            cx.guards.ledger.refund(charge, now);
        } else if let Some(ticket) = self.take_ticket() {
            cx.guards.unpark(ticket);
        }
    }
}

fn fails_fast(cx: &Context<'_>, reason: Option<NotParked>) {
    if let Some(reason) = reason {
        cx.emit(|| Event::NotParked { reason });
    }
}
