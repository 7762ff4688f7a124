//! One connection to an endpoint.
//!
//! hyper expects a connection to be a task of its own. Here the task of the request polls it, which saves several wake-ups
//! per request: the connection makes progress only while a response is awaited or read. Two rules follow. hyper's own
//! channels inside of a connection need no waker, because they change only when the connection is polled. And a
//! request that is still being sent when its response begins gets a task after all, because a caller that does not read
//! its response must not stop its own request.

use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use pin_project_lite::pin_project;
use redial::http::BoxError;
use tokio::task::AbortHandle;
use tokio::task::coop::{Unconstrained, unconstrained};

use super::endpoint::Lease;
use crate::limits;
use crate::net::stream::Stream;
use crate::request_body::RequestBody;

/// A connection that is not in use, or in use by one request.
pub(crate) struct Wire {
    sender: SendRequest<Sending>,
    /// `None` once requests in its queue had to be returned.
    connection: Option<Connection<TokioIo<Stream>, Sending>>,
    is_over: bool,
    /// Whether the body of the latest request has been sent.
    sent: Arc<AtomicBool>,
}

/// Why a request got no response.
pub(crate) enum Unanswered {
    /// No byte of it was sent.
    Unsent(Box<Request<RequestBody>>, hyper::Error),
    Failed(hyper::Error),
}

/// The connection that a response arrives on.
pub(crate) enum Link {
    /// Polled with the body.
    Polled(Box<Wire>),
    /// Polled by a task of its own, because the request is still being sent. Not used again.
    Task(#[expect(dead_code, reason = "ends the task when dropped")] Task),
    /// No longer HTTP.
    Upgraded(Box<Upgraded>),
    /// Ended.
    Closed,
}

/// A connection that is no longer HTTP.
pub(crate) struct Upgraded {
    pub(crate) stream: Stream,
    /// What the endpoint has sent already.
    pub(crate) received: Bytes,
    /// The request that it began with.
    pub(crate) lease: Option<Lease>,
}

impl Wire {
    pub(crate) async fn new(mut stream: Stream) -> Result<Self, hyper::Error> {
        stream.read_after_hang_up(true);
        let mut http = http1::Builder::new();
        // Requests are small most often, and copying them into one buffer is cheaper than a list of parts.
        http.max_header_size(limits::HEAD_BYTES).writev(false);
        let (sender, connection) = http.handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, connection: Some(connection), is_over: false, sent: Arc::default() })
    }

    /// Whether the connection can take another request, after the end of a response. If the endpoint closes it later, this
    /// is usually noticed before the next request is written: hyper reads first, and returns the request.
    pub(crate) fn is_reusable(&mut self) -> bool {
        // Most often hyper has noticed the end of the response while it read it.
        if !self.is_over && !self.sender.is_ready() {
            // Ended or not, this is known from its fields afterwards.
            let _ = self.poll(&mut Context::from_waker(Waker::noop()));
        }
        !self.is_over && self.sender.is_ready()
    }

    /// Ready when the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_over
            && let Some(connection) = &mut self.connection
        {
            // An error is also that of the request, or of the body of its response.
            self.is_over = connection.poll_without_shutdown(cx).is_ready();
        }
        if self.is_over { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Sends a request.
    #[inline]
    pub(crate) fn send(
        mut self: Box<Self>,
        request: Request<RequestBody>,
    ) -> Sent<impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Sending>>>> + Send>
    {
        self.sent.store(false, Ordering::Relaxed);
        let sent = Arc::clone(&self.sent);
        let request = request.map(|body| Sending { body, _sent: SetWhenDropped(sent) });
        let response = unconstrained(self.sender.try_send_request(request));
        Sent { response, wire: Some(self), is_written: false }
    }

    /// The connection of a response that has begun and does not end HTTP.
    pub(crate) fn link(mut self: Box<Self>) -> Link {
        if self.is_over {
            return Link::Closed;
        }
        if self.sent.load(Ordering::Relaxed) {
            return Link::Polled(self);
        }
        let task = tokio::spawn(async move { poll_fn(|cx| self.poll(cx)).await });
        Link::Task(Task(task.abort_handle()))
    }

    /// The same for a response after which the connection is no longer HTTP.
    pub(crate) async fn upgrade(mut self: Box<Self>) -> Link {
        poll_fn(|cx| self.poll(cx)).await;
        let Some(connection) = self.connection.take() else { return Link::Closed };
        let parts = connection.into_parts();
        let mut stream = parts.io.into_inner();
        stream.read_after_hang_up(false);
        Link::Upgraded(Box::new(Upgraded { stream, received: parts.read_buf, lease: None }))
    }
}

