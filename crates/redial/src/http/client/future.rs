use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http::{Method, Request, Response, header};
use http_body::{Body, Frame};
use pin_project_lite::pin_project;
use redial_core::decide::{Class, Failure, Outcome, Reach, Safety, Typed};
use redial_core::{NEVER, Nanos, Stop};
use tokio::time::Sleep;
use tower_service::Service;

use super::layer::{Options, Whose};
use super::outgoing::{self, Attempts, Outgoing};
use super::{Answer, BoxError, Error, Replay, RetryLayer};
use crate::clock::{Clock as _, Tokio};
use crate::http::{grpc, names, reach, status, travel};
use crate::retry::Retry;
use crate::run::timer;
use crate::session::{Brought, Passed, Session, Step};

pin_project! {
    /// A request that is repeated if need be.
    pub struct ResponseFuture<S, B, R>
    where
        S: Service<Request<Replay<B>>>,
        R: Body,
    {
        service: S,
        options: Arc<Options>,
        lead: Lead,
        kept: Option<Outgoing<B>>,
        // What the request said about being done twice, when nothing of it is kept.
        safety: Option<Safety>,
        // What the last attempt brought, while another one is awaited.
        last: Option<Box<Last<R>>>,
        grpc: bool,
        // Whether an attempt ended without anybody knowing what became of it.
        unanswered: bool,
        // When the attempt, or the wait, is over.
        until: Nanos,
        #[pin]
        timer: Option<Sleep>,
        #[pin]
        state: State<S::Future, R>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R> {
        Calling { #[pin] call: F },
        // A gRPC response whose first frame may be its last.
        Peeking { response: Option<Response<R>> },
        Waiting,
        // The wait is over, and the client below is asked whether it is ready.
        Readying,
        Over,
    }
}

/// Who decides what follows.
enum Lead {
    /// Nobody: the request is left alone.
    Alone,
    /// The first attempt went the short way, and the call ends by then.
    Light(Whose, Passed, Nanos),
    /// Not within the future: most requests never have one, and all would have to carry its size.
    Full(Box<Session<Retry, Typed, Tokio>>),
    /// The first attempt was refused.
    Refused(Option<Error>),
}

/// What an attempt brought.
enum Last<R: Body> {
    Response(Response<Answer<R>>),
    Error(BoxError),
}

impl<S, B, R> ResponseFuture<S, B, R>
where
    S: Service<Request<Replay<B>>, Response = Response<R>>,
    B: Body + Unpin,
    B::Error: Into<BoxError>,
    R: Body,
{
    /// Admits the first attempt and sends it.
    #[inline(always)]
    pub(super) fn new(mut service: S, layer: &RetryLayer, request: Request<B>) -> Self {
        let options = Arc::clone(&layer.0);
        let (mut parts, body) = request.into_parts();
        let whose = options.find(&parts);
        let Some(retry) = whose.as_ref().and_then(|whose| whose.retry(&options)) else {
            return Self::alone(service, options, parts, body);
        };
        let grpc = parts.method == Method::POST && travel::is_grpc(&parts.headers);
        outgoing::write_key(&options, retry, &mut parts);
        let (body, tape) = outgoing::keep(&options, retry, body);
        let safety = if tape.is_some() { None } else { outgoing::safety_of(&parts) };
        let kept = match tape {
            Some(body) => Some(Outgoing { parts: parts.clone(), body }),
            None => None,
        };
        let mut request = Request::from_parts(parts, body);

        let (now, mut latest) = (Tokio::now(), retry.latest());
        let mut until = retry.expiry(now, latest);
        let headers = request.headers_mut();
        if let Some(left) = outgoing::stamp(&options, headers, until.saturating_sub(now), 1, grpc) {
            latest = latest.min(now.saturating_add(left));
            until = retry.expiry(now, latest);
            outgoing::stamp(&options, headers, until.saturating_sub(now), 1, grpc);
        }
        let passed = retry.pass_unkeyed(now, latest);
        let lead = match whose {
            Some(whose) if passed => Lead::Light(whose, Passed::at(now), latest),
            _ => Lead::full(retry, now, latest),
        };
        let state = match lead {
            Lead::Refused(_) => State::Over,
            _ => State::Calling { call: service.call(request) },
        };
        let (last, unanswered, timer) = (None, false, None);
        Self { service, options, lead, kept, safety, last, grpc, unanswered, until, timer, state }
    }

    #[cold]
    fn alone(mut service: S, options: Arc<Options>, parts: Parts, body: B) -> Self {
        let call = service.call(Request::from_parts(parts, Replay::once(body)));
        Self {
            service,
            options,
            lead: Lead::Alone,
            kept: None,
            safety: None,
            last: None,
            grpc: false,
            unanswered: false,
            until: NEVER,
            timer: None,
            state: State::Calling { call },
        }
    }
}

type Answered<R> = Result<Response<Answer<R>>, Error>;

impl<S, B, R> Future for ResponseFuture<S, B, R>
where
    S: Service<Request<Replay<B>>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    B: Body + Unpin,
    B::Error: Into<BoxError>,
    R: Body + Unpin,
{
    type Output = Answered<R>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut this = self.as_mut().project();
            let done = match this.state.as_mut().project() {
                StateProj::Calling { call } => match call.poll(cx) {
                    Poll::Ready(Ok(response)) => {
                        // Most requests end here.
                        let plain = response.status().as_u16() < 400 && !*this.grpc;
                        if plain && this.lead.passed(this.options) {
                            return Poll::Ready(Ok(response.map(Answer::new)));
                        }
                        self.as_mut().responded(response)
                    }
                    Poll::Ready(Err(error)) => self.as_mut().failed(error.into()),
                    Poll::Pending => {
                        ready!(self.as_mut().poll_timer(cx));
                        self.as_mut().cut_off()
                    }
                },
                StateProj::Peeking { response } => {
                    let Some(peeked) = response else { return Poll::Pending };
                    match Pin::new(peeked.body_mut()).poll_frame(cx) {
                        Poll::Ready(frame) => match response.take() {
                            Some(response) => self.as_mut().peeked(response, frame),
                            None => None,
                        },
                        Poll::Pending => {
                            ready!(self.as_mut().poll_timer(cx));
                            self.as_mut().cut_off()
                        }
                    }
                }
                StateProj::Waiting => {
                    let deadline = this.lead.deadline();
                    ready!(self.as_mut().poll_timer(cx));
                    self.as_mut().set_timer(deadline);
                    self.as_mut().project().state.set(State::Readying);
                    None
                }
                StateProj::Readying => match this.service.poll_ready(cx) {
                    Poll::Pending => {
                        ready!(self.as_mut().poll_timer(cx));
                        self.as_mut().resend()
                    }
                    Poll::Ready(Ok(())) => self.as_mut().resend(),
                    Poll::Ready(Err(error)) => Some(self.as_mut().broken(error.into())),
                },
                StateProj::Over => match this.lead {
                    Lead::Refused(error) => error.take().map(Err),
                    _ => return Poll::Pending,
                },
            };
            if let Some(answer) = done {
                return Poll::Ready(answer);
            }
        }
    }
}

