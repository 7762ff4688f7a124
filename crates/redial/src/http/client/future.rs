use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use redial_core::Nanos;
use tokio::time::Sleep;
use tower_service::Service;

use super::exchange::{Exchange, Received};
use super::layer::RouteRetry;
use super::outgoing::{Outgoing, Prepared};
use super::service::alone;
use super::{Answer, BoxError, Error, Replay, RetryLayer};
use crate::clock::Tokio;
use crate::fast::FastAttempt;
use crate::{Stripe, run};

pin_project! {
    /// A request that is repeated if need be.
    pub struct ResponseFuture<S, B, R>
    where
        S: Service<Request<Replay<B>>>,
        R: Body,
    {
        #[pin]
        state: State<S, S::Future, B, R>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, F, B, R: Body> {
        // The layer leaves the request alone.
        Alone { #[pin] call: F },
        // The first attempt, on the fast path. `first` is `None` once it has ended.
        Fast { #[pin] call: F, #[pin] timer: Option<Sleep>, first: Option<First<S, B>> },
        // A first attempt that needs a session, and everything after the first attempt.
        Exchange { exchange: Pin<Box<dyn Future<Output = Answered<R>> + Send>> },
        // The first attempt was refused.
        Refused { error: Option<Error> },
    }
}

/// What becomes of a call.
pub(super) type Answered<R> = Result<Response<Answer<R>>, Error>;

/// A first attempt on the fast path.
struct First<S, B> {
    service: S,
    outgoing: Outgoing<B>,
    route: RouteRetry,
    attempt: FastAttempt<Arc<Stripe>, Tokio>,
    expires: Nanos,
}

impl<S, B, R> ResponseFuture<S, B, R>
where
    S: Service<Request<Replay<B>>, Response = Response<R>, Error: Into<BoxError>>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: Body<Error: Into<BoxError>> + Send + Unpin + 'static,
    R: Body<Data: Send, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    /// Admits the first attempt and sends it.
    #[inline(always)]
    pub(super) fn new(mut service: S, layer: &RetryLayer, request: Request<B>) -> Self {
        let Prepared { request, outgoing, route, times } = match Prepared::new(&layer.0, request) {
            Ok(prepared) => prepared,
            Err(request) => return Self { state: State::Alone { call: service.call(request) } },
        };
        let retry = route.retry(&layer.0);
        // A race needs its attempts in boxes of their own.
        let fast = match layer.0.hedge {
            None => FastAttempt::admit(retry, times.now, times.latest),
            Some(_) => None,
        };
        let Some(attempt) = fast.map(FastAttempt::into_owned) else {
            let state = match Exchange::admit(service, outgoing, retry, &times, &request) {
                Ok(mut exchange) => {
                    let call = exchange.call(request);
                    State::Exchange { exchange: Box::pin(exchange.start(call)) }
                }
                Err(error) => State::Refused { error: Some(error) },
            };
            return Self { state };
        };
        let call = service.call(request);
        let first = First { service, outgoing, route, attempt, expires: times.expires };
        Self { state: State::Fast { call, timer: None, first: Some(first) } }
    }

    /// What follows a first attempt that did not succeed.
    #[cold]
    fn after(first: First<S, B>, received: Received<R>) -> State<S, S::Future, B, R> {
        let First { service, outgoing, route, attempt, .. } = first;
        let session = attempt.into_session(route.retry(&outgoing.options).unkeyed());
        let exchange = Exchange::new(service, outgoing, session);
        State::Exchange { exchange: Box::pin(exchange.run(received)) }
    }
}

impl<S, B> First<S, B> {
    #[inline(always)]
    fn succeed(self) {
        self.attempt.succeed(self.route.retry(&self.outgoing.options));
    }
}

impl<S, B, R> Future for ResponseFuture<S, B, R>
where
    S: Service<Request<Replay<B>>, Response = Response<R>, Error: Into<BoxError>>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: Body<Error: Into<BoxError>> + Send + Unpin + 'static,
    R: Body<Data: Send, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    type Output = Answered<R>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut state = self.as_mut().project().state;
            let (first, received) = match state.as_mut().project() {
                StateProj::Fast { call, timer, first } => {
                    let received = match call.poll(cx) {
                        Poll::Ready(Ok(response)) => {
                            if let Some(first) =
                                first.take_if(|first| first.outgoing.is_success(&response))
                            {
                                first.succeed();
                                return Poll::Ready(Ok(response.map(Answer::new)));
                            }
                            Some(Ok(response))
                        }
                        Poll::Ready(Err(error)) => Some(Err(error.into())),
                        Poll::Pending => {
                            let Some(first) = first else { return Poll::Pending };
                            ready!(poll_timer(timer, first.expires, cx));
                            None
                        }
                    };
                    (first.take(), received)
                }
                StateProj::Exchange { exchange } => return exchange.as_mut().poll(cx),
                StateProj::Alone { call } => {
                    return Poll::Ready(alone(ready!(call.poll(cx))));
                }
                StateProj::Refused { error } => {
                    return error.take().map_or(Poll::Pending, |error| Poll::Ready(Err(error)));
                }
            };
            let Some(first) = first else { return Poll::Pending };
            state.set(Self::after(first, received));
        }
    }
}

/// Whether the time is up. An attempt that is ready at once never has a timer.
#[cold]
fn poll_timer(mut timer: Pin<&mut Option<Sleep>>, at: Nanos, cx: &mut Context<'_>) -> Poll<()> {
    if timer.is_none() {
        timer.set(run::timer(at));
    }
    match timer.as_pin_mut() {
        Some(timer) => timer.poll(cx),
        None => Poll::Pending,
    }
}
