//! A request whose first attempt failed, or that is observed, hedged or holds a permit, needs more than a future
//! that passes a response through: a session that decides what follows, waits, further attempts, and the response or
//! error to return when no further attempt is made. All of that is one loop.

mod admit;

use std::convert::Infallible;
use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use http::{Request, Response};
use http_body::{Body, Frame};
use redial_core::decide::{Class, Failure, Outcome, Reach, Typed};
use redial_core::{NEVER, Nanos, Stop};
use tower_service::Service;

use super::answer::drop_body;
use super::future::Answered;
use super::outgoing::{self, Attempts, Outgoing};
use super::racer::{Racer, Relay};
use super::{Answer, BoxError, Error, Replay};
use crate::clock::{Clock as _, Tokio};
use crate::error::ErrorInner;
use crate::http::{grpc, reach, status};
use crate::race::{Next, Race};
use crate::retry::Retry;
use crate::run::{Inside, inside, sleep, within};
use crate::session::{Judged, Session, Step};
use crate::thread_state::drop_attempt;
use admit::First;

pub(super) struct Exchange<S: Service<Request<Replay<B>>>, B, R: Body> {
    service: S,
    outgoing: Outgoing<B>,
    session: Session<Retry, Typed, Tokio>,
    race: Race<Racer<S::Future, R>>,
    /// The result of the last attempt, while another one is awaited.
    last: Option<Last<R>>,
    /// Whether a refused gRPC stream was opened again.
    resent: bool,
    /// Whether an attempt that has ended may have been processed.
    maybe_processed: bool,
}

/// What the client below returned; `None` when the attempt was cut off.
pub(super) type Received<R> = Option<Result<Response<R>, BoxError>>;

/// What is returned to the caller if no further attempt is made.
enum Last<R: Body> {
    Response(Response<Answer<R>>),
    Error(BoxError),
}

