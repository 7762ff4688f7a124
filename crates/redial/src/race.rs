//! A slow attempt can be raced: another one is sent beside it, the first success wins, and the others are
//! dropped. A [`Race`] owns the attempts of one call that are in flight.

use std::borrow::Borrow;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use redial_core::{NEVER, Nanos, Permit};

use crate::attempt::Attempt;
use crate::clock::{Clock, Tokio};
use crate::retry::Retry;
use crate::run::within;
use crate::session::Session;

pub(crate) struct Race<R: Borrow<Retry<C>>, C, F> {
    pub(crate) session: Session<R, C, Tokio>,
    /// Oldest first.
    in_flight: Vec<(Permit, Pin<Box<F>>)>,
    /// The most hedges beside the oldest attempt.
    most: usize,
    /// Whether hedges may be requested. Not after a failure, which is followed by a wait; the next race hedges again.
    hedging: bool,
    /// When the next one is.
    hedge_at: Nanos,
}

/// What happens next in a race.
pub(crate) enum Next<T> {
    /// An attempt ended; `None` when it was cut off. Its permit is with the session.
    Ended(Option<T>),
    HedgeDue,
}

impl<R: Borrow<Retry<C>>, C, F> Race<R, C, F> {
    pub(crate) fn new(session: Session<R, C, Tokio>) -> Self {
        let most = session.retry().policy().hedge().map_or(0, |rule| rule.most as usize);
        Self { session, in_flight: Vec::new(), most, hedging: true, hedge_at: NEVER }
    }

    /// Adds the attempt that the session admitted last.
    pub(crate) fn start(&mut self, attempt: F) {
        if let Some(permit) = self.session.permit.take() {
            let sent = permit.started;
            self.in_flight.push((permit, Box::pin(attempt)));
            let may = self.hedging && self.in_flight.len() <= self.most;
            self.hedge_at = if may { self.session.hedge_at(sent) } else { NEVER };
        }
    }

    /// A new race begins, after a wait.
    pub(crate) fn allow_hedging(&mut self) {
        self.hedging = true;
    }

    pub(crate) fn stop_hedging(&mut self) {
        (self.hedging, self.hedge_at) = (false, NEVER);
    }

    /// Requests an attempt beside those in flight.
    pub(crate) fn hedge(&mut self) -> Option<Attempt> {
        let newest = self.in_flight.last()?.0.started;
        self.session.hedge(newest).map_err(|again| self.hedge_at = again).ok()
    }

    /// Whether other attempts are in flight beside the one that the session settles next.
    #[cfg(feature = "http-client")]
    pub(crate) fn has_others(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Records how long the race took, since its oldest attempt.
    pub(crate) fn record(&self) {
        if self.most == 0 {
            return;
        }
        let permits = self.in_flight.iter().map(|(permit, _)| permit).chain(&self.session.permit);
        if let Some(oldest) = permits.map(|permit| permit.started).min() {
            let taken = Tokio::now().saturating_sub(oldest);
            self.session.retry().guards().record_latency(taken);
        }
    }
}

impl<R: Borrow<Retry<C>>, C, F: Future> Race<R, C, F> {
    pub(crate) async fn next(&mut self) -> Next<F::Output> {
        let hedge_at = self.hedge_at;
        let first_to_expire = self.in_flight.iter().map(|(permit, _)| permit.expires).enumerate();
        let (expired, expires) =
            first_to_expire.min_by_key(|(_, expires)| *expires).unwrap_or((0, NEVER));
        let ended = within(poll_fn(|cx| self.poll_attempts(cx)), hedge_at.min(expires)).await;
        let (place, output) = match ended {
            Some((place, output)) => (place, Some(output)),
            None if hedge_at < expires => return Next::HedgeDue,
            None => (expired, None),
        };
        self.session.permit = Some(self.in_flight.remove(place).0);
        Next::Ended(output)
    }

    fn poll_attempts(&mut self, cx: &mut Context<'_>) -> Poll<(usize, F::Output)> {
        for (place, (_, attempt)) in self.in_flight.iter_mut().enumerate() {
            if let Poll::Ready(output) = attempt.as_mut().poll(cx) {
                return Poll::Ready((place, output));
            }
        }
        Poll::Pending
    }
}

impl<R: Borrow<Retry<C>>, C, F> Drop for Race<R, C, F> {
    fn drop(&mut self) {
        for (permit, _) in self.in_flight.drain(..) {
            self.session.abandon(permit);
        }
    }
}
