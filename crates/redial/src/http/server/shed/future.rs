use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use redial_core::Deadline;
use tokio::time::Sleep;
use tower_service::Service;

use super::limiter::{Notice, Permit, Queued, Rejection};
use super::shared_permit::Held;
use crate::http::travel::is_grpc;
use crate::timer::timer;

pin_project! {
    /// A request that is served, waits for a permit, or is rejected.
    ///
    /// It holds its permit until there is a response or it is dropped. There are two exceptions with an
    /// [`IdempotencyLayer`](crate::http::server::IdempotencyLayer) further in: a request with a key holds no permit while
    /// its body is arriving, and an execution that continues after its caller has disconnected keeps the permit. A
    /// response body that is streamed afterwards holds none: slow readers must not be able to block a server.
    pub struct ShedFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        // Set once the request is started. A separate field, so that it is constructed in place.
        #[pin]
        response: Option<S::Future>,
        // From the start of the request until its response. Dropped after it.
        held: Option<Held>,
        // `None` while the request is served, which is all that most requests see.
        stage: Option<Box<Stage<S, B>>>,
    }
}

const LATE: Notice = Notice::Rejected(Rejection::Late);

/// The state of a request that is not being served.
#[allow(clippy::large_enum_variant, reason = "always boxed, and most often waiting")]
pub(super) enum Stage<S, B> {
    Waiting(Waiting<S, B>),
    Rejected { rejection: Rejection, grpc: bool },
}

/// A request that has not been started.
pub(super) struct Waiting<S, B> {
    inner: S,
    /// Taken when it is started.
    request: Option<Request<B>>,
    turn: Turn,
    /// Expires at the request's deadline.
    timer: Option<Pin<Box<Sleep>>>,
}

enum Turn {
    Queued(Queued),
    Entered(Option<Permit>),
}

impl<S: Service<Request<B>>, B> ShedFuture<S, B> {
    #[inline(always)]
    pub(super) fn new(
        held: Option<Held>,
        response: Option<S::Future>,
        stage: Option<Box<Stage<S, B>>>,
    ) -> Self {
        Self { held, response, stage }
    }
}

impl<S, B> Stage<S, B> {
    pub(super) fn entered(
        inner: S,
        request: Request<B>,
        permit: Permit,
        deadline: Deadline,
    ) -> Self {
        Self::waiting(inner, request, Turn::Entered(Some(permit)), deadline)
    }

    pub(super) fn queued(
        inner: S,
        request: Request<B>,
        queued: Queued,
        deadline: Deadline,
    ) -> Self {
        Self::waiting(inner, request, Turn::Queued(queued), deadline)
    }

    fn waiting(inner: S, request: Request<B>, turn: Turn, deadline: Deadline) -> Self {
        let timer = timer(deadline).map(Box::pin);
        Self::Waiting(Waiting { inner, request: Some(request), turn, timer })
    }
}

impl<S, B, R> Future for ShedFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    type Output = Result<Response<R>, S::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.stage.is_none() { self.poll_response(cx) } else { self.poll_stage(cx) }
    }
}

impl<S, B, R> ShedFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    /// Separate and inlined, so that the response is written directly to the return slot.
    #[inline(always)]
    fn poll_response(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<<Self as Future>::Output> {
        let this = self.project();
        let polled = match this.response.as_pin_mut() {
            Some(response) => response.poll(cx),
            None => Poll::Pending,
        };
        if polled.is_ready() {
            *this.held = None;
        }
        polled
    }

    #[cold]
    #[inline(never)]
    fn poll_stage(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<<Self as Future>::Output> {
        let mut this = self.as_mut().project();
        match this.stage.as_deref_mut() {
            None => self.poll_response(cx),
            Some(Stage::Rejected { rejection, grpc }) => Poll::Ready(Ok(rejection.response(*grpc))),
            Some(Stage::Waiting(waiting)) => match ready!(waiting.poll_notice(cx))? {
                Notice::Start(permit) => {
                    if let Some(mut request) = waiting.request.take() {
                        *this.held = Some(Held::by(permit, &mut request));
                        this.response.set(Some(waiting.inner.call(request)));
                    }
                    *this.stage = None;
                    self.poll_response(cx)
                }
                Notice::Rejected(rejection) => {
                    let headers = waiting.request.as_ref().map(Request::headers);
                    let grpc = headers.is_some_and(is_grpc);
                    *this.stage = Some(Box::new(Stage::Rejected { rejection, grpc }));
                    Poll::Ready(Ok(rejection.response(grpc)))
                }
            },
        }
    }
}

impl<S: Service<Request<B>>, B> Waiting<S, B> {
    /// Ready when the request can be started or is rejected. When its deadline passes it leaves the queue at once, and
    /// not when its turn comes or the service is ready: another request may need the place.
    fn poll_notice(&mut self, cx: &mut Context<'_>) -> Poll<Result<Notice, S::Error>> {
        if let Turn::Queued(queued) = &mut self.turn
            && let Poll::Ready(notice) = Pin::new(&mut queued.notice).poll(cx)
        {
            match notice.unwrap_or(LATE) {
                Notice::Start(permit) => self.turn = Turn::Entered(Some(permit)),
                rejected @ Notice::Rejected(_) => return Poll::Ready(Ok(rejected)),
            }
        }
        if let Some(timer) = &mut self.timer
            && timer.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Ok(LATE));
        }
        if let Turn::Entered(permit) = &mut self.turn {
            ready!(self.inner.poll_ready(cx))?;
            return permit
                .take()
                .map_or(Poll::Pending, |permit| Poll::Ready(Ok(Notice::Start(permit))));
        }
        Poll::Pending
    }
}
