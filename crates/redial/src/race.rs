//! A slow attempt can be raced: another one is sent beside it, the first success wins, and the others are
//! dropped. A [`Race`] owns the attempts of one call that are in flight together; their permits are with the session.

use std::borrow::Borrow;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use redial_core::{NEVER, Nanos};

use crate::attempt::Attempt;
use crate::clock::Tokio;
use crate::retry::Retry;
use crate::run::within;
use crate::session::Session;
use crate::thread_state::drop_attempt;

pub(crate) struct Race<F> {
    /// In the order of the permits that the session has put aside: oldest first.
    in_flight: Vec<F>,
    /// Whether hedges may be requested. Not after a failure, which is followed by a wait; the next race hedges again.
    hedging: bool,
    /// When the next one is.
    hedge_at: Nanos,
}

/// What happens next in a race.
pub(crate) enum Next<T> {
    /// An attempt ended; `None` when it was cut off. The session settles it next.
    Ended(Option<T>),
    HedgeDue,
}

impl<F: Future + Unpin> Race<F> {
    pub(crate) fn new() -> Self {
        Self { in_flight: Vec::new(), hedging: true, hedge_at: NEVER }
    }

    /// Adds the attempt that the session admitted last.
    pub(crate) fn start<R: Borrow<Retry<C>>, C>(
        &mut self,
        session: &mut Session<R, C, Tokio>,
        attempt: F,
    ) {
        let most = session.retry().policy().hedge().map_or(0, |rule| rule.most as usize);
        let may = self.hedging && self.in_flight.len() < most;
        self.hedge_at = if may { session.hedge_at() } else { NEVER };
        session.put_aside();
        self.in_flight.push(attempt);
    }

    /// A new race begins, after a wait.
    #[cfg(feature = "http-client")]
    pub(crate) fn allow_hedging(&mut self) {
        self.hedging = true;
    }

    pub(crate) fn stop_hedging(&mut self) {
        (self.hedging, self.hedge_at) = (false, NEVER);
    }

    /// Requests an attempt beside those in flight.
    pub(crate) fn hedge<R: Borrow<Retry<C>>, C>(
        &mut self,
        session: &mut Session<R, C, Tokio>,
    ) -> Option<Attempt> {
        session.hedge().map_err(|again| self.hedge_at = again).ok()
    }

    pub(crate) async fn next<R: Borrow<Retry<C>>, C>(
        &mut self,
        session: &mut Session<R, C, Tokio>,
    ) -> Next<F::Output> {
        let hedge_at = self.hedge_at;
        let first_to_expire = session.others().iter().map(|permit| permit.expires).enumerate();
        let (expired, expires) =
            first_to_expire.min_by_key(|(_, expires)| *expires).unwrap_or((0, NEVER));
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