pin_project! {
    /// A request that is sent. The future is the beginning of its response. Written by hand, because the one of an async
    /// function would hold its arguments twice.
    pub(crate) struct Sent<F> {
        #[pin]
        response: Unconstrained<F>,
        // `None` once there is a response or an error.
        wire: Option<Box<Wire>>,
        is_written: bool,
    }
}

impl<F> Future for Sent<F>
where
    F: Future<Output = Result<Response<Incoming>, TrySendError<Request<Sending>>>>,
{
    type Output = Result<(Response<Incoming>, Box<Wire>), Unanswered>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(mut wire) = this.wire.take() else { unreachable!("polled after the response") };
        let mut noop = Context::from_waker(Waker::noop());
        let mut poll = |cx: &mut Context<'_>| {
            let is_over = wire.poll(cx).is_ready();
            let answered = this.response.as_mut().poll(&mut noop).map_err(Unanswered::from);
            if answered.is_ready() || !is_over {
                return answered;
            }
            // It returns the requests in its queue.
            wire.connection = None;
            this.response.as_mut().poll(&mut noop).map_err(Unanswered::from)
        };
        // A waker is registered only if there is something to wait for: hyper wakes also for what this very poll does.
        let mut answered = Poll::Pending;
        if mem::replace(this.is_written, true) {
            answered = poll(&mut Context::from_waker(Waker::noop()));
        }
        if answered.is_pending() {
            answered = poll(cx);
        }
        match answered {
            Poll::Ready(Ok(response)) => Poll::Ready(Ok((response, wire))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                *this.wire = Some(wire);
                Poll::Pending
            }
        }
    }
}

impl From<TrySendError<Request<Sending>>> for Unanswered {
    #[cold]
    fn from(mut error: TrySendError<Request<Sending>>) -> Self {
        match error.take_message() {
            Some(request) => {
                Self::Unsent(Box::new(request.map(|sending| sending.body)), error.into_error())
            }
            None => Self::Failed(error.into_error()),
        }
    }
}

impl Link {
    /// The next frame of a response's body.
    pub(crate) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self::Polled(wire) = self else { return Pin::new(body).poll_frame(cx) };
        let mut noop = Context::from_waker(Waker::noop());
        // As for the head: no waker while there is something to return.
        let frame = Pin::new(&mut *body).poll_frame(&mut noop);
        if frame.is_ready() {
            return frame;
        }
        for cx in [&mut Context::from_waker(Waker::noop()), &mut *cx] {
            if wire.poll(cx).is_ready() {
                // Dropped, it ends the body too.
                *self = Self::Closed;
                return Pin::new(body).poll_frame(cx);
            }
            let frame = Pin::new(&mut *body).poll_frame(&mut noop);
            if frame.is_ready() {
                return frame;
            }
        }
        Poll::Pending
    }
}

/// Ends when dropped.
pub(crate) struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The body of a request that is being sent.
pub(crate) struct Sending {
    body: RequestBody,
    /// hyper drops the body at its end.
    _sent: SetWhenDropped,
}

struct SetWhenDropped(Arc<AtomicBool>);

impl Drop for SetWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
