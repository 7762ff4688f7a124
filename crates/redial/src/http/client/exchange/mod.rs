//! A client that retries sends a request, and decides by what came back: a response to return, a wait and another attempt, or
//! an error. All of that is one loop, in one box.
//!
//! Most requests succeed at their first attempt, on the [fast path](crate::fast). Every other one needs a session that decides what
//! follows, and an [`Exchange`] with what all of its attempts share.

mod admit;
mod examine;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use redial_core::decide::{Outcome, Reach, Typed};
use redial_core::{Deadline, Stop, Time};
use tower_service::Service;

use super::answer::drop_body;
use super::future::Answered;
use super::outgoing::{Attempts, Outgoing, Prepared, Times};
use super::{Answer, BoxError, Error, Replay};
use crate::Stripe;
use crate::clock::Tokio;
use crate::error::ErrorInner;
use crate::fast::FastAttempt;
use crate::http::{grpc, status};
use crate::inside::{Inside, inside};
use crate::race::{Next, Race, Racer};
use crate::retry::Retry;
use crate::run::Apart;
use crate::session::{Judged, Session, Step, limited};
use crate::thread_state::drop_attempt;
use crate::timer::{Within, sleep, within};
use examine::Examined;

/// Sends a request, and sends it again until it succeeds or the call has to end. This future is small, because a call that succeeds at
/// once needs no more; what the others need is in a box of its own.
#[inline(always)]
pub(super) fn exchange<S, B, R>(
    mut service: S,
    prepared: Prepared<B>,
) -> impl Future<Output = Answered<R>>
where
    S: Service<Request<Replay<B>>, Response = Response<R>, Error: Into<BoxError>> + Clone,
    B: Body<Error: Into<BoxError>> + Unpin,
    R: Body<Error: Into<BoxError>> + Unpin,
{
    let Prepared { request, outgoing, times } = prepared;
    async move {
        let mut slot = pin!(None);
        let first =
            if let Some(mut fast) = FastAttempt::admit(outgoing.retry(), times.now, times.latest) {
                slot.set(Some(Inside::new(service.call(request), None)));
                let until = || hedge_at(&outgoing, &fast).min(times.expires);
                match Within::new(poll_fn(|cx| poll_in_place(slot.as_mut(), cx)), until).await {
                    Some(Ok(response)) if outgoing.is_success(&response) => {
                        fast.succeed(outgoing.retry());
                        return Ok(outgoing.count(response, 1).map(Answer::new));
                    }
                    received => {
                        First::Sent(fast.hand_over(outgoing.retry().unkeyed()), boxed(received))
                    }
                }
            } else {
                First::Waiting(request, times)
            };
        Box::pin(Apart { call: Exchange::run(service, outgoing, slot, first) }).await
    }
}

/// The first attempt of a call that needs more.
#[allow(clippy::large_enum_variant, reason = "it is moved once, into the box of the call")]
enum First<B, R> {
    /// It was sent on the fast path.
    Sent(Session<Retry, Typed, Tokio>, Received<R>),
    Waiting(Request<Replay<B>>, Times),
}

/// When a hedge beside a first attempt on the fast path is due.
#[cold]
fn hedge_at<B>(outgoing: &Outgoing<B>, fast: &FastAttempt<&Arc<Stripe>, Tokio>) -> Deadline {
    let mut cx = limited(outgoing.retry(), None, outgoing.barred());
    cx.request.safety = outgoing.safety().unwrap_or(cx.request.safety);
    fast.hedge_at(&cx)
}

/// What all attempts of a call share.
struct Exchange<S, B, R: Body> {
    service: S,
    outgoing: Outgoing<B>,
    session: Session<Retry, Typed, Tokio>,
    /// The result of the last attempt, while another one is awaited.
    last: Option<Last<R>>,
    /// Whether a refused gRPC stream was opened again.
    resent: bool,
    /// Whether an attempt that has ended may have been processed.
    maybe_processed: bool,
}

/// Where an attempt is polled. It is emptied when the attempt is cut off.
type Slot<'a, F> = Pin<&'a mut Option<Inside<F>>>;

/// An attempt of a race that empties its place when it is dropped.
struct InPlace<'a, F>(Pin<&'a mut Option<F>>);

impl<F> Drop for InPlace<'_, F> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl<F: Future> Future for InPlace<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        poll_in_place(self.0.as_mut(), cx)
    }
}

#[inline(always)]
fn poll_in_place<F: Future>(place: Pin<&mut Option<F>>, cx: &mut Context<'_>) -> Poll<F::Output> {
    place.as_pin_mut().map_or(Poll::Pending, |attempt| attempt.poll(cx))
}

