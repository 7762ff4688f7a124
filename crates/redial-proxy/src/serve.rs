//! One connection of a caller.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::{self, OnUpgrade};
use hyper_util::rt::TokioIo;
use pin_project_lite::pin_project;
use redial::http::BoxError;
use tokio::time::{Sleep, sleep};

use crate::answer::{self, Refusal};
use crate::body::{Arriving, Outbound};
use crate::clock;
use crate::guard::{self, Wants};
use crate::io::Stream;
use crate::limits;
use crate::pool::UpgradedSlot;
use crate::shared::{Admitted, Shared};
use crate::stack::{Call, Stack};
use crate::tunnel;
use crate::world::Upstream;

/// What all requests of a connection share.
struct Caller {
    shared: Arc<Shared>,
    /// The name of the listener's upstream.
    upstream: Arc<str>,
    /// The upstream in the current world, and the generation of that world.
    current: Mutex<(u64, Option<Current>)>,
    pulse: Arc<Pulse>,
    admitted: Arc<Admitted>,
}

struct Current {
    upstream: Arc<Upstream>,
    /// A clone of the upstream's: calling it takes an exclusive reference.
    stack: Stack,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(
    mut stream: Stream,
    upstream: Arc<str>,
    shared: Arc<Shared>,
    admitted: Admitted,
) {
    let pulse = Arc::new(Pulse::default());
    stream.watch(Arc::clone(&pulse));
    let caller = Arc::new(Caller {
        shared: Arc::clone(&shared),
        upstream,
        current: Mutex::default(),
        pulse: Arc::clone(&pulse),
        admitted: Arc::new(admitted),
    });
    let service = service_fn(|request| respond(Arc::clone(&caller), request));
    let mut http = http1::Builder::new();
    http.max_header_size(limits::HEAD_BYTES);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
    let mut watch = pin!(Watch::new());
    let mut drained = pin!(shared.drain.started());
    let mut is_registered = false;
    let mut is_draining = false;
    let mut linger = pin!(None);
    poll_fn(|cx| {
        if !is_registered {
            is_registered = true;
            // Once is enough: the waker of a task stays the same. Whether it is ready is asked below.
            let _ = drained.as_mut().poll(cx);
        }
        loop {
            // An error is the caller's: it left, or sent what is not HTTP and was told so.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if is_draining || !shared.drain.has_started() {
                break;
            }
            if linger.is_none() {
                linger.set(Some(sleep(limits::LINGER)));
            }
            let is_over = linger.as_mut().as_pin_mut().is_none_or(|it| it.poll(cx).is_ready());
            if !is_over && !pulse.is_busy() {
                break;
            }
            is_draining = true;
            connection.as_mut().graceful_shutdown();
        }
        watch.as_mut().poll(&pulse, cx)
    })
    .await;
}

/// Answers one request.
async fn respond(
    caller: Arc<Caller>,
    request: Request<Incoming>,
) -> Result<Response<Returned>, Infallible> {
    caller.pulse.begin();
    let mut response = match caller.forward(request) {
        Ok(forwarded) => forwarded.response(&caller).await,
        Err(refusal) => refusal.response(),
    };
    // hyper closes a connection whose request was not read, but does not say so.
    let is_last = caller.shared.drain.has_started() || caller.pulse.is_arriving();
    if is_last && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let pulse = Arc::clone(&caller.pulse);
    Ok(response.map(|body| Returned { body, pulse, broken: None }))
}

/// A request that was accepted.
struct Forwarded {
    call: Call,
    wants: Wants,
    /// The caller's connection, if it asks for another protocol.
    upgrade: Option<OnUpgrade>,
}

impl Caller {
    fn forward(&self, request: Request<Incoming>) -> Result<Forwarded, &'static Refusal> {
        let mut guarded = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let (generation, current) = &mut *guarded;
        if *generation != self.shared.world.generation() {
            *generation = self.shared.world.generation();
            *current = self.shared.world.load().upstream(&self.upstream).map(Current::new);
        }
        let Some(Current { upstream, stack }) = current else {
            return Err(&answer::GONE);
        };
        let (mut parts, body) = request.into_parts();
        let wants = guard::request(&mut parts, &upstream.rules)?;
        let mut request = Request::from_parts(parts, Arriving::new(body, &self.pulse));
        let upgrade = (wants == Wants::WebSocket).then(|| upgrade::on(&mut request));
        Ok(Forwarded { call: stack.call(request), wants, upgrade })
    }
}

