use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use redial_core::Nanos;
use tokio::time::Sleep;
use tower_service::Service;

use super::places::{News, Permit, Queued, Refused};
use crate::http::server::handover;
use crate::http::travel::is_grpc;
use crate::run::timer;

pin_project! {
    /// A request that is served, waits for a place, or is turned away.
    ///
    /// It holds its place until there is a response, or until it is dropped; what goes on without it, under an
    /// [`IdempotencyLayer`](crate::http::server::IdempotencyLayer), keeps the place. A body that is streamed afterwards holds none: how long
    /// that takes is up to the one who reads it, and slow readers must not be able to close a server.
    pub struct ShedFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        // While it is served, until there is a response.
        permit: Option<Permit>,
        // Once it is started. Apart from the rest, so that it is built where it stays.
        #[pin]
        response: Option<S::Future>,
        stage: Stage<S, B>,
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

/// The caller went away before there was a response.
#[cold]
#[inline(never)]
fn leave(permit: Permit, drop_response: impl FnOnce()) {
    handover::offer(permit, drop_response);
}

/// How far a request has come.
pub(super) enum Stage<S, B> {
    Started,
    Waiting(Box<Waiting<S, B>>),
    Refused { refused: Refused, grpc: bool },
}

/// A request that has not been started.
pub(super) struct Waiting<S, B> {
    inner: S,
    /// There until it is started.
    request: Option<Request<B>>,
    place: Place,
    /// Until its caller stops waiting.
    timer: Option<Pin<Box<Sleep>>>,
}

enum Place {
    Queued(Queued),
    Entered(Option<Permit>),
}

impl<S: Service<Request<B>>, B> ShedFuture<S, B> {
    #[inline(always)]
    pub(super) fn new(
        permit: Option<Permit>,
        response: Option<S::Future>,
        stage: Stage<S, B>,
    ) -> Self {
        Self { permit, response, stage }
    }
}

impl<S, B> Stage<S, B> {
    pub(super) fn entered(inner: S, request: Request<B>, permit: Permit, deadline: Nanos) -> Self {
        Self::waiting(inner, request, Place::Entered(Some(permit)), deadline)
    }

    pub(super) fn queued(inner: S, request: Request<B>, queued: Queued, deadline: Nanos) -> Self {
        Self::waiting(inner, request, Place::Queued(queued), deadline)
    }

    fn waiting(inner: S, request: Request<B>, place: Place, deadline: Nanos) -> Self {
        let timer = timer(deadline).map(Box::pin);
        Self::Waiting(Box::new(Waiting { inner, request: Some(request), place, timer }))
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
        if self.response.is_some() { self.poll_response(cx) } else { self.poll_start(cx) }
    }
}

impl<S, B, R> ShedFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    /// By itself, so that the response is written where it is returned.
    #[inline(always)]
    fn poll_response(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<<Self as Future>::Output> {
        let this = self.project();
        let polled = match this.response.as_pin_mut() {
            Some(response) => response.poll(cx),
            None => Poll::Pending,
        };
        if polled.is_ready() {
            *this.permit = None;
        }
        polled
    }

    #[cold]
    #[inline(never)]
    fn poll_start(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<<Self as Future>::Output> {
        let mut this = self.as_mut().project();
        let waiting = match this.stage {
            Stage::Waiting(waiting) => waiting,
            Stage::Refused { refused, grpc } => return Poll::Ready(Ok(refused.response(*grpc))),
            Stage::Started => return self.poll_response(cx),
        };
        match ready!(waiting.poll_news(cx))? {
            News::Start(permit) => {
                let response = waiting.request.take().map(|request| waiting.inner.call(request));
                this.response.set(response);
                *this.permit = Some(permit);
                *this.stage = Stage::Started;
                self.poll_response(cx)
            }
            News::Refused(refused) => {
                let headers = waiting.request.as_ref().map(Request::headers);
                let grpc = headers.is_some_and(is_grpc);
                *this.stage = Stage::Refused { refused, grpc };
                Poll::Ready(Ok(refused.response(grpc)))
            }
        }
    }
}

impl<S: Service<Request<B>>, B> Waiting<S, B> {
    /// Whether it can be started. A caller whose deadline passes meanwhile leaves then, and not when its turn
    /// comes or the service is ready: its place may be another's.
    fn poll_news(&mut self, cx: &mut Context<'_>) -> Poll<Result<News, S::Error>> {
        const LATE: News = News::Refused(Refused::Late);
        if let Place::Queued(queued) = &mut self.place
            && let Poll::Ready(news) = Pin::new(&mut queued.news).poll(cx)
        {
            match news.unwrap_or(LATE) {
                News::Start(permit) => self.place = Place::Entered(Some(permit)),
                refused @ News::Refused(_) => return Poll::Ready(Ok(refused)),
            }
        }
        if let Some(timer) = &mut self.timer
            && timer.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Ok(LATE));
        }
        if let Place::Entered(permit) = &mut self.place {
            ready!(self.inner.poll_ready(cx))?;
            return permit
                .take()
                .map_or(Poll::Pending, |permit| Poll::Ready(Ok(News::Start(permit))));
        }
        Poll::Pending
    }
}