/// The attempts that are in flight together.
type InFlight<'a, F> = Race<Racer<InPlace<'a, Inside<F>>, Inside<F>>>;

/// What the client below returned; `None` when a hedge beside the attempt is due, or when it is cut off.
type Received<R> = Option<Result<Response<R>, BoxError>>;

/// What is returned to the caller if no further attempt is made.
enum Last<R: Body> {
    Response(Response<Answer<R>>),
    Error(BoxError),
}

/// `Err` is the answer that ends the call, in all methods that return it.
impl<S, B, R> Exchange<S, B, R>
where
    S: Service<Request<Replay<B>>, Response = Response<R>, Error: Into<BoxError>> + Clone,
    B: Body<Error: Into<BoxError>> + Unpin,
    R: Body<Error: Into<BoxError>> + Unpin,
{
    fn new(service: S, outgoing: Outgoing<B>, session: Session<Retry, Typed, Tokio>) -> Self {
        Self { service, outgoing, session, last: None, resent: false, maybe_processed: false }
    }

    /// The loop.
    async fn run(
        service: S,
        outgoing: Outgoing<B>,
        mut slot: Slot<'_, S::Future>,
        first: First<B, R>,
    ) -> Answered<R> {
        let (mut exchange, mut received) = match first {
            First::Sent(session, received) => (Self::new(service, outgoing, session), received),
            First::Waiting(request, times) => {
                let mut exchange = Self::start(service, outgoing, &times, &request);
                match exchange.first(slot.as_mut(), request).await {
                    Ok(received) => (exchange, received),
                    Err(answer) => return answer,
                }
            }
        };
        loop {
            match exchange.next(slot.as_mut(), received).await {
                Ok(request) => received = exchange.send(slot.as_mut(), request).await,
                Err(answer) => return answer,
            }
        }
    }

    /// Starts the attempt that was admitted last, inside its span.
    fn call(&mut self, mut request: Request<Replay<B>>) -> Inside<S::Future> {
        let current = self.session.current();
        if let Some(current) = &current {
            current.write(request.headers_mut());
        }
        inside(current, || self.service.call(request))
    }

    /// Sends the attempt that was admitted last. `None` when a hedge beside it is due, or when it is cut off.
    async fn send(
        &mut self,
        mut slot: Slot<'_, S::Future>,
        request: Request<Replay<B>>,
    ) -> Received<R> {
        slot.set(Some(self.call(request)));
        self.update_session();
        let until = self.session.until(true);
        boxed(within(poll_fn(|cx| poll_in_place(slot.as_mut(), cx)), until).await)
    }

    /// The request of the next attempt, after everything between the two: hedges beside the last one, and a wait.
    async fn next(
        &mut self,
        mut slot: Slot<'_, S::Future>,
        mut received: Received<R>,
    ) -> Result<Request<Replay<B>>, Answered<R>> {
        let mut race = Race::new();
        if received.is_none() && !self.session.is_expired() && !self.may_hedge() {
            let attempt = poll_fn(|cx| poll_in_place(slot.as_mut(), cx));
            received = boxed(within(attempt, self.session.expires()).await);
        }
        if received.is_none() && !self.session.is_expired() {
            race.start(&mut self.session, Racer::Slow(InPlace(slot)));
            received = self.receive(&mut race).await;
        } else {
            let timed_out = received.is_none() && !self.outgoing.waits_for_caller();
            drop_attempt(timed_out, || slot.set(None));
        }
        loop {
            let (outcome, last) = match self.examine(received).await? {
                Examined::Failed(outcome, last) => (outcome, last),
                Examined::Resend(request) => return Ok(request),
            };
            if let Some(until) = self.settle(outcome, last)? {
                sleep(until).await;
                return self.next_request().await;
            }
            race.stop_hedging();
            received = self.receive(&mut race).await;
        }
    }

    /// Awaits the attempts in flight, and sends hedges beside them.
    async fn receive(&mut self, race: &mut InFlight<'_, S::Future>) -> Received<R> {
        loop {
            if let Next::Ended(received) = race.next(&mut self.session).await {
                return boxed(received);
            }
            if !self.may_hedge() {
                race.stop_hedging();
            } else if let Some(call) = self.hedge(race).await {
                race.start(&mut self.session, Racer::Hedge(Box::pin(call)));
            }
        }
    }

    /// Whether repeating is safe, and the request allows another attempt beside the slow one.
    fn may_hedge(&mut self) -> bool {
        self.update_session();
        self.outgoing.can_hedge() && self.session.may_hedge()
    }

    /// Another attempt beside the slow one, if the client below is ready and the engine admits it.
    async fn hedge(&mut self, race: &mut InFlight<'_, S::Future>) -> Option<Inside<S::Future>> {
        // Readiness that is not used is given back with the clone.
        let mut service = self.service.clone();
        let ready = poll_fn(|cx| Poll::Ready(service.poll_ready(cx))).await;
        if !matches!(ready, Poll::Ready(Ok(()))) {
            race.stop_hedging();
            return None;
        }
        let attempt = race.hedge(&mut self.session)?;
        let request = self.outgoing.again(attempt.number(), attempt.left())?;
        // The clone has the state of all attempts so far, and makes the next one.
        self.service = service;
        Some(self.call(request))
    }

    fn succeed(&mut self, response: Response<Answer<R>>) -> Response<Answer<R>> {
        self.session.succeed();
        let parked = self.session.parked();
        match self.session.attempts() {
            1 if parked.is_zero() => self.outgoing.count(response, 1),
            made => {
                let attempts = Attempts::new(made, None, false).parked_for(parked);
                self.outgoing.report(response, attempts)
            }
        }
    }

    /// Decides what follows an attempt that did not succeed: a wait until then, or another attempt that is in
    /// flight. During a wait no response is held.
    fn settle(
        &mut self,
        outcome: Outcome,
        last: Option<Last<R>>,
    ) -> Result<Option<Time>, Answered<R>> {
        self.update_session();
        let maybe_applied = self.is_own_conflict(&outcome, last.as_ref());
        self.maybe_processed |= match outcome {
            Outcome::Failure(failure) => failure.reach == Reach::Unknown,
            _ => true,
        };
        // An attempt that was cut off says more about the present than an earlier response.
        if last.is_none() && matches!(self.last, Some(Last::Response(_))) {
            self.last = None;
        }
        let session = &mut self.session;
        if matches!(outcome, Outcome::NotYet(_)) && session.barred == Some(Stop::Body) {
            let error = session.end(Stop::Body, &mut { last });
            return Err(self.give_up(error, false));
        }
        match session.settle(Judged::<Infallible, _>::Failure(outcome, last), &mut self.last) {
            Step::Return(Err(error)) => Err(self.give_up(error, maybe_applied)),
            Step::Return(Ok(never)) => match never {},
            Step::InFlight => Ok(None),
            Step::WaitUntil(until) => {
                self.outgoing.rewind();
                if let Some(Last::Response(response)) = &mut self.last {
                    drop_body(response);
                }
                Ok(Some(until))
            }
        }
    }

    /// Whether a refusal may be caused by an earlier attempt of this call that was processed after all.
    fn is_own_conflict(&self, outcome: &Outcome, last: Option<&Last<R>>) -> bool {
        let Outcome::Failure(failure) = outcome else { return false };
        let conflict = match last {
            Some(Last::Response(response)) => status::is_conflict(response.status()),
            _ => false,
        };
        self.maybe_processed() && (conflict || failure.code.is_some_and(grpc::is_conflict))
    }

    /// Whether the client below became ready by then.
    async fn ready_by(&mut self, until: Deadline) -> Result<bool, Answered<R>> {
        match within(poll_fn(|cx| self.service.poll_ready(cx)), until).await {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(error)) => {
                let cause = &mut Some(error.into());
                let error = Error::from(self.session.end(Stop::Permanent, cause));
                Err(Err(error.with_processed(self.maybe_processed())))
            }
        }
    }

    /// What the request says about being repeated, for the session.
    fn update_session(&mut self) {
        let session = &mut self.session;
        session.barred = self.outgoing.barred();
        session.retry_mut().set_safety(self.outgoing.safety());
    }

    fn give_up(&self, error: crate::Error<Last<R>>, maybe_applied: bool) -> Answered<R> {
        let ErrorInner { ending, cause } = error.into_parts();
        let cause = match cause {
            Some(Last::Response(response)) => {
                let attempts = Attempts::new(ending.attempts, Some(ending.reason), maybe_applied);
                return Ok(self.outgoing.report(response, attempts.parked_for(ending.parked)));
            }
            Some(Last::Error(cause)) => Some(cause),
            None => None,
        };
        Err(Error::from(ErrorInner { ending, cause }).with_processed(self.maybe_processed()))
    }

    /// Whether any attempt may have been processed, those in flight included.
    fn maybe_processed(&self) -> bool {
        self.maybe_processed || !self.session.others().is_empty()
    }
}

fn boxed<R>(received: Option<Result<Response<R>, impl Into<BoxError>>>) -> Received<R> {
    received.map(|result| result.map_err(Into::into))
}
