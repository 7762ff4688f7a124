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

use super::layer::{Options, Whose};
use super::lead::Lead;
use super::outgoing::{self, Outgoing, Span};
use super::race::Race;
use super::{Answer, BoxError, Error, Replay, RetryLayer};
use crate::http::travel;
use crate::run::timer;

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
        // Whether an attempt was sent twice.
        pub(super) anew: bool,
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
        // The wait is over, or the same attempt goes out anew, and the client below is asked whether it is
        // ready.
        Readying { anew: bool },
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
    B: Body<Error: Into<BoxError>> + Unpin,
    R: Body,
{
    /// Admits the first attempt and sends it.
    #[inline(always)]
    pub(super) fn new(mut service: S, layer: &RetryLayer, request: Request<B>) -> Self {
        let options = Arc::clone(&layer.0);
        let (mut parts, body) = request.into_parts();
        let Some(whose) = options.find(&parts) else {
            return Self::once(service, options, None, parts, Replay::once(body), false);
        };
        let retry = whose.retry(&options);
        let grpc = parts.method == Method::POST && travel::is_grpc(&parts.headers);
        outgoing::write_key(&options, retry, &mut parts);
        let (body, tape) = outgoing::keep(&options, retry, body, grpc);
        let Some(tape) = tape else {
            return Self::once(service, options, Some(whose), parts, body, grpc);
        };
        // What is kept stays where it is, and a clone of it is sent: it is moved less often.
        let kept = Outgoing { parts, body: tape };
        let mut request = Request::from_parts(kept.parts.clone(), body);
        let span = Span::begin(&options, retry, request.headers_mut(), grpc);
        let lead = Lead::admit(&options, whose, &span);
        let state = match lead {
            Lead::Refused(_) => State::Over,
            _ => State::Calling { call: service.call(request) },
        };
        Self {
            service,
            options,
            lead,
            kept: Some(kept),
            safety: None,
            last: None,
            race: None,
            grpc,
            anew: false,
            unanswered: false,
            until: span.until,
            timer: None,
            state,
        }
    }

    /// A request of which nothing is kept.
    #[cold]
    fn once(
        mut service: S,
        options: Arc<Options>,
        whose: Option<Whose>,
        parts: Parts,
        body: Replay<B>,
        grpc: bool,
    ) -> Self {
        let safety = outgoing::safety_of(&parts);
        let mut request = Request::from_parts(parts, body);
        let (lead, until) = match whose {
            None => (Lead::Alone, NEVER),
            Some(whose) => {
                let retry = whose.retry(&options);
                let span = Span::begin(&options, retry, request.headers_mut(), grpc);
                (Lead::admit(&options, whose, &span), span.until)
            }
        };
        let state = match lead {
            Lead::Refused(_) => State::Over,
            _ => State::Calling { call: service.call(request) },
        };
        let (kept, last, race, timer, unanswered) = (None, None, None, None, false);
        Self {
            service,
            options,
            lead,
            kept,
            safety,
            last,
            race,
            grpc,
            anew: false,
            unanswered,
            until,
            timer,
            state,
        }
    }
}

pub(super) type Answered<R> = Result<Response<Answer<R>>, Error>;

impl<S, B, R> Future for ResponseFuture<S, B, R>
where
    S: Service<Request<Replay<B>>, Response = Response<R>, Error: Into<BoxError>> + Clone,
    B: Body<Error: Into<BoxError>> + Unpin,
    R: Body<Error: Into<BoxError>> + Unpin,
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
                        if plain && this.lead.is_short() && this.options.judge.is_none() {
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
                    self.as_mut().project().state.set(State::Readying { anew: false });
                    None
                }
                StateProj::Readying { anew } => {
                    let anew = *anew;
                    ready!(self.as_mut().poll_below(cx, anew))
                }
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
