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
use super::outgoing::{Outgoing, Prepared, Times};
use super::service::alone;
use super::{Answer, BoxError, Error, Replay, RetryLayer};
use crate::clock::Tokio;
use crate::fast::FastAttempt;
use crate::{Retry, Stripe, run};

pin_project! {
    /// The future of a request sent through a [`RetryService`](super::RetryService).
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
    #[project_replace = StateOwned]
    enum State<S, F, B, R: Body> {
        // The layer leaves the request alone.
        Alone { #[pin] call: F },
        // The first attempt, on the fast path. `attempt` is `None` once it has ended; `rest` is what another
        // one needs.
        Fast {
            #[pin]
            call: F,
            #[pin]
            timer: Option<Sleep>,
            attempt: Option<FastAttempt<Arc<Stripe>, Tokio>>,
            rest: Rest<S, B>,
        },
        // A first attempt that needs a session, and everything after the first attempt.
        Exchange { exchange: Boxed<R> },
        // The first attempt was refused.
        Refused { error: Option<Error> },
        Over,
    }
}

/// The result of a call.
pub(super) type Answered<R> = Result<Response<Answer<R>>, Error>;

type Boxed<R> = Pin<Box<dyn Future<Output = Answered<R>> + Send>>;

/// What is needed to continue if the first attempt on the fast path fails.
struct Rest<S, B> {
    service: S,
    outgoing: Outgoing<B>,
    route: RouteRetry,
    /// When the first attempt is cut off.
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
        let options = &layer.0;
        let (parts, body) = request.into_parts();
        let Some(route) = options.route(&parts) else {
            let request = Request::from_parts(parts, Replay::once(body));
            return Self { state: State::Alone { call: service.call(request) } };
        };
        let retry = route.retry(options);
        let Prepared { request, outgoing, times } = Prepared::new(options, retry, parts, body);
        let fast = FastAttempt::admit(retry, times.now, times.latest);
        let Some(attempt) = fast.map(FastAttempt::into_owned) else {
            return Self { state: Self::exchange(service, outgoing, retry, &times, request) };
        };
        let call = service.call(request);
        let rest = Rest { service, outgoing, route, expires: times.expires };
        let state = State::Fast { call, timer: None, attempt: Some(attempt), rest };
        Self { state }
    }

    /// A first attempt that does not take the fast path.
    #[cold]
    fn exchange(
        service: S,
        outgoing: Outgoing<B>,
        retry: &Retry,
        times: &Times,
        request: Request<Replay<B>>,
    ) -> State<S, S::Future, B, R> {
        match Exchange::admit(service, outgoing, retry, times, &request) {
            Ok(mut exchange) => {
                let call = exchange.call(request);
                State::Exchange { exchange: Box::pin(exchange.start(call)) }
            }
            Err(error) => State::Refused { error: Some(error) },
        }
    }

    /// Continues after a first attempt on the fast path that did not succeed.
    #[cold]
    fn continue_with(
        received: Received<R>,
        mut state: Pin<&mut State<S, S::Future, B, R>>,
        cx: &mut Context<'_>,
    ) -> Poll<Answered<R>> {
        let StateOwned::Fast { attempt: Some(attempt), rest, .. } =
            state.as_mut().project_replace(State::Over)
        else {
            return Poll::Pending;
        };
        let Rest { service, outgoing, route, .. } = rest;
        let session = attempt.into_session(route.retry(&outgoing.options).unkeyed());
        let exchange = Exchange::new(service, outgoing, session);
        let mut exchange: Boxed<R> = Box::pin(exchange.run(received));
        let answered = exchange.as_mut().poll(cx);
        state.set(State::Exchange { exchange });
        answered
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
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        match state.as_mut().project() {
            StateProj::Fast { call, timer, attempt, rest } => {
                let received = match call.poll(cx) {
                    Poll::Ready(Ok(response)) if rest.outgoing.is_success(&response) => {
                        if let Some(attempt) = attempt.take() {
                            attempt.succeed(rest.route.retry(&rest.outgoing.options));
                        }
                        return Poll::Ready(Ok(response.map(Answer::new)));
                    }
                    Poll::Ready(result) => Some(result.map_err(Into::into)),
                    Poll::Pending => {
                        ready!(poll_timer(timer, rest.expires, cx));
                        None
                    }
                };
                Self::continue_with(received, state, cx)
            }
            StateProj::Exchange { exchange } => exchange.as_mut().poll(cx),
            StateProj::Alone { call } => Poll::Ready(alone(ready!(call.poll(cx)))),
            StateProj::Refused { error } => match error.take() {
                Some(error) => Poll::Ready(Err(error)),
                None => Poll::Pending,
            },
            StateProj::Over => Poll::Pending,
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
