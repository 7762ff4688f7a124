//! A slow attempt can be raced: another one is sent beside it, the first success wins, and the others are
//! dropped. A [`Race`] owns the attempts of one call that are in flight together; their permits are with the session.

use std::borrow::Borrow;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use redial_core::Deadline;

use crate::attempt::Attempt;
use crate::clock::Tokio;
use crate::retry::Retry;
use crate::session::Session;
use crate::thread_state::drop_attempt;
use crate::timer::within;

pub(crate) struct Race<F> {
    /// In the order of the permits that the session has put aside: oldest first.
    in_flight: Vec<F>,
    /// Whether hedges may be requested. Not after a failure, which is followed by a wait.
    hedging: bool,
    /// When the next one is.
    hedge_at: Deadline,
}

/// One of the attempts of a race.
pub(crate) enum Racer<S, H> {
    /// Where it was first polled.
    Slow(S),
    Hedge(Pin<Box<H>>),
}

impl<S: Future + Unpin, H: Future<Output = S::Output>> Future for Racer<S, H> {
    type Output = S::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<S::Output> {
        match &mut *self {
            Self::Slow(attempt) => Pin::new(attempt).poll(cx),
            Self::Hedge(attempt) => attempt.as_mut().poll(cx),
        }
    }
}

/// What happens next in a race.
pub(crate) enum Next<T> {
    /// An attempt ended; `None` when it was cut off. The session settles it next.
    Ended(Option<T>),
    HedgeDue,
}

impl<F: Future + Unpin> Race<F> {
    pub(crate) fn new() -> Self {
        Self { in_flight: Vec::new(), hedging: true, hedge_at: Deadline::NONE }
    }

    /// Adds the attempt that the session admitted last.
    pub(crate) fn start<R: Borrow<Retry<C>>, C>(
        &mut self,
        session: &mut Session<R, C, Tokio>,
        attempt: F,
    ) {
        let most = session.retry().policy().hedge().map_or(0, |rule| rule.most as usize);
        let may = self.hedging && self.in_flight.len() < most;
        self.hedge_at = if may { session.hedge_at() } else { Deadline::NONE };
        session.put_aside();
        self.in_flight.push(attempt);
    }

    pub(crate) fn stop_hedging(&mut self) {
        (self.hedging, self.hedge_at) = (false, Deadline::NONE);
    }

    /// Requests an attempt beside those in flight.
    pub(crate) fn hedge<R: Borrow<Retry<C>>, C>(
        &mut self,
        session: &mut Session<R, C, Tokio>,
    ) -> Option<Attempt> {
        session.hedge().map_err(|again| self.hedge_at = again.into()).ok()
    }

    pub(crate) async fn next<R: Borrow<Retry<C>>, C>(
        &mut self,
        session: &mut Session<R, C, Tokio>,
    ) -> Next<F::Output> {
        let hedge_at = self.hedge_at;
        let first_to_expire = session.others().iter().map(|permit| permit.expires).enumerate();
        let (expired, expires) =
            first_to_expire.min_by_key(|(_, expires)| *expires).unwrap_or_default();
        let ended = within(poll_fn(|cx| self.poll_attempts(cx)), hedge_at.min(expires)).await;
        let (place, output) = match ended {
            Some((place, output)) => (place, Some(output)),
            None if hedge_at < expires => return Next::HedgeDue,
            None => (expired, None),
        };
        drop_attempt(output.is_none(), || drop(self.in_flight.remove(place)));
        session.pick(place);
        Next::Ended(output)
    }

    fn poll_attempts(&mut self, cx: &mut Context<'_>) -> Poll<(usize, F::Output)> {
        for (place, attempt) in self.in_flight.iter_mut().enumerate() {
            if let Poll::Ready(output) = Pin::new(attempt).poll(cx) {
                return Poll::Ready((place, output));
            }
        }
        Poll::Pending
    }
}
