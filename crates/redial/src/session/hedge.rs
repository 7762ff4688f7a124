use std::borrow::Borrow;

use redial_core::{Deadline, Permit, Time};

use super::{Session, limited};
use crate::attempt::Attempt;
use crate::clock::Clock;
use crate::retry::Retry;

/// For a runner that can have several attempts in flight.
impl<R: Borrow<Retry<C>>, C, K: Clock> Session<R, C, K> {
    pub(crate) fn retry(&self) -> &Retry<C> {
        self.retry.borrow()
    }

    /// When the attempt that is settled next is cut off.
    pub(crate) fn expires(&self) -> Deadline {
        self.permit.as_ref().map_or(Deadline::NONE, |permit| permit.expires)
    }

    /// Whether the attempt that is settled next is cut off by now.
    #[cold]
    pub(crate) fn is_expired(&self) -> bool {
        self.expires().is_over(K::now())
    }

    /// When a hedge beside the attempt that is settled next is due.
    pub(crate) fn hedge_at(&self) -> Deadline {
        let cx = limited(self.retry(), self.number, self.barred);
        let permit = self.permit.as_ref();
        permit.and_then(|permit| self.call.hedge_at(&cx, permit.started)).into()
    }

    /// When the attempt that is settled next is cut off or, if others can be `beside` it, a hedge is due.
    pub(crate) fn until(&self, beside: bool) -> Deadline {
        if beside { self.expires().min(self.hedge_at()) } else { self.expires() }
    }

    /// Puts the attempt that would be settled next beside the others.
    pub(crate) fn put_aside(&mut self) {
        self.others.extend(self.permit.take());
    }

    /// The attempts that were put aside.
    pub(crate) fn others(&self) -> &[Permit] {
        &self.others
    }

    /// This one of them is settled next.
    pub(crate) fn pick(&mut self, place: usize) {
        self.permit = Some(self.others.remove(place));
    }

    /// Requests an attempt beside those that were put aside. `Err` is when to ask again.
    pub(crate) fn hedge(&mut self) -> Result<Attempt, Option<Time>> {
        let newest = self.others.last().map_or(self.started, |permit| permit.started);
        let cx = limited(self.retry.borrow(), self.number, self.barred);
        let permit = self.call.hedge(&cx, newest, K::now()).map_err(|refused| refused.again)?;
        Ok(self.sent(permit))
    }
}