impl Current {
    fn new(upstream: &Arc<Upstream>) -> Self {
        Self { upstream: Arc::clone(upstream), stack: upstream.stack.clone() }
    }
}

impl Forwarded {
    async fn response(self, caller: &Caller) -> Response<Outbound> {
        let (mut parts, body) = self.call.response().await.into_parts();
        if let Err(refusal) = guard::response(&mut parts, self.wants) {
            return refusal.response();
        }
        if let Some(upgraded) = parts.extensions.remove::<UpgradedSlot>()
            && let (Some(endpoint), Some(caller_side)) = (upgraded.take(), self.upgrade)
        {
            tokio::spawn(tunnel::run(caller_side, *endpoint, Arc::clone(&caller.admitted)));
        }
        Response::from_parts(parts, body)
    }
}

/// What a connection of a caller is doing. Shared by its stream, its requests and its watch.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    phase: AtomicU8,
    /// How many requests have begun.
    requests: AtomicU32,
    /// Whether the body of the latest request has not been read to its end.
    is_arriving: AtomicBool,
}

/// Waiting for the first head, or in the middle of any head.
const HEAD: u8 = 0;
const BUSY: u8 = 1;
/// Between two requests.
const IDLE: u8 = 2;

impl Pulse {
    /// Bytes have arrived.
    pub(crate) fn read(&self) {
        if self.phase.load(Ordering::Relaxed) == IDLE {
            self.phase.store(HEAD, Ordering::Relaxed);
        }
    }

    fn is_busy(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == BUSY
    }

    pub(crate) fn set_arriving(&self, is_arriving: bool) {
        self.is_arriving.store(is_arriving, Ordering::Relaxed);
    }

    fn is_arriving(&self) -> bool {
        self.is_arriving.load(Ordering::Relaxed)
    }

    fn begin(&self) {
        self.phase.store(BUSY, Ordering::Relaxed);
        let requests = self.requests.load(Ordering::Relaxed).wrapping_add(1);
        self.requests.store(requests, Ordering::Relaxed);
    }

    fn end(&self) {
        self.phase.store(IDLE, Ordering::Relaxed);
    }
}

pin_project! {
    /// Ends a connection whose head does not arrive, or that is idle for too long. Its timer is set when a head is late and
    /// when it expires, but not for each request.
    struct Watch {
        #[pin]
        sleep: Sleep,
        // Whether the timer runs for a head.
        for_head: bool,
        // How many requests had begun when the timer was set.
        requests: u32,
    }
}

impl Watch {
    fn new() -> Self {
        Self { sleep: sleep(limits::HEAD), for_head: false, requests: 0 }
    }

    fn poll(self: Pin<&mut Self>, pulse: &Pulse, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let phase = pulse.phase.load(Ordering::Relaxed);
        let is_late_head = phase == HEAD && !*this.for_head;
        if !is_late_head && !this.sleep.is_elapsed() {
            *this.for_head &= phase == HEAD;
            return Poll::Pending;
        }
        let requests = pulse.requests.load(Ordering::Relaxed);
        let is_idle = phase == IDLE && requests == *this.requests;
        if !is_late_head && (is_idle || *this.for_head) {
            return Poll::Ready(());
        }
        let limit = if is_late_head { limits::HEAD } else { limits::IDLE_CALLER };
        *this.for_head = is_late_head;
        *this.requests = requests;
        this.sleep.as_mut().reset(clock::now() + limit);
        this.sleep.poll(cx)
    }
}

/// The body of a response, which tells when it has been written.
struct Returned {
    body: Outbound,
    pulse: Arc<Pulse>,
    /// Why the body broke off. hyper drops what it has not written when a body fails, so it first gets a turn to write.
    broken: Option<BoxError>,
}

impl Drop for Returned {
    fn drop(&mut self) {
        self.pulse.end();
    }
}

impl Body for Returned {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.broken.is_some() {
            return Poll::Ready(self.broken.take().map(Err));
        }
        match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Err(error)) => {
                self.broken = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            frame => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
