//! Connections to one endpoint that no request uses.
//!
//! Each thread has its own: a connection is tied to the thread that opened it. The newest is used first, so that the others
//! can expire.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use redial::http::BoxError;

use super::endpoint::Lease;
use super::wire::{Link, Sent, Unanswered, Upgraded, Wire};
use crate::headers::names::KEEP_ALIVE;
use crate::limits;
use crate::net::timer::Timer;
use crate::request_body::RequestBody;

thread_local! {
    /// The place of this thread among the threads of the proxy.
    static THREAD: Cell<usize> = const { Cell::new(0) };
    /// The time, counted in [`TICK_MILLIS`]s. Reading a clock twice for each request would cost more.
    static TICKS: Cell<u32> = const { Cell::new(0) };
}

/// How often a thread calls [`tick`], in milliseconds.
pub(crate) const TICK_MILLIS: u64 = 250;

/// Gives the thread its place.
pub(crate) fn enter(thread: usize) {
    THREAD.set(thread);
}

/// Advances the time of this thread.
pub(crate) fn tick() {
    TICKS.set(TICKS.get().wrapping_add(1));
}

pub(crate) struct Pool {
    /// For each thread, the connections in the order in which they became idle.
    idle: Box<[Mutex<Vec<Idle>>]>,
}

struct Idle {
    wire: Box<Wire>,
    /// In ticks of the thread.
    expires: u32,
}

impl Idle {
    fn is_expired(&self) -> bool {
        self.expires.wrapping_sub(TICKS.get()).cast_signed() <= 0
    }
}

impl Pool {
    pub(crate) fn new(threads: usize) -> Self {
        Self { idle: (0..threads).map(|_| Mutex::default()).collect() }
    }

    fn idle(&self) -> Option<MutexGuard<'_, Vec<Idle>>> {
        let idle = self.idle.get(THREAD.get())?;
        Some(idle.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The connection that became idle last, if it has not expired.
    fn take(&self) -> Option<Box<Wire>> {
        loop {
            let idle = self.idle()?.pop()?;
            if !idle.is_expired() {
                return Some(idle.wire);
            }
        }
    }

    fn put(&self, wire: Box<Wire>, ticks: u32) {
        if let Some(mut idle) = self.idle() {
            idle.push(Idle { wire, expires: TICKS.get().wrapping_add(ticks) });
        }
    }

    /// Closes the connections of this thread that have expired.
    pub(crate) fn sweep(&self) {
        if let Some(mut idle) = self.idle() {
            idle.retain(|idle| !idle.is_expired());
        }
    }
}

/// The beginning of a response.
pub(crate) type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, BoxError>> + Send>>;

/// Sends a request to an endpoint. What a request on an idle connection needs is separate from the rest, and small: larger
/// allocations cost more.
#[inline]
pub(crate) fn send(lease: Lease, request: Request<RequestBody>) -> ResponseFuture {
    match lease.endpoint().pool.take() {
        Some(wire) => Box::pin(Reused { sent: wire.send(request), lease: Some(lease), rest: None }),
        None => Box::pin(open(lease, request)),
    }
}

pin_project! {
    /// A request on a connection that was idle.
    struct Reused<F> {
        #[pin]
        sent: Sent<F>,
        // `None` once `rest` has it.
        lease: Option<Lease>,
        // All that is not an ordinary response.
        rest: Option<ResponseFuture>,
    }
}

impl<F> Future for Reused<F>
where
    Sent<F>: Future<Output = Result<(Response<Incoming>, Box<Wire>), Unanswered>>,
{
    type Output = Result<Response<ResponseBody>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(rest) = this.rest {
            return rest.as_mut().poll(cx);
        }
        let sent = ready!(this.sent.poll(cx));
        let Some(lease) = this.lease.take() else { unreachable!("polled after the response") };
        let rest: ResponseFuture = match sent {
            Ok((response, wire)) if !switches(&response) => {
                return Poll::Ready(Ok(receive(lease, response, wire.link())));
            }
            Ok((response, wire)) => Box::pin(switch(lease, response, wire)),
            // The endpoint closed the connection while it was idle. This is no failure of the endpoint. Other idle
            // connections are probably closed too, and there may be thousands.
            Err(Unanswered::Unsent(request, _)) => Box::pin(open(lease, *request)),
            Err(Unanswered::Failed(error)) => return Poll::Ready(Err(lease.fail(error))),
        };
        this.rest.insert(rest).as_mut().poll(cx)
    }
}

fn switches(response: &Response<Incoming>) -> bool {
    response.status() == StatusCode::SWITCHING_PROTOCOLS
}

async fn switch(
    lease: Lease,
    response: Response<Incoming>,
    wire: Box<Wire>,
) -> Result<Response<ResponseBody>, BoxError> {
    Ok(receive(lease, response, wire.upgrade().await))
}

