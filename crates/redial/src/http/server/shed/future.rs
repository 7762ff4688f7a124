use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use redial_core::Nanos;
use tokio::time::Sleep;
use tower_service::Service;

use super::places::{Arrived, News, Permit, Places, Queued, Refused};
use crate::http::server::handover;
use crate::http::server::vacancy::{self, Turn, Wish};
use crate::http::travel::is_grpc;
use crate::run::timer;

pin_project! {
    /// A request that is served, waits for a place, or is turned away.
    ///
    /// It holds its place until there is a response, or until it is dropped, with two exceptions under an
    /// [`IdempotencyLayer`](crate::http::server::IdempotencyLayer): while the body of a request with a key is
    /// arriving it holds none, and an execution that continues after its caller has left keeps the place. A
    /// response body that is streamed afterwards holds none: how long that takes is up to the reader, and slow
    /// readers must not be able to close a server.
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

const LATE: News = News::Refused(Refused::Late);

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
    /// It was started, and gave its place back because its body is still arriving.
    Away(Arc<Places>),
    /// It was started, its body has arrived, and it waits for a place.
    Returning(Box<Returning>),
    Refused {
        refused: Refused,
        grpc: bool,
    },
}

/// A request that waits for a place after its body has arrived.
pub(super) struct Returning {
    queued: Queued,
    /// Until its caller stops waiting.
    timer: Option<Pin<Box<Sleep>>>,
    grpc: bool,
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
        if matches!(self.stage, Stage::Started) {
            self.poll_response(cx)
        } else {
            self.poll_stage(cx)
        }
    }
}

impl<S, B, R> ShedFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    /// By itself, so that the response is written where it is returned.
    #[inline(always)]
    fn poll_response(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<<Self as Future>::Output> {
        let this = self.as_mut().project();
        let turn = Turn::begin(this.permit.is_some());
        let polled = match this.response.as_pin_mut() {
            Some(response) => response.poll(cx),
            None => Poll::Pending,
        };
        let wish = turn.end();
        if polled.is_ready() {
            *this.permit = None;
        } else if let Some(wish) = wish {
            return self.heed(wish, cx);
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
        match this.stage {
            Stage::Started | Stage::Away(_) => self.poll_response(cx),
            Stage::Refused { refused, grpc } => Poll::Ready(Ok(refused.response(*grpc))),
            Stage::Waiting(waiting) => match ready!(waiting.poll_news(cx))? {
                News::Start(permit) => {
                    let request = waiting.request.take();
                    this.response.set(request.map(|request| waiting.inner.call(request)));
                    self.go_on(permit, cx)
                }
                News::Refused(refused) => {
                    let headers = waiting.request.as_ref().map(Request::headers);
                    let grpc = headers.is_some_and(is_grpc);
                    self.refuse(refused, grpc)
                }
            },
            Stage::Returning(returning) => {
                let grpc = returning.grpc;
                match ready!(returning.poll_news(cx)) {
                    News::Start(permit) => self.go_on(permit, cx),
                    News::Refused(refused) => self.refuse(refused, grpc),
                }
            }
        }
    }

    /// Does what the request has asked for while it was polled. Gates further out hear of it, too: a place in
    /// each of them has to be given back, and theirs are taken first, as when the request came.
    #[cold]
    #[inline(never)]
    fn heed(
        mut self: Pin<&mut Self>,
        wish: Wish,
        cx: &mut Context<'_>,
    ) -> Poll<<Self as Future>::Output> {
        let this = self.as_mut().project();
        let again = match wish {
            Wish::Return(again) if vacancy::is_held() => again,
            Wish::Return(_) => {
                vacancy::tell(wish);
                return Poll::Pending;
            }
            Wish::Leave => {
                if let Some(permit) = this.permit.take() {
                    *this.stage = Stage::Away(permit.give_back());
                }
                vacancy::tell(wish);
                return Poll::Pending;
            }
        };
        let Stage::Away(places) = &*this.stage else { return Poll::Pending };
        match places.arrive_again(&again) {
            Arrived::Entered(permit, _) => self.go_on(permit, cx),
            Arrived::Queued(queued, deadline) => {
                let timer = timer(deadline).map(Box::pin);
                let returning = Returning { queued, timer, grpc: again.grpc };
                *this.stage = Stage::Returning(Box::new(returning));
                self.poll_stage(cx)
            }
            Arrived::Refused(refused) => self.refuse(refused, again.grpc),
        }
    }

    fn go_on(
        mut self: Pin<&mut Self>,
        permit: Permit,
        cx: &mut Context<'_>,
    ) -> Poll<<Self as Future>::Output> {
        let this = self.as_mut().project();
        *this.permit = Some(permit);
        *this.stage = Stage::Started;
        self.poll_response(cx)
    }

    fn refuse(
        self: Pin<&mut Self>,
        refused: Refused,
        grpc: bool,
    ) -> Poll<<Self as Future>::Output> {
        let mut this = self.project();
        this.response.set(None);
        *this.stage = Stage::Refused { refused, grpc };
        Poll::Ready(Ok(refused.response(grpc)))
    }
}

impl Returning {
    fn poll_news(&mut self, cx: &mut Context<'_>) -> Poll<News> {
        if let Poll::Ready(news) = Pin::new(&mut self.queued.news).poll(cx) {
            return Poll::Ready(news.unwrap_or(LATE));
        }
        if let Some(timer) = &mut self.timer {
            ready!(timer.as_mut().poll(cx));
            return Poll::Ready(LATE);
        }
        Poll::Pending
    }
}

impl<S: Service<Request<B>>, B> Waiting<S, B> {
    /// Whether it can be started. A caller whose deadline passes meanwhile leaves then, and not when its turn
    /// comes or the service is ready: its place may be another's.
    fn poll_news(&mut self, cx: &mut Context<'_>) -> Poll<Result<News, S::Error>> {
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
