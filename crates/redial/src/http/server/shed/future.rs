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
        #[pin]
        state: State<S, B>,
    }
}

pin_project! {
    #[project = Stage]
    enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        Running { #[pin] response: S::Future, permit: Option<Permit> },
        Waiting { waiting: Box<Waiting<S, B>> },
        Refused { refused: Refused, grpc: bool },
    }
}

/// A request that has not been started.
struct Waiting<S, B> {
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
    #[inline]
    pub(super) fn running(response: S::Future, permit: Permit) -> Self {
        Self { state: State::Running { response, permit: Some(permit) } }
    }

    pub(super) fn refused(refused: Refused, grpc: bool) -> Self {
        Self { state: State::Refused { refused, grpc } }
    }

    pub(super) fn entered(inner: S, request: Request<B>, permit: Permit) -> Self {
        Self::waiting(inner, request, Place::Entered(Some(permit)))
    }

    pub(super) fn queued(inner: S, request: Request<B>, queued: Queued) -> Self {
        let timer = timer(queued.deadline).map(Box::pin);
        Self::waiting(inner, request, Place::Queued(queued, timer))
    }

    fn waiting(inner: S, request: Request<B>, place: Place) -> Self {
        let waiting = Box::new(Waiting { inner, request: Some(request), place });
        Self { state: State::Waiting { waiting } }
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
        let mut state = self.project().state;
        match state.as_mut().project() {
            Stage::Running { response, permit } => {
                let response = response.poll(cx);
                if response.is_ready() {
                    *permit = None;
                }
                response
            }
            _ => poll_not_started(state, cx),
        }
    }
}

#[cold]
#[inline(never)]
fn poll_not_started<S, B, R>(
    mut state: Pin<&mut State<S, B>>,
    cx: &mut Context<'_>,
) -> Poll<Result<Response<R>, S::Error>>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    loop {
        let next = match state.as_mut().project() {
            Stage::Waiting { waiting } => ready!(waiting.poll_start(cx))?,
            Stage::Refused { refused, grpc } => return Poll::Ready(Ok(refused.response(*grpc))),
            Stage::Running { response, permit } => {
                let response = ready!(response.poll(cx));
                *permit = None;
                return Poll::Ready(response);
            }
        };
        state.set(next);
    }
}

impl<S: Service<Request<B>>, B> Waiting<S, B> {
    fn poll_start(&mut self, cx: &mut Context<'_>) -> Poll<Result<State<S, B>, S::Error>> {
        loop {
            match &mut self.place {
                Place::Entered(permit) => {
                    ready!(self.inner.poll_ready(cx))?;
                    // Both are there: a state that has started is replaced by the one that is returned.
                    let Some(request) = self.request.take() else { return Poll::Pending };
                    let permit = permit.take();
                    let response = self.inner.call(request);
                    return Poll::Ready(Ok(State::Running { response, permit }));
                }
                Place::Queued(queued, timer) => match ready!(poll_news(queued, timer, cx)) {
                    News::Start(permit) => self.place = Place::Entered(Some(permit)),
                    News::Refused(refused) => {
                        let grpc = self.request.as_ref().is_some_and(|r| is_grpc(r.headers()));
                        return Poll::Ready(Ok(State::Refused { refused, grpc }));
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