async fn open(
    lease: Lease,
    request: Request<RequestBody>,
) -> Result<Response<ResponseBody>, BoxError> {
    let stream = match lease.endpoint().dialer.dial().await {
        Ok(stream) => stream,
        Err(error) => return Err(lease.fail(error)),
    };
    let wire = Box::new(Wire::new(stream).await?);
    match wire.send(request).await {
        Ok((response, wire)) if switches(&response) => switch(lease, response, wire).await,
        Ok((response, wire)) => Ok(receive(lease, response, wire.link())),
        Err(Unanswered::Unsent(_, error) | Unanswered::Failed(error)) => Err(lease.fail(error)),
    }
}

fn receive(mut lease: Lease, response: Response<Incoming>, link: Link) -> Response<ResponseBody> {
    lease.respond(response.status());
    let ticks = idle_ticks(response.headers());
    let mut response = response.map(|incoming| ResponseBody {
        has_ended: incoming.is_end_stream(),
        incoming,
        link,
        lease: Some(lease),
        ticks,
        paused: Timer::default(),
    });
    if let Link::Upgraded(_) = &response.body().link
        && let Link::Upgraded(mut upgraded) = response.body_mut().take_link()
    {
        upgraded.lease = response.body_mut().lease.take();
        response.extensions_mut().insert(UpgradedSlot(Arc::new(Mutex::new(Some(upgraded)))));
    }
    response
}

/// How long the connection may be idle afterwards. A server that says when it closes an idle connection must not be
/// sent a request at that moment.
fn idle_ticks(headers: &HeaderMap) -> u32 {
    let most =
        u32::try_from(limits::IDLE_UPSTREAM.as_millis() / u128::from(TICK_MILLIS)).unwrap_or(0);
    let Some(seconds) = headers.get(KEEP_ALIVE).and_then(timeout) else { return most };
    let per_second = u32::try_from(1000 / TICK_MILLIS).unwrap_or(1);
    seconds.saturating_sub(1).saturating_mul(per_second).min(most)
}

/// The seconds in `Keep-Alive: timeout=5, max=100`.
fn timeout(value: &HeaderValue) -> Option<u32> {
    let mut parts = value.to_str().ok()?.split(',').filter_map(|part| part.split_once('='));
    let (_, seconds) = parts.find(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"))?;
    seconds.trim().parse().ok()
}

/// A connection that is no longer HTTP, among the extensions of its response. Taken once.
#[derive(Clone)]
pub(crate) struct UpgradedSlot(Arc<Mutex<Option<Box<Upgraded>>>>);

impl UpgradedSlot {
    pub(crate) fn take(&self) -> Option<Box<Upgraded>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The body of an endpoint's response. When it is dropped, its connection goes back to the pool if the end of the body has
/// arrived, and is closed otherwise.
pub(crate) struct ResponseBody {
    incoming: Incoming,
    has_ended: bool,
    link: Link,
    /// `None` for a connection that is no longer HTTP, which has it.
    lease: Option<Lease>,
    /// How long the connection may be idle afterwards.
    ticks: u32,
    paused: Timer,
}

impl ResponseBody {
    /// Reads what has arrived and was not wanted, as the body of a response that is retried. Returns whether that is all.
    #[cold]
    fn drain(&mut self) -> bool {
        if !matches!(self.link, Link::Polled(_))
            || self.incoming.size_hint().lower() > limits::DRAINED_BYTES
        {
            return false;
        }
        let mut noop = Context::from_waker(Waker::noop());
        for _ in 0..limits::DRAINED_FRAMES {
            match self.link.poll_frame(&mut self.incoming, &mut noop) {
                Poll::Ready(Some(Ok(_))) => {}
                end => return matches!(end, Poll::Ready(None)),
            }
        }
        false
    }

    fn take_link(&mut self) -> Link {
        std::mem::replace(&mut self.link, Link::Closed)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { incoming, link, paused, .. } = &mut *self;
        let frame = link.poll_frame(incoming, cx);
        match frame {
            Poll::Pending if paused.poll(limits::RESPONSE_BODY, cx).is_ready() => {
                self.link = Link::Closed;
                Poll::Ready(Some(Err("the upstream sent no part of the body for 300 s".into())))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Err(error))) => {
                self.link = Link::Closed;
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(Some(Ok(frame))) => {
                paused.stop();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.has_ended = true;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        if self.ticks > 0
            && (self.has_ended || self.incoming.is_end_stream() || self.drain())
            && let Link::Polled(mut wire) = self.take_link()
            && wire.is_reusable()
            && let Some(lease) = &self.lease
        {
            lease.endpoint().pool.put(wire, self.ticks);
        }
    }
}
