//! One connection of a caller.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::{self, OnUpgrade};
use hyper_util::rt::TokioIo;
use redial::http::server::idempotency::Principal;
use redial::http::{BoxError, names};
use redial_policy::file::ServerTls;
use tokio::time::sleep;

use super::checks::{self, Wants};
use super::listener::Listener;
use super::tunnel;
use crate::access_log::Entry;
use crate::config::snapshot::Upstream;
use crate::headers::forwarding::Origin;
use crate::layers::{Call, Stack};
use crate::limits;
use crate::net::activity::{Activity, EndOfDrain, Watch};
use crate::net::stream::Stream;
use crate::request_body::Arriving;
use crate::responses::body::Outbound;
use crate::responses::{self, Refusal};
use crate::shared::{Admitted, Shared};
use crate::upstream::pool::UpgradedSlot;

/// Where a connection was accepted, and on which terms.
pub(crate) struct Entrance {
    pub(crate) listener: Arc<Listener>,
    pub(crate) tls: Option<ServerTls>,
    /// The address of the caller, if it has one.
    pub(crate) peer: Option<IpAddr>,
    /// Who its client certificate is for, if it has one.
    pub(crate) principal: Option<Principal>,
}

/// What all requests of a connection share.
struct Caller {
    shared: Arc<Shared>,
    entrance: Entrance,
    current: Mutex<Current>,
    activity: Arc<Activity>,
    admitted: Arc<Admitted>,
}

/// Where requests go in the current snapshot.
struct Current {
    /// That of the snapshot.
    generation: u64,
    /// The name of the upstream, also of one that is gone.
    name: Arc<str>,
    destination: Result<Destination, &'static Refusal>,
}

struct Destination {
    upstream: Arc<Upstream>,
    /// A clone of the upstream's: calling it takes an exclusive reference.
    stack: Stack,
    /// What the upstream is told of the caller, if the caller is not trusted to say it.
    origin: Option<Origin>,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(
    mut stream: Stream,
    entrance: Entrance,
    shared: Arc<Shared>,
    admitted: Admitted,
) {
    let activity = Arc::new(Activity::default());
    stream.watch(Arc::clone(&activity));
    let caller = Arc::new(Caller {
        shared: Arc::clone(&shared),
        entrance,
        current: Mutex::new(Current {
            generation: 0,
            name: Arc::default(),
            destination: Err(&responses::GONE),
        }),
        activity: Arc::clone(&activity),
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
    let end_of_drain = EndOfDrain::new(&activity);
    poll_fn(|cx| {
        if !is_registered {
            is_registered = true;
            // Once is enough: the waker of a task stays the same. Whether it is ready is asked below.
            let _ = drained.as_mut().poll(cx);
        }
        loop {
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                if let Err(error) = ended {
                    caller.failed(&error);
                }
                return Poll::Ready(());
            }
            if is_draining || !shared.drain.has_started() {
                break;
            }
            if linger.is_none() {
                linger.set(Some(sleep(limits::LINGER)));
            }
            let is_over = linger.as_mut().as_pin_mut().is_none_or(|it| it.poll(cx).is_ready());
            if !is_over && !activity.is_busy() {
                break;
            }
            is_draining = true;
            connection.as_mut().graceful_shutdown();
        }
        watch.as_mut().poll(&activity, cx)
    })
    .await;
    end_of_drain.disarm();
}

/// Answers one request.
async fn respond(
    caller: Arc<Caller>,
    mut request: Request<Incoming>,
) -> Result<Response<Returned>, Infallible> {
    caller.activity.begin();
    // hyper drops the body of a response to HEAD and does not read it.
    let has_ended = request.method() == Method::HEAD;
    let access = caller.shared.access.as_ref();
    let mut entry = access.map(|it| it.begin(&caller.current().name, &mut request));
    let mut response = match caller.forward(request, entry.as_mut()) {
        Ok(Forwarded { call, wants, upgrade }) => {
            // Awaited here and not in a function of its own, whose future would hold the call twice.
            let response = call.await;
            caller.returned(response, wants, upgrade)
        }
        Err(refusal) => refusal.response(),
    };
    // hyper closes a connection whose request was not read, but does not say so.
    let is_last = caller.shared.drain.has_started() || caller.activity.is_arriving();
    if is_last && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(entry) = &mut entry {
        entry.answered(&response);
    }
    let activity = Arc::clone(&caller.activity);
    Ok(response.map(|body| Returned { body, activity, broken: None, has_ended, entry }))
}

/// A request that was accepted.
struct Forwarded {
    call: Call,
    wants: Wants,
    /// The caller's connection, if it asks for another protocol.
    upgrade: Option<OnUpgrade>,
}

impl Caller {
    fn forward(
        &self,
        request: Request<Incoming>,
        entry: Option<&mut Entry>,
    ) -> Result<Forwarded, &'static Refusal> {
        let mut current = self.current();
        let Destination { upstream, stack, origin } =
            current.destination.as_mut().map_err(|it| *it)?;
        let (mut parts, body) = request.into_parts();
        let wants = checks::request(&mut parts, &upstream.rules, origin.as_ref())?;
        if let Some(entry) = entry {
            entry.forwarded(upstream, &parts);
        }
        if let Some(principal) = &self.entrance.principal {
            parts.extensions.insert(principal.clone());
        }
        let mut request =
            Request::from_parts(parts, Arriving::new(body, &self.activity, upstream.rules.trust));
        let upgrade = (wants == Wants::WebSocket).then(|| upgrade::on(&mut request));
        Ok(Forwarded { call: stack.call(request), wants, upgrade })
    }

    /// The connection has failed: the caller left, or sent an invalid request head. hyper answers those by itself and
    /// without a text, and HTTP/2 not at all, so that all that is left to do is to log them.
    #[cold]
    fn failed(&self, error: &hyper::Error) {
        let status = if error.is_parse_version_h2() {
            None
        } else if error.is_parse_too_large() {
            Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)
        } else {
            Some(StatusCode::BAD_REQUEST)
        };
        if let Some(access) = self.shared.access.as_ref().filter(|_| error.is_parse()) {
            access.unreadable(&self.current().name, status);
        }
    }

