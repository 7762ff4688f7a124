//! A parked call waits for its turn, which the engine decides. The runners differ in how they are woken.

use std::borrow::Borrow;
#[cfg(feature = "tokio")]
use std::future::poll_fn;
#[cfg(feature = "tokio")]
use std::pin::pin;
use std::task::Waker;
#[cfg(feature = "tokio")]
use std::task::{Poll, ready};
#[cfg(feature = "http-client")]
use std::time::Duration;

use redial_core::{Deadline, Span, Time, Turn};

use super::{Session, limited};
#[cfg(feature = "tokio")]
use crate::attempt::Attempt;
use crate::clock::Clock;
#[cfg(feature = "tokio")]
use crate::clock::Tokio;
use crate::error::Error;
use crate::park::{ParkLimit, Place};
use crate::retry::Retry;
use crate::testing;
#[cfg(feature = "tokio")]
use crate::timer::timer;

/// How long a call was parked. It allocates when the call parks.
#[derive(Default)]
pub(super) struct Hold(Option<Box<Times>>);

#[derive(Default)]
struct Times {
    /// Without the present time.
    before: Span,
    /// When it parked, if it is parked now.
    since: Option<Time>,
    place: Option<Place>,
}

impl Hold {
    pub(super) fn was_parked(&self) -> bool {
        self.0.is_some()
    }

    fn begin(&mut self, place: Option<Place>, now: Time) {
        let times = self.0.get_or_insert_default();
        (times.since, times.place) = (Some(now), place);
    }

    fn end(&mut self, now: Time) {
        let before = self.total(now);
        if let Some(times) = &mut self.0 {
            **times = Times { before, ..Times::default() };
        }
    }

    pub(super) fn total(&self, now: Time) -> Span {
        let Some(times) = &self.0 else { return Span::ZERO };
        times.before + times.since.map_or(Span::ZERO, |since| now - since)
    }
}

/// How many calls can be held, by a call that has this place.
pub(super) fn room<K: Clock>(place: Option<&Place>) -> u32 {
    if place.is_some() { K::MOST_PARKED } else { 0 }
}

impl<R: Borrow<Retry<C>>, C, K: Clock> Session<R, C, K> {
    /// A place in case that the call parks; `None` if there is none, or if a test skips waits.
    pub(super) fn place(&self) -> Option<Place> {
        let limit = self.retry.borrow().park_limit.as_ref();
        testing::cap().is_none().then(|| ParkLimit::enter(limit)).flatten()
    }

    /// The call parks.
    #[cold]
    pub(super) fn hold(&mut self, place: Option<Place>, now: Time) {
        self.hold.begin(place, now);
        self.trace.parked();
    }

    /// Whether the call has to wait for its [turn](Self::ask) before the next attempt.
    pub(crate) fn is_parked(&self) -> bool {
        self.call.is_parked()
    }

    /// Asks for the turn of a parked call. Returns when to ask again, if `waker` is not woken before, and `None` when the
    /// call may go on.
    #[cold]
    pub(crate) fn ask<E>(
        &mut self,
        waker: &Waker,
        cause: &mut Option<E>,
    ) -> Result<Option<Deadline>, Error<E>> {
        let now = K::now();
        let cx = limited(self.retry.borrow(), self.number, self.barred);
        match self.call.unpark(&cx, waker, now) {
            Turn::Wait(until) => Ok(Some(until)),
            Turn::Stop(reason) => Err(self.error(reason, cause)),
            Turn::Go => {
                self.hold.end(now);
                self.trace.released(self.hold.total(now).into());
                Ok(None)
            }
        }
    }
}

#[cfg(feature = "http-client")]
impl<R: Borrow<Retry<C>>, C, K: Clock> Session<R, C, K> {
    /// For how long the call has been parked.
    pub(crate) fn parked(&self) -> Duration {
        if self.hold.was_parked() { self.hold.total(K::now()).into() } else { Duration::ZERO }
    }
}

#[cfg(feature = "tokio")]
impl<R: Borrow<Retry<C>>, C> Session<R, C, Tokio> {
    /// The first attempt, or the next one after a wait, when it is admitted.
    pub(crate) async fn admit<E>(&mut self, cause: &mut Option<E>) -> Result<Attempt, Error<E>> {
        loop {
            if self.is_parked() {
                Box::pin(self.turn(cause)).await?;
            }
            let is_new = self.call.attempts() == 0 && !self.hold.was_parked();
            let admitted = if is_new { self.first() } else { self.next(cause) };
            if let Some(attempt) = admitted? {
                return Ok(attempt);
            }
        }
    }

    /// Waits for the turn of the call, if it is parked.
    pub(crate) async fn turn<E>(&mut self, cause: &mut Option<E>) -> Result<(), Error<E>> {
        if !self.is_parked() {
            return Ok(());
        }
        let (mut sleep, mut at) = (pin!(None), None);
        poll_fn(|cx| {
            loop {
                let until = self.ask(cx.waker(), cause)?;
                let Some(until) = until else { return Poll::Ready(Ok(())) };
                if at != Some(until) {
                    sleep.set(timer(until));
                    at = Some(until);
                }
                match sleep.as_mut().as_pin_mut() {
                    Some(sleep) => ready!(sleep.poll(cx)),
                    None => return Poll::Pending,
                }
            }
        })
        .await
    }
}
