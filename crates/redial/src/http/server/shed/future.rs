use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower_service::Service;

use super::places::{News, Permit, Queued, Refused};
use crate::http::travel::is_grpc;
use crate::run::timer;

pin_project! {
    /// A request that is served, waits for a place, or is turned away.
    ///
    /// It holds its place until there is a response. A body that is streamed afterwards holds none: how long
    /// that takes is up to the one who reads it, and slow readers must not be able to close a server.
    pub struct ShedFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        // Once it is started. Apart from the rest, so that it is built where it stays.
        #[pin]
        response: Option<S::Future>,
        stage: Stage<S, B>,
    }
}

/// How far a request has come.
pub(super) enum Stage<S, B> {
    /// It is served, until there is a response.
    Inside(Option<Permit>),
    Waiting(Box<Waiting<S, B>>),
    Refused {
        refused: Refused,
        grpc: bool,
    },
}

/// A request that has not been started.
pub(super) struct Waiting<S, B> {
    inner: S,
    /// There until it is started.
    request: Option<Request<B>>,
    place: Place,
}

enum Place {
    Queued(Queued, Option<Pin<Box<Sleep>>>),
    Entered(Option<Permit>),
}

impl<S: Service<Request<B>>, B> ShedFuture<S, B> {
    #[inline(always)]
    pub(super) fn new(response: Option<S::Future>, stage: Stage<S, B>) -> Self {
        Self { response, stage }
    }
}

impl<S, B> Stage<S, B> {
    pub(super) fn entered(inner: S, request: Request<B>, permit: Permit) -> Self {
        Self::waiting(inner, request, Place::Entered(Some(permit)))
    }

    pub(super) fn queued(inner: S, request: Request<B>, queued: Queued) -> Self {
        let timer = timer(queued.deadline).map(Box::pin);
        Self::waiting(inner, request, Place::Queued(queued, timer))
    }

    fn waiting(inner: S, request: Request<B>, place: Place) -> Self {
        Self::Waiting(Box::new(Waiting { inner, request: Some(request), place }))
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
        if polled.is_ready()
            && let Stage::Inside(permit) = this.stage
        {
            *permit = None;
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
        loop {
            let waiting = match this.stage {
                Stage::Waiting(waiting) => waiting,
                Stage::Refused { refused, grpc } => {
                    return Poll::Ready(Ok(refused.response(*grpc)));
                }
                Stage::Inside(_) => return self.poll_response(cx),
            };
            match &mut waiting.place {
                Place::Entered(permit) => {
                    ready!(waiting.inner.poll_ready(cx))?;
                    let permit = permit.take();
                    let response =
                        waiting.request.take().map(|request| waiting.inner.call(request));
                    this.response.set(response);
                    *this.stage = Stage::Inside(permit);
                }
                Place::Queued(queued, timer) => match ready!(poll_news(queued, timer, cx)) {
                    News::Start(permit) => waiting.place = Place::Entered(Some(permit)),
                    News::Refused(refused) => {
                        let headers = waiting.request.as_ref().map(Request::headers);
                        let grpc = headers.is_some_and(is_grpc);
                        *this.stage = Stage::Refused { refused, grpc };
                    }
                },
            }
        }
    }
}

/// A caller whose deadline passes while it waits leaves the queue then, and not when its turn comes: its
/// place may be another's.
fn poll_news(
    queued: &mut Queued,
    timer: &mut Option<Pin<Box<Sleep>>>,
    cx: &mut Context<'_>,
) -> Poll<News> {
    const LATE: News = News::Refused(Refused::Late);
    if let Poll::Ready(news) = Pin::new(&mut queued.news).poll(cx) {
        return Poll::Ready(news.unwrap_or(LATE));
    }
    if let Some(timer) = timer {
        ready!(timer.as_mut().poll(cx));
        return Poll::Ready(LATE);
    }
    Poll::Pending
}