    /// Prepares an endpoint's response, or the proxy's own, for the caller.
    fn returned(
        &self,
        mut response: Response<Outbound>,
        wants: Wants,
        upgrade: Option<OnUpgrade>,
    ) -> Response<Outbound> {
        if let Err(refusal) = checks::response(&mut response, wants) {
            return refusal.response();
        }
        let (_, parked) = responses::ending(response.extensions());
        if !parked.is_zero()
            && let Ok(seconds) = HeaderValue::try_from(format!("{:.3}", parked.as_secs_f64()))
        {
            response.headers_mut().insert(names::PARKED, seconds);
        }
        if let Some(caller_side) = upgrade
            && let Some(upgraded) = response.extensions_mut().remove::<UpgradedSlot>()
            && let Some(endpoint) = upgraded.take()
        {
            tokio::spawn(tunnel::run(caller_side, *endpoint, Arc::clone(&self.admitted)));
        }
        response
    }

    /// Follows the listener's upstream into the current snapshot.
    fn current(&self) -> MutexGuard<'_, Current> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = self.shared.snapshot.generation();
        if current.generation != generation {
            current.generation = generation;
            let snapshot = self.shared.snapshot.load();
            let Entrance { listener, tls, .. } = &self.entrance;
            current.destination = match listener.upstream(&snapshot) {
                None => Err(&responses::GONE),
                Some((table, upstream)) => {
                    current.name = table.name.as_str().into();
                    match table.listen_tls == *tls {
                        true => Ok(Destination::new(upstream, &self.entrance)),
                        false => Err(&responses::OTHER_TLS),
                    }
                }
            };
        }
        current
    }
}

impl Destination {
    fn new(upstream: &Arc<Upstream>, entrance: &Entrance) -> Self {
        let origin = || Origin::new(entrance.peer, entrance.tls.is_some());
        let origin = (!upstream.rules.trust).then(origin);
        Self { upstream: Arc::clone(upstream), stack: upstream.stack.clone(), origin }
    }
}

/// The body of a response, which tells when it has been written.
struct Returned {
    body: Outbound,
    activity: Arc<Activity>,
    /// Why the body broke off. hyper drops what it has not written when a body fails, so it first gets a turn to write.
    broken: Option<BoxError>,
    has_ended: bool,
    /// Logged at the end.
    entry: Option<Entry>,
}

impl Drop for Returned {
    fn drop(&mut self) {
        self.activity.end();
        if let Some(entry) = &mut self.entry
            && !self.has_ended
            && !self.body.is_end_stream()
        {
            entry.cut_off(if self.activity.is_cut_off() { "drain" } else { "caller" });
        }
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
                self.has_ended = true;
                if let Some(entry) = &mut self.entry {
                    entry.cut_off("upstream");
                }
                self.broken = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            frame => {
                self.has_ended |= frame.is_none();
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
