use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use redial_core::Nanos;
use tokio::time::Sleep;
use tower_service::Service;

use super::limiter::{Admission, Limiter, Notice, Permit, Queued, Rejection};
use crate::http::server::permit_release::{self, PollScope, Signal};
use crate::http::server::permit_transfer;
use crate::http::travel::is_grpc;
use crate::run::timer;

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
        // From the start of the request until its response.
        permit: Option<Permit>,
        // Set once the request is started. A separate field, so that it is constructed in place.
        #[pin]
        response: Option<S::Future>,
        // `None` while the request is served, which is all that most requests see.
        stage: Option<Box<Stage<S, B>>>,
    }

    impl<S, B> PinnedDrop for ShedFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if let Some(permit) = this.permit.take() {
                leave(permit, || this.response.set(None));
            }
        }
    }
}

const LATE: Notice = Notice::Rejected(Rejection::Late);

/// The caller disconnected before there was a response.
#[cold]
#[inline(never)]
fn leave(permit: Permit, drop_response: impl FnOnce()) {
    permit_transfer::offer(permit, drop_response);
}

/// The state of a request that is not being served.
#[allow(clippy::large_enum_variant, reason = "always boxed, and most often waiting")]
pub(super) enum Stage<S, B> {
    Waiting(Waiting<S, B>),
    /// Started, and released its permit because its body is still arriving.
    Released(Arc<Limiter>),
    /// Started, its body is complete, and it waits for a permit.
    Reacquiring(Reacquiring),
    Rejected {
        rejection: Rejection,
        grpc: bool,
    },
}

/// A request that waits for a permit after its body has arrived.
pub(super) struct Reacquiring {
    queued: Queued,
    /// Expires at the request's deadline.
    timer: Option<Pin<Box<Sleep>>>,
    grpc: bool,
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
        permit: Option<Permit>,
        response: Option<S::Future>,
        stage: Option<Box<Stage<S, B>>>,
    ) -> Self {
        Self { permit, response, stage }
    }
}

impl<S, B> Stage<S, B> {
    pub(super) fn entered(inner: S, request: Request<B>, permit: Permit, deadline: Nanos) -> Self {
        Self::waiting(inner, request, Turn::Entered(Some(permit)), deadline)
    }

    pub(super) fn queued(inner: S, request: Request<B>, queued: Queued, deadline: Nanos) -> Self {
        Self::waiting(inner, request, Turn::Queued(queued), deadline)
    }

    fn waiting(inner: S, request: Request<B>, turn: Turn, deadline: Nanos) -> Self {
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
    fn poll_response(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<<Self as Future>::Output> {
        let this = self.as_mut().project();
        let scope = PollScope::enter(this.permit.is_some());
        let polled = match this.response.as_pin_mut() {
            Some(response) => response.poll(cx),
            None => Poll::Pending,
        };
        let signal = scope.exit();
        if polled.is_ready() {
            *this.permit = None;
        } else if let Some(signal) = signal {
            return self.handle(signal, cx);
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
            None | Some(Stage::Released(_)) => self.poll_response(cx),
            Some(Stage::Rejected { rejection, grpc }) => Poll::Ready(Ok(rejection.response(*grpc))),
            Some(Stage::Waiting(waiting)) => match ready!(waiting.poll_notice(cx))? {
                Notice::Start(permit) => {
                    let request = waiting.request.take();
                    this.response.set(request.map(|request| waiting.inner.call(request)));
                    self.start(permit, cx)
                }
                Notice::Rejected(rejection) => {
                    let headers = waiting.request.as_ref().map(Request::headers);
                    let grpc = headers.is_some_and(is_grpc);
                    self.reject(rejection, grpc)
                }
            },
            Some(Stage::Reacquiring(reacquiring)) => {
                let grpc = reacquiring.grpc;
                match ready!(reacquiring.poll_notice(cx)) {
                    Notice::Start(permit) => self.start(permit, cx),
                    Notice::Rejected(rejection) => self.reject(rejection, grpc),
                }
            }
        }
    }

    /// Handles what the request signalled while it was polled, and passes the signal on to outer shed layers: each of
    /// them has to release its permit. Permits are reacquired from the outside in, as when the request arrived.
    #[cold]
    #[inline(never)]
    fn handle(
        mut self: Pin<&mut Self>,
        signal: Signal,
        cx: &mut Context<'_>,
    ) -> Poll<<Self as Future>::Output> {
        let this = self.as_mut().project();
        let reacquire = match signal {
            Signal::Reacquire(reacquire) if permit_release::is_held() => reacquire,
            Signal::Reacquire(_) => {
                permit_release::send(signal);
                return Poll::Pending;
            }
            Signal::Release => {
                if let Some(permit) = this.permit.take() {
                    *this.stage = Some(Box::new(Stage::Released(permit.release_unused())));
                }
                permit_release::send(signal);
                return Poll::Pending;
            }
        };
        let Some(Stage::Released(limiter)) = this.stage.as_deref() else { return Poll::Pending };
        match limiter.arrive_again(&reacquire) {
            Admission::Entered(permit, _) => self.start(permit, cx),
            Admission::Queued(queued, deadline) => {
                let timer = timer(deadline).map(Box::pin);
                let reacquiring = Reacquiring { queued, timer, grpc: reacquire.grpc };
                *this.stage = Some(Box::new(Stage::Reacquiring(reacquiring)));
                self.poll_stage(cx)
            }
            Admission::Rejected(rejection) => self.reject(rejection, reacquire.grpc),
        }
    }

    fn start(
        mut self: Pin<&mut Self>,
        permit: Permit,
        cx: &mut Context<'_>,
    ) -> Poll<<Self as Future>::Output> {
        let this = self.as_mut().project();
        *this.permit = Some(permit);
        *this.stage = None;
        self.poll_response(cx)
    }

    fn reject(
        self: Pin<&mut Self>,
        rejection: Rejection,
        grpc: bool,
    ) -> Poll<<Self as Future>::Output> {
        let mut this = self.project();
        this.response.set(None);
        *this.stage = Some(Box::new(Stage::Rejected { rejection, grpc }));
        Poll::Ready(Ok(rejection.response(grpc)))
    }
}

impl Reacquiring {
    fn poll_notice(&mut self, cx: &mut Context<'_>) -> Poll<Notice> {
        if let Poll::Ready(notice) = Pin::new(&mut self.queued.notice).poll(cx) {
            return Poll::Ready(notice.unwrap_or(LATE));
        }
        if let Some(timer) = &mut self.timer {
            ready!(timer.as_mut().poll(cx));
            return Poll::Ready(LATE);
        }
        Poll::Pending
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
