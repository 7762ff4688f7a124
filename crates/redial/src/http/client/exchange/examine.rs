//! What came back from an attempt. The status of a gRPC response may be in the first frame of its body, and a refused stream is
//! opened again.

use std::future::poll_fn;
use std::pin::Pin;

use http::{Request, Response};
use http_body::{Body, Frame};
use redial_core::decide::{Class, Failure, Outcome, Reach};
use tower_service::Service;

use super::super::future::Answered;
use super::super::{Answer, BoxError, Replay, SlowBody};
use super::{Exchange, Last, Received};
use crate::clock::{Clock as _, Tokio};
use crate::http::{grpc, reach};
use crate::timer::within;

/// An attempt that did not succeed.
pub(super) enum Examined<B, R: Body> {
    Failed(Outcome, Option<Last<R>>),
    /// The request is sent again, as the same attempt.
    Resend(Request<Replay<B>>),
}

impl<S, B, R> Exchange<S, B, R>
where
    S: Service<Request<Replay<B>>, Response = Response<R>, Error: Into<BoxError>> + Clone,
    B: Body<Error: Into<BoxError>> + Unpin,
    R: Body<Error: Into<BoxError>> + Unpin,
{
    /// The outcome of an attempt that did not succeed, and what it left for the caller.
    pub(super) async fn examine(
        &mut self,
        received: Received<R>,
    ) -> Result<Examined<B, R>, Answered<R>> {
        let cause = match received {
            // What the caller has not sent says nothing about the server.
            None if self.outgoing.waits_for_caller() => {
                let failure = Failure::new(Class::Cancelled);
                return Ok(Examined::Failed(failure.into(), Some(Last::Error(SlowBody.into()))));
            }
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
            return Ok(Examined::Failed(failure.into(), Some(Last::Error(cause))));
        }
        self.resend(failure).await
    }

    fn read(&mut self, response: Response<R>) -> (Outcome, Response<R>) {
        self.session.responded(response.status().as_u16());
        self.outgoing.read(response)
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
                (self.outgoing.with_hints(outcome, &trailers), Frame::trailers(trailers))
            }
        };
        (outcome, response.map(|rest| Answer::new(rest).with_first(frame)))
    }

    fn conclude(
        &mut self,
        outcome: Outcome,
        response: Response<Answer<R>>,
    ) -> Result<Examined<B, R>, Answered<R>> {
        match outcome {
            Outcome::Success => Err(Ok(self.succeed(response))),
            outcome => Ok(Examined::Failed(outcome, Some(Last::Response(response)))),
        }
    }

    /// gRPC's transparent retry: a stream that the server refused, or never saw, is opened again once in a
    /// call, as the same attempt.
    fn may_resend(&self) -> bool {
        let Self { outgoing, session, resent, .. } = self;
        outgoing.grpc && !resent && session.others().is_empty() && !outgoing.is_lost()
    }

    async fn resend(&mut self, failure: Failure) -> Result<Examined<B, R>, Answered<R>> {
        self.resent = true;
        self.outgoing.rewind();
        let (number, expires) = (self.session.number(), self.session.expires());
        self.session.trace_mut().ended(number, &failure.into(), Tokio::now());
        let is_ready = self.ready_by(expires).await?;
        let request = self.outgoing.again(number, expires.left(Tokio::now()));
        let Some(request) = request.filter(|_| is_ready) else { return Ok(timed_out()) };
        self.session.trace_mut().resent(number, Tokio::now());
        Ok(Examined::Resend(request))
    }
}

fn timed_out<B, R: Body>() -> Examined<B, R> {
    Examined::Failed(Failure::new(Class::Timeout).into(), None)
}
