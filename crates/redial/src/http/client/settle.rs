//! What follows an attempt.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response, header};
use http_body::{Body, Frame};
use redial_core::Stop;
use redial_core::decide::{Class, Failure, Outcome, Reach};
use tower_service::Service;

use super::future::{Answered, Last, ResponseFuture, State};
use super::layer::Options;
use super::lead::Lead;
use super::outgoing::{self, Attempts, Outgoing};
use super::{Answer, BoxError, Error, Replay};
use crate::clock::{Clock as _, Tokio};
use crate::http::{grpc, names, reach, status};
use crate::session::{Brought, Step};

impl<S, B, R> ResponseFuture<S, B, R>
where
    S: Service<Request<Replay<B>>, Response = Response<R>, Error: Into<BoxError>> + Clone,
    B: Body<Error: Into<BoxError>> + Unpin,
    R: Body<Error: Into<BoxError>> + Unpin,
{
    #[cold]
    pub(super) fn responded(
        mut self: Pin<&mut Self>,
        response: Response<R>,
    ) -> Option<Answered<R>> {
        let this = self.as_mut().project();
        this.lead.responded(response.status().as_u16());
        if response.status().as_u16() < 400 && !*this.grpc && this.options.judge.is_none() {
            return Some(Ok(self.succeed(response.map(Answer::new))));
        }
        let Some(retry) = this.lead.retry(this.options) else {
            return Some(Ok(self.succeed(response.map(Answer::new))));
        };
        let keyed = this.kept.as_ref().is_some_and(Outgoing::is_keyed);
        let (outcome, response) = outgoing::read(this.options, retry, response, *this.grpc, keyed);
        match outcome {
            Outcome::Success if *this.grpc && self.should_peek(&response) => {
                self.project().state.set(State::Peeking { response: Some(response) });
                None
            }
            Outcome::Success => Some(Ok(self.succeed(response.map(Answer::new)))),
            outcome => self.settle(outcome, Some(Last::Response(response.map(Answer::new)))),
        }
    }

    /// Whether the status may follow in trailers at once. While the request is being sent, the response may
    /// be waiting for the rest of it.
    fn should_peek(&self, response: &Response<R>) -> bool {
        self.options.trailers
            && self.race.as_ref().is_none_or(|race| race.is_over())
            && !response.headers().contains_key(names::GRPC_STATUS)
            && self.kept.as_ref().is_some_and(|kept| kept.is_sent())
    }

    pub(super) fn peeked(
        self: Pin<&mut Self>,
        response: Response<R>,
        frame: Option<Result<Frame<R::Data>, R::Error>>,
    ) -> Option<Answered<R>> {
        let response = response.map(Answer::new);
        let trailers = match frame {
            Some(Ok(frame)) => match frame.into_trailers() {
                Ok(trailers) => trailers,
                Err(frame) => {
                    return Some(Ok(self.succeed(response.map(|rest| rest.with_first(frame)))));
                }
            },
            Some(Err(error)) => return self.failed(error.into()),
            None => return Some(Ok(self.succeed(response))),
        };
        let outcome = match grpc::outcome(&trailers) {
            // The response had begun, so the work may have, too.
            Outcome::Failure(failure) if failure.class != Class::Throttled => {
                failure.reach(Reach::Unknown).into()
            }
            outcome => outcome,
        };
        let outcome = match self.lead.retry(&self.options) {
            Some(retry) => outgoing::with_hints(outcome, &trailers, retry),
            None => outcome,
        };
        let response = response.map(|rest| rest.with_first(Frame::trailers(trailers)));
        match outcome {
            Outcome::Success => Some(Ok(self.succeed(response))),
            outcome => self.settle(outcome, Some(Last::Response(response))),
        }
    }

    #[cold]
    pub(super) fn failed(mut self: Pin<&mut Self>, cause: BoxError) -> Option<Answered<R>> {
        if matches!(self.lead, Lead::Alone) {
            self.project().state.set(State::Over);
            return Some(Err(Error::of_the_only_attempt(cause)));
        }
        let failure = reach::failure(&*cause);
        if failure.class == Class::Refused && self.may_send_anew() {
            self.as_mut().project().lead.turned_away(failure);
            self.as_mut().send_anew();
            return None;
        }
        self.settle(failure.into(), Some(Last::Error(cause)))
    }

    /// gRPC's transparent retry: a stream that the server refused, or never looked at, is opened anew once in a
    /// call, as the same attempt.
    fn may_send_anew(&self) -> bool {
        let raceless = self.race.as_ref().is_none_or(|race| race.is_over());
        let kept = self.kept.as_ref().is_some_and(|kept| !kept.is_lost());
        self.grpc && !self.anew && raceless && kept
    }

    fn send_anew(self: Pin<&mut Self>) {
        let mut this = self.project();
        *this.anew = true;
        if let Some(kept) = this.kept {
            kept.rewind();
        }
        this.state.set(State::Readying { anew: true });
    }

    /// Whether the client below is ready, and what follows. Time that runs out meanwhile is the engine's to
    /// judge before an attempt, and the attempt's own when it goes out anew.
    #[cold]
    pub(super) fn poll_below(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        anew: bool,
    ) -> Poll<Option<Answered<R>>> {
        let ready = match self.as_mut().project().service.poll_ready(cx) {
            Poll::Ready(Err(error)) => return Poll::Ready(Some(self.broken(error.into()))),
            Poll::Ready(Ok(())) => true,
            Poll::Pending => {
                ready!(self.as_mut().poll_timer(cx));
                false
            }
        };
        Poll::Ready(match (anew, ready) {
            (false, _) => self.resend(),
            (true, true) => {
                self.call_anew();
                None
            }
            (true, false) => self.cut_off(),
        })
    }

    fn call_anew(self: Pin<&mut Self>) {
        let mut this = self.project();
        let left = this.until.saturating_sub(Tokio::now());
        if let Some(kept) = this.kept {
            let request = kept.again(this.options, this.lead.attempts(), left, *this.grpc);
            this.lead.anew();
            let state = this.lead.send(this.service, request);
            this.state.set(state);
        }
    }

    #[cold]
    pub(super) fn cut_off(self: Pin<&mut Self>) -> Option<Answered<R>> {
        self.settle(Failure::new(Class::Timeout).into(), None)
    }

    #[cold]
    fn succeed(mut self: Pin<&mut Self>, response: Response<Answer<R>>) -> Response<Answer<R>> {
        let mut this = self.as_mut().project();
        this.state.set(State::Over);
        *this.race = None;
        let attempts = this.lead.win(this.options);
        *this.lead = Lead::Alone;
        match attempts {
            1 => response,
            attempts => reported(this.options, response, Attempts::new(attempts, None, false)),
        }
    }

    /// Decides what follows an attempt that did not succeed. Nothing of it is held during a wait.
    #[cold]
    fn settle(
        mut self: Pin<&mut Self>,
        outcome: Outcome,
        brought: Option<Last<R>>,
    ) -> Option<Answered<R>> {
        let this = self.as_mut().project();
        let session = this.lead.session(this.options)?;
        match this.kept {
            Some(kept) => {
                session.barred = kept.barred(session.retry());
                session.retry_mut().know(kept.safety());
            }
            None => {
                session.barred = Some(Stop::Body);
                session.retry_mut().know(*this.safety);
            }
        }
        let mut echo = false;
        if let Outcome::Failure(failure) = outcome {
            let refused = match &brought {
                Some(Last::Response(response)) => status::is_conflict(response.status()),
                _ => false,
            };
            echo = (*this.unanswered || session.has_aside())
                && (refused || grpc::is_conflict(failure.code));
            *this.unanswered |=
                failure.reach == Reach::Unknown && failure.class != Class::Permanent;
        }
        // An attempt that was cut off says more about now than an earlier response.
        if brought.is_none() && matches!(this.last.as_deref(), Some(Last::Response(_))) {
            *this.last = None;
        }
        let mut brought = brought.map(Box::new);
        if matches!(outcome, Outcome::NotYet(_)) && session.barred == Some(Stop::Body) {
            let error = session.end(Stop::Body, &mut brought);
            return Some(self.give_up(error, false));
        }
        match session.settle(Brought::<Infallible, _>::Failure(outcome, brought), this.last) {
            Step::Return(Err(error)) => Some(self.give_up(error, echo)),
            Step::Return(Ok(never)) => match never {},
            Step::WaitUntil(until) => {
                if let Some(kept) = this.kept {
                    kept.rewind();
                }
                if let Some(Last::Response(response)) = this.last.as_deref_mut() {
                    let_go(response);
                }
                *this.race = None;
                self.as_mut().set_timer(until);
                self.project().state.set(State::Waiting);
                None
            }
            Step::InFlight => {
                if let Some(race) = this.race {
                    race.stop_hedging();
                }
                None
            }
        }
    }

    /// Asks the engine once more, then sends.
    #[cold]
    fn resend(mut self: Pin<&mut Self>) -> Option<Answered<R>> {
        let this = self.as_mut().project();
        let session = this.lead.session(this.options)?;
        let Some(kept) = this.kept.as_ref().filter(|kept| !kept.is_lost()) else {
            let error = session.end(Stop::Body, this.last);
            return Some(self.give_up(error, false));
        };
        session.barred = kept.barred(session.retry());
        let attempt = match session.next(this.last) {
            Ok(attempt) => attempt,
            Err(error) => return Some(self.give_up(error, false)),
        };
        let request = kept.again(this.options, attempt.number(), attempt.left(), *this.grpc);
        let state = this.lead.send(this.service, request);
        self.as_mut().set_timer(attempt.expires);
        self.project().state.set(state);
        None
    }

    #[cold]
    fn give_up(
        mut self: Pin<&mut Self>,
        error: crate::Error<Box<Last<R>>>,
        echo: bool,
    ) -> Answered<R> {
        let mut this = self.as_mut().project();
        this.state.set(State::Over);
        *this.race = None;
        *this.lead = Lead::Alone;
        let (attempts, reason) = (error.attempts(), error.reason());
        let mut story = error.into_story();
        let cause = match story.cause.take().map(|last| *last) {
            Some(Last::Response(response)) => {
                let attempts = Attempts::new(attempts, Some(reason), echo);
                return Ok(reported(this.options, response, attempts));
            }
            Some(Last::Error(cause)) => Some(cause),
            None => None,
        };
        Err(story.with_cause(cause).into())
    }

    #[cold]
    fn broken(mut self: Pin<&mut Self>, cause: BoxError) -> Answered<R> {
        let mut this = self.as_mut().project();
        this.state.set(State::Over);
        Err(match this.lead.session(this.options) {
            Some(session) => session.end(Stop::Permanent, &mut Some(cause)).into(),
            None => Error::before_any_attempt(cause),
        })
    }
}

/// Keeps of a response what holds no connection, and nothing that speaks of the body it had.
fn let_go<R: Body>(response: &mut Response<Answer<R>>) {
    response.body_mut().let_go();
    let headers = response.headers_mut();
    for name in [
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::CONTENT_ENCODING,
        header::CONTENT_RANGE,
        header::TRAILER,
    ] {
        headers.remove(name);
    }
}

#[cold]
fn reported<R: Body>(
    options: &Options,
    mut response: Response<Answer<R>>,
    attempts: Attempts,
) -> Response<Answer<R>> {
    outgoing::report(options, &mut response, attempts);
    response
}