impl<S, B, R> Exchange<S, B, R>
where
    S: Service<Request<Replay<B>>, Response = Response<R>, Error: Into<BoxError>> + Clone,
    B: Body<Error: Into<BoxError>> + Unpin,
    R: Body<Error: Into<BoxError>> + Unpin,
{
    pub(super) fn new(
        service: S,
        outgoing: Outgoing<B>,
        session: Session<Retry, Typed, Tokio>,
    ) -> Self {
        let (race, last) = (Race::new(), None);
        Self { service, outgoing, session, race, last, resent: false, maybe_processed: false }
    }

    /// Sends the attempt that was admitted last, inside its span.
    fn call(&mut self, mut request: Request<Replay<B>>) -> Inside<S::Future> {
        let current = self.session.current();
        if let Some(current) = &current {
            current.write(request.headers_mut());
        }
        inside(current, || self.service.call(request))
    }

    /// Awaits the first attempt, and everything after it.
    pub(super) async fn start(mut self, first: First<S::Future, B>) -> Answered<R> {
        let call = match self.first(first).await {
            Ok(call) => call,
            Err(answer) => return answer,
        };
        let received = self.receive(call).await;
        self.run(received).await
    }

    /// Continues a first attempt that is still pending when a hedge beside it is due.
    pub(super) async fn race(mut self, slow: Relay<R>) -> Answered<R> {
        self.update_session();
        self.race.start(&mut self.session, Racer::First(slow));
        let received = self.receive_next().await;
        self.run(received).await
    }

    /// Everything after the first attempt.
    pub(super) async fn run(mut self, received: Received<R>) -> Answered<R> {
        let Err(answer) = self.retry(received).await;
        answer
    }

    /// `Err` is the answer that ends the call, here and in the methods below that return it.
    async fn retry(&mut self, mut received: Received<R>) -> Result<Infallible, Answered<R>> {
        loop {
            let (outcome, last) = self.examine(received).await?;
            received = match self.settle(outcome, last)? {
                None => self.receive_next().await,
                Some(until) => {
                    sleep(until).await;
                    let request = self.next_request().await?;
                    let call = self.call(request);
                    self.receive(call).await
                }
            };
        }
    }

    /// Awaits an attempt, or another one that is sent beside it.
    async fn receive(&mut self, call: Inside<S::Future>) -> Received<R> {
        self.update_session();
        if self.session.hedge_at() == NEVER {
            let mut call = pin!(Some(call));
            let poll =
                poll_fn(|cx| call.as_mut().as_pin_mut().map_or(Poll::Pending, |it| it.poll(cx)));
            let result = within(poll, self.session.expires()).await;
            drop_attempt(result.is_none(), || call.set(None));
            return result.map(|result| result.map_err(Into::into));
        }
        self.race.start(&mut self.session, Racer::Call(Box::pin(call)));
        self.receive_next().await
    }

    /// Awaits the attempts in flight, and sends hedges beside them.
    async fn receive_next(&mut self) -> Received<R> {
        loop {
            if let Next::Ended(received) = self.race.next(&mut self.session).await {
                return received;
            }
            if !self.may_hedge() {
                self.race.stop_hedging();
            } else if let Some(call) = self.hedge().await {
                self.race.start(&mut self.session, Racer::Call(Box::pin(call)));
            }
        }
    }

    /// Whether repeating is safe, and the request allows another attempt beside the slow one.
    fn may_hedge(&mut self) -> bool {
        self.update_session();
        self.outgoing.can_hedge() && self.session.may_hedge()
    }

    /// Another attempt beside the slow one, if the client below is ready and the engine admits it.
    async fn hedge(&mut self) -> Option<Inside<S::Future>> {
        // Readiness that is not used is given back with the clone.
        let mut service = self.service.clone();
        let ready = poll_fn(|cx| Poll::Ready(service.poll_ready(cx))).await;
        if !matches!(ready, Poll::Ready(Ok(()))) {
            self.race.stop_hedging();
            return None;
        }
        let attempt = self.race.hedge(&mut self.session)?;
        let request = self.outgoing.again(attempt.number(), attempt.left())?;
        // The clone has the state of all attempts so far, and makes the next one.
        self.service = service;
        Some(self.call(request))
    }

    /// The outcome of an attempt that did not succeed, and what it left for the caller.
    async fn examine(
        &mut self,
        mut received: Received<R>,
    ) -> Result<(Outcome, Option<Last<R>>), Answered<R>> {
        loop {
            let cause = match received {
                None => return Ok(timed_out()),
                Some(Err(cause)) => cause,
                Some(Ok(response)) => {
                    let (outcome, mut response) = self.read(response);
                    if !matches!(outcome, Outcome::Success) || !self.should_peek(&response) {
                        return self.conclude(outcome, response.map(Answer::new));
                    }
                    let first = poll_fn(|cx| Pin::new(response.body_mut()).poll_frame(cx));
                    match within(first, self.session.expires()).await {
                        None => return Ok(timed_out()),
                        Some(None) => {
                            return self.conclude(Outcome::Success, response.map(Answer::new));
                        }
                        Some(Some(Ok(frame))) => {
                            let (outcome, response) = self.peeked(response, frame);
                            return self.conclude(outcome, response);
                        }
                        Some(Some(Err(error))) => error.into(),
                    }
                }
            };
            let failure = reach::failure(&*cause);
            if failure.class != Class::Refused || !self.may_resend() {
                return Ok((failure.into(), Some(Last::Error(cause))));
            }
            received = self.resend(failure).await?;
        }
    }

    fn read(&mut self, response: Response<R>) -> (Outcome, Response<R>) {
        self.session.responded(response.status().as_u16());
        self.outgoing.read(self.session.retry(), response)
    }

    fn should_peek(&self, response: &Response<R>) -> bool {
        self.session.others().is_empty() && self.outgoing.should_peek(response)
    }

    /// The outcome of a gRPC response by its first frame, which is put back.
    fn peeked(
        &self,
        response: Response<R>,
        frame: Frame<R::Data>,
    ) -> (Outcome, Response<Answer<R>>) {
        let (outcome, frame) = match frame.into_trailers() {
            Err(frame) => (Outcome::Success, frame),
            Ok(trailers) => {
                let outcome = match grpc::outcome(&trailers) {
                    // The response had begun, so the work may have, too.
                    Outcome::Failure(failure) if failure.class != Class::Throttled => {
                        failure.reach(Reach::Unknown).into()
                    }
                    outcome => outcome,
                };
                let retry = self.session.retry();
                (outgoing::with_hints(outcome, &trailers, retry), Frame::trailers(trailers))
            }
        };
        (outcome, response.map(|rest| Answer::new(rest).with_first(frame)))
    }

    fn conclude(
        &mut self,
        outcome: Outcome,
        response: Response<Answer<R>>,
    ) -> Result<(Outcome, Option<Last<R>>), Answered<R>> {
        match outcome {
            Outcome::Success => Err(Ok(self.succeed(response))),
            outcome => Ok((outcome, Some(Last::Response(response)))),
        }
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

    /// gRPC's transparent retry: a stream that the server refused, or never saw, is opened again once in a
    /// call, as the same attempt.
    fn may_resend(&self) -> bool {
        let Self { outgoing, session, resent, .. } = self;
        outgoing.grpc && !resent && session.others().is_empty() && !outgoing.is_lost()
    }

    async fn resend(&mut self, failure: Failure) -> Result<Received<R>, Answered<R>> {
        self.resent = true;
        self.outgoing.rewind();
        let (number, expires) = (self.session.number(), self.session.expires());
        self.session.trace_mut().ended(number, &failure.into(), Tokio::now());
        let is_ready = self.ready_by(expires).await?;
        let request = self.outgoing.again(number, expires.saturating_sub(Tokio::now()));
        let Some(request) = request.filter(|_| is_ready) else { return Ok(None) };
        self.session.trace_mut().resent(number, Tokio::now());
        let call = self.call(request);
        Ok(self.receive(call).await)
    }

    /// Decides what follows an attempt that did not succeed: a wait until then, or another attempt that is in
    /// flight. During a wait no response is held.
    fn settle(
        &mut self,
        outcome: Outcome,
        last: Option<Last<R>>,
    ) -> Result<Option<Nanos>, Answered<R>> {
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
            Step::InFlight => {
                self.race.stop_hedging();
                Ok(None)
            }
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
        self.maybe_processed() && (conflict || grpc::is_conflict(failure.code))
    }

    /// Whether the client below became ready by then.
    async fn ready_by(&mut self, until: Nanos) -> Result<bool, Answered<R>> {
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
        session.barred = self.outgoing.barred(session.retry());
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

fn timed_out<R: Body>() -> (Outcome, Option<Last<R>>) {
    (Failure::new(Class::Timeout).into(), None)
}