impl<S, B, R> ResponseFuture<S, B, R>
where
    S: Service<Request<Replay<B>>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    B: Body + Unpin,
    B::Error: Into<BoxError>,
    R: Body + Unpin,
{
    #[cold]
    fn responded(mut self: Pin<&mut Self>, response: Response<R>) -> Option<Answered<R>> {
        let this = self.as_mut().project();
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
            && !response.headers().contains_key(names::GRPC_STATUS)
            && self.kept.as_ref().is_some_and(|kept| kept.is_sent())
    }

    fn peeked(
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
            // The body is read once more by the caller, who then learns that it ended or broke.
            None | Some(Err(_)) => return Some(Ok(self.succeed(response))),
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
    fn failed(self: Pin<&mut Self>, cause: BoxError) -> Option<Answered<R>> {
        if matches!(self.lead, Lead::Alone) {
            self.project().state.set(State::Over);
            return Some(Err(Error::of_the_only_attempt(cause)));
        }
        let failure = reach::failure(&*cause);
        self.settle(failure.into(), Some(Last::Error(cause)))
    }

    #[cold]
    fn cut_off(self: Pin<&mut Self>) -> Option<Answered<R>> {
        self.settle(Failure::new(Class::Timeout).into(), None)
    }

    #[cold]
    fn succeed(mut self: Pin<&mut Self>, response: Response<Answer<R>>) -> Response<Answer<R>> {
        let mut this = self.as_mut().project();
        this.state.set(State::Over);
        match this.lead {
            Lead::Light(whose, passed, _) => {
                if let Some(retry) = whose.retry(this.options) {
                    passed.succeed::<Typed, Tokio>(retry);
                }
            }
            Lead::Full(session) => {
                session.win();
                if session.attempts() > 1 {
                    let attempts = Attempts::new(session.attempts(), None, false);
                    return reported(this.options, response, attempts);
                }
            }
            Lead::Alone | Lead::Refused(_) => {}
        }
        response
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
        let echo = match outcome {
            Outcome::Failure(failure) => {
                let echo = *this.unanswered && status::may_be_an_echo(&failure);
                *this.unanswered |=
                    failure.reach == Reach::Unknown && failure.class != Class::Permanent;
                echo
            }
            Outcome::Success | Outcome::NotYet(_) => false,
        };
        // An attempt that was cut off says more about now than an earlier response.
        if brought.is_none() && matches!(this.last.as_deref(), Some(Last::Response(_))) {
            *this.last = None;
        }
        let brought = Brought::<Infallible, _>::Failure(outcome, brought.map(Box::new));
        match session.settle(brought, this.last) {
            Step::Return(Err(error)) => Some(self.give_up(error, echo)),
            Step::Return(Ok(never)) => match never {},
            Step::WaitUntil(until) => {
                if let Some(kept) = this.kept {
                    kept.rewind();
                }
                if let Some(Last::Response(response)) = this.last.as_deref_mut() {
                    *response.body_mut() = Answer::gone();
                    response.headers_mut().remove(header::CONTENT_LENGTH);
                    response.headers_mut().remove(header::TRANSFER_ENCODING);
                }
                self.as_mut().set_timer(until);
                self.project().state.set(State::Waiting);
                None
            }
            Step::InFlight => None,
        }
    }

    /// Asks the engine once more, then sends.
    #[cold]
    fn resend(mut self: Pin<&mut Self>) -> Option<Answered<R>> {
        let this = self.as_mut().project();
        let (Some(session), Some(kept)) = (this.lead.session(this.options), this.kept) else {
            return None;
        };
        session.barred = kept.barred(session.retry());
        let attempt = match session.next(this.last) {
            Ok(attempt) => attempt,
            Err(error) => return Some(self.give_up(error, false)),
        };
        let call = this.service.call(kept.again(this.options, &attempt, *this.grpc));
        self.as_mut().set_timer(attempt.expires);
        self.project().state.set(State::Calling { call });
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
            Some(session) => session.broken(cause).into(),
            None => Error::before_any_attempt(cause),
        })
    }
}

