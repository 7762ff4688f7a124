use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use redial_core::{NEVER, Nanos};
use tokio::time::Sleep;
use tower_service::Service;

use super::exchange::{Exchange, Received};
use super::layer::RouteRetry;
use super::outgoing::{Outgoing, Prepared, Times};
use super::racer::Relay;
use super::service::alone;
use super::{Answer, BoxError, Error, Replay, RetryLayer};
use crate::clock::{Clock as _, Tokio};
use crate::fast::FastAttempt;
use crate::session::limited;
use crate::thread_state::drop_attempt;
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
        // The first attempt, sent on the fast path. `attempt` is `None` once it has left it.
        Fast {
            #[pin]
            call: F,
            #[pin]
            timer: Option<Sleep>,
            attempt: Option<FastAttempt<Arc<Stripe>, Tokio>>,
            stage: Stage<S, B, R>,
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

/// How far an attempt on the fast path has come.
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for every request")]
enum Stage<S, B, R: Body> {
    Sent(Rest<S, B>),
    /// It was slow, and others may be in flight beside it.
    Raced {
        exchange: Boxed<R>,
        slow: Relay<R>,
        /// When it is cut off.
        expires: Nanos,
    },
    Over,
}

/// What is needed to continue if the first attempt on the fast path fails.
struct Rest<S, B> {
    service: S,
    outgoing: Outgoing<B>,
    route: RouteRetry,
    /// When the first attempt is cut off.
    expires: Nanos,
}

impl<S, B> Rest<S, B> {
    fn retry(&self) -> &Retry {
        self.route.retry(&self.outgoing.options)
    }

    /// When the attempt is cut off, or a hedge beside it is due.
    #[cold]
    fn until(&self, attempt: Option<&FastAttempt<Arc<Stripe>, Tokio>>) -> Nanos {
        let retry = self.retry();
        let mut cx = limited(retry, 0, self.outgoing.barred(retry));
        cx.request.safety = self.outgoing.safety().unwrap_or(cx.request.safety);
        attempt.map_or(NEVER, |attempt| attempt.hedge_at(&cx)).min(self.expires)
    }
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
        let (attempt, stage) = (Some(attempt), Stage::Sent(rest));
        Self { state: State::Fast { call, timer: None, attempt, stage } }
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
        match Exchange::admit(service, outgoing, retry, times, request) {
            Ok((exchange, first)) => State::Exchange { exchange: Box::pin(exchange.start(first)) },
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
        let StateOwned::Fast { attempt: Some(attempt), stage: Stage::Sent(rest), .. } =
            drop_attempt(received.is_none(), || state.as_mut().project_replace(State::Over))
        else {
            return Poll::Pending;
        };
        let mut exchange: Boxed<R> = Box::pin(Self::resume(rest, attempt).run(received));
        let answered = exchange.as_mut().poll(cx);
        state.set(State::Exchange { exchange });
        answered
    }

    fn resume(rest: Rest<S, B>, mut attempt: FastAttempt<Arc<Stripe>, Tokio>) -> Exchange<S, B, R> {
        let session = attempt.hand_over(rest.retry().unkeyed());
        Exchange::new(rest.service, rest.outgoing, session)
    }

    /// Continues a first attempt on the fast path that is still pending when a hedge beside it is due.
    #[cold]
    fn race(
        mut state: Pin<&mut State<S, S::Future, B, R>>,
        cx: &mut Context<'_>,
    ) -> Poll<Answered<R>> {
        if let StateProj::Fast { attempt, stage, .. } = state.as_mut().project()
            && let (Some(attempt), Stage::Sent(rest)) =
                (attempt.take(), mem::replace(stage, Stage::Over))
        {
            let ((slow, racer), expires) = (Relay::pair(), rest.expires);
            let exchange = Box::pin(Self::resume(rest, attempt).race(racer));
            *stage = Stage::Raced { exchange, slow, expires };
        }
        Self::poll_race(state, cx)
    }

    #[cold]
    fn poll_race(
        mut state: Pin<&mut State<S, S::Future, B, R>>,
        cx: &mut Context<'_>,
    ) -> Poll<Answered<R>> {
        let StateProj::Fast { call, stage: Stage::Raced { exchange, slow, expires }, .. } =
            state.as_mut().project()
        else {
            return Poll::Pending;
        };
        slow.poll_from(call, cx);
        let answered = exchange.as_mut().poll(cx);
        if answered.is_ready() || slow.is_over() {
            let expired = *expires <= Tokio::now();
            let left = drop_attempt(expired, || state.as_mut().project_replace(State::Over));
            if let StateOwned::Fast { stage: Stage::Raced { exchange, .. }, .. } = left {
                state.set(State::Exchange { exchange });
            }
        }
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
            StateProj::Fast { call, timer, attempt, stage: Stage::Sent(rest) } => {
                let received = match call.poll(cx) {
                    Poll::Ready(Ok(response)) if rest.outgoing.is_success(&response) => {
                        if let Some(mut attempt) = attempt.take() {
                            attempt.succeed(rest.retry());
                        }
                        return Poll::Ready(Ok(rest.outgoing.count(response, 1).map(Answer::new)));
                    }
                    Poll::Ready(result) => Some(result.map_err(Into::into)),
                    Poll::Pending => {
                        ready!(poll_timer(timer, || rest.until(attempt.as_ref()), cx));
                        if rest.expires > Tokio::now() {
                            return Self::race(state, cx);
                        }
                        None
                    }
                };
                Self::continue_with(received, state, cx)
            }
            StateProj::Fast { .. } => Self::poll_race(state, cx),
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
fn poll_timer(
    mut timer: Pin<&mut Option<Sleep>>,
    until: impl FnOnce() -> Nanos,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if timer.is_none() {
        timer.set(run::timer(until()));
    }
    match timer.as_pin_mut() {
        Some(timer) => timer.poll(cx),
        None => Poll::Pending,
    }
}
