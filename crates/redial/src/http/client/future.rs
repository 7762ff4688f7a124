use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use redial_core::decide::Safety;
use redial_core::{NEVER, Nanos};
use tokio::time::Sleep;
use tower_service::Service;

use super::layer::Options;
use super::lead::Lead;
use super::outgoing::{self, Outgoing};
use super::race::Race;
use super::{Answer, BoxError, Error, Replay, RetryLayer};
use crate::clock::{Clock as _, Tokio};
use crate::http::travel;
use crate::run::timer;
use crate::session::Passed;

pin_project! {
    /// A request that is repeated if need be.
    pub struct ResponseFuture<S, B, R>
    where
        S: Service<Request<Replay<B>>>,
        R: Body,
    {
        pub(super) service: S,
        pub(super) options: Arc<Options>,
        pub(super) lead: Lead,
        pub(super) kept: Option<Outgoing<B>>,
        // What the request said about being done twice, when nothing of it is kept.
        pub(super) safety: Option<Safety>,
        // What the last attempt brought, while another one is awaited.
        pub(super) last: Option<Box<Last<R>>>,
        pub(super) race: Option<Box<Race<S::Future>>>,
        pub(super) grpc: bool,
        // Whether an attempt ended without anybody knowing what became of it.
        pub(super) unanswered: bool,
        // When the attempt, or the wait, is over.
        pub(super) until: Nanos,
        #[pin]
        pub(super) timer: Option<Sleep>,
        #[pin]
        pub(super) state: State<S::Future, R>,
    }
}

pin_project! {
    #[project = StateProj]
    pub(super) enum State<F, R> {
        Calling { #[pin] call: F },
        // The attempt has ended, and its rivals have not.
        Racing,
        // A gRPC response whose first frame may be its last.
        Peeking { response: Option<Response<R>> },
        Waiting,
        // The wait is over, and the client below is asked whether it is ready.
        Readying,
        Over,
    }
}

/// What an attempt brought.
pub(super) enum Last<R: Body> {
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
        let (last, race, unanswered, timer) = (None, None, false, None);
        Self {
            service,
            options,
            lead,
            kept,
            safety,
            last,
            race,
            grpc,
            unanswered,
            until,
            timer,
            state,
        }
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
            race: None,
            grpc: false,
            unanswered: false,
            until: NEVER,
            timer: None,
            state: State::Calling { call },
        }
    }
}

pub(super) type Answered<R> = Result<Response<Answer<R>>, Error>;

impl<S, B, R> Future for ResponseFuture<S, B, R>
where
    S: Service<Request<Replay<B>>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    B: Body + Unpin,
    B::Error: Into<BoxError>,
    R: Body + Unpin,
    R::Error: Into<BoxError>,
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
                        if plain
                            && matches!(this.lead, Lead::Light(..))
                            && this.options.judge.is_none()
                        {
                            this.lead.win(this.options);
                            return Poll::Ready(Ok(response.map(Answer::new)));
                        }
                        self.as_mut().leave_race();
                        self.as_mut().responded(response)
                    }
                    Poll::Ready(Err(error)) => {
                        self.as_mut().leave_race();
                        self.as_mut().failed(error.into())
                    }
                    Poll::Pending => match self.as_mut().poll_race(cx) {
                        Poll::Ready(done) => done,
                        Poll::Pending => {
                            ready!(self.as_mut().poll_timer(cx));
                            self.as_mut().leave_race();
                            self.as_mut().cut_off()
                        }
                    },
                },
                StateProj::Racing => ready!(self.as_mut().poll_race(cx)),
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
                    Lead::Refused(error) if error.is_some() => error.take().map(Err),
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
    S: Service<Request<Replay<B>>>,
    R: Body,
{
    pub(super) fn set_timer(self: Pin<&mut Self>, until: Nanos) {
        let mut this = self.project();
        *this.until = until;
        this.timer.set(None);
    }

    /// Whether the time is up. An attempt that is ready at once never has a timer.
    #[cold]
    pub(super) fn poll_timer(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
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