impl<S, B, R> ResponseFuture<S, B, R>
where
    S: Service<Request<Replay<B>>>,
    R: Body,
{
    fn set_timer(self: Pin<&mut Self>, until: Nanos) {
        let mut this = self.project();
        *this.until = until;
        this.timer.set(None);
    }

    /// Whether the time is up. An attempt that is ready at once never has a timer.
    #[cold]
    fn poll_timer(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if this.timer.is_none() {
            this.timer.set(timer(*this.until));
        }
        match this.timer.as_pin_mut() {
            Some(timer) => timer.poll(cx),
            None => Poll::Pending,
        }
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

impl Lead {
    /// Asks the engine for a first attempt that holds something or is watched.
    #[cold]
    fn full(retry: &Retry, now: Nanos, latest: Nanos) -> Self {
        let mut session = Box::new(Session::start(retry.unkeyed(latest), now));
        match session.first::<BoxError>() {
            Ok(_) => Self::Full(session),
            Err(error) => Self::Refused(Some(error.into())),
        }
    }

    /// Settles a success that went the short way; says no when it did not, or somebody else judges.
    #[inline(always)]
    fn passed(&self, options: &Options) -> bool {
        match self {
            Self::Light(whose, passed, _) if options.judge.is_none() => {
                if let Some(retry) = whose.retry(options) {
                    passed.succeed::<Typed, Tokio>(retry);
                }
                true
            }
            _ => false,
        }
    }

    fn retry<'a>(&'a self, options: &'a Options) -> Option<&'a Retry> {
        match self {
            Self::Light(whose, ..) => whose.retry(options),
            Self::Full(session) => Some(session.retry()),
            Self::Alone | Self::Refused(_) => None,
        }
    }

    /// When a call that goes on has to be over.
    fn deadline(&self) -> Nanos {
        match self {
            Self::Full(session) => session.deadline(),
            _ => NEVER,
        }
    }

    /// The session of a call that goes on.
    fn session(&mut self, options: &Options) -> Option<&mut Session<Retry, Typed, Tokio>> {
        if let Self::Light(whose, passed, latest) = self {
            let retry = whose.retry(options)?.unkeyed(*latest);
            *self = Self::Full(Box::new(Session::resume(retry, *passed)));
        }
        match self {
            Self::Full(session) => Some(session),
            _ => None,
        }
    }
}
