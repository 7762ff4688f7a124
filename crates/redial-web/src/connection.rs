//! Any program on this machine can open connections to the page, and any web site can make a browser open them; their number
//! is limited. So a connection belongs to a stranger until a request on it shows the token. A stranger has one request, little
//! time and one of few places, and when these are taken, the newest stranger gets the place of the oldest. A holder of the
//! token shows it at once, and gets in however many strangers there are.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Sleep, sleep, timeout};

/// The most connections that have shown the token. A browser opens six.
const MOST_KNOWN: usize = 192;
/// The most connections that have not.
const MOST_STRANGERS: usize = 64;
/// How long a stranger may be connected.
const STRANGER: Duration = Duration::from_secs(5);
/// From the last response to the end of the next request's head. A browser keeps idle connections for longer; it opens
/// another one.
const HEAD: Duration = Duration::from_secs(60);
/// How long a visitor may accept no byte of a response.
const STALLED: Duration = Duration::from_secs(30);

/// All connections. They break when this is dropped.
pub(crate) struct Connections {
    router: Router,
    places: Arc<Semaphore>,
    tasks: JoinSet<()>,
    /// Oldest first. Those that have shown the token, or have ended, are removed when the next one comes.
    strangers: VecDeque<(Weak<Visitor>, AbortHandle)>,
}

/// The visitor at the other end of a connection. Requests have it as an extension.
pub(crate) struct Visitor {
    places: Arc<Semaphore>,
    /// Empty for a stranger. `None` if the connection has to end: there was no place, or a newer stranger got it.
    place: OnceLock<Option<OwnedSemaphorePermit>>,
}

impl Connections {
    pub(crate) fn new(router: Router) -> Self {
        let places = Arc::new(Semaphore::new(MOST_KNOWN));
        Self { router, places, tasks: JoinSet::new(), strangers: VecDeque::new() }
    }

    /// Serves a new connection.
    pub(crate) fn add(&mut self, stream: TcpStream) {
        while self.tasks.try_join_next().is_some() {}
        let is_stranger = |visitor: &Visitor| visitor.place.get().is_none();
        self.strangers.retain(|(visitor, _)| visitor.upgrade().is_some_and(|it| is_stranger(&it)));
        if self.strangers.len() >= MOST_STRANGERS
            && let Some((oldest, task)) = self.strangers.pop_front()
            // It may show the token at this moment.
            && oldest.upgrade().is_some_and(|oldest| oldest.place.get_or_init(|| None).is_none())
        {
            task.abort();
        }
        let visitor =
            Arc::new(Visitor { places: Arc::clone(&self.places), place: OnceLock::new() });
        let known_as = Arc::downgrade(&visitor);
        let task = self.tasks.spawn(serve(stream, self.router.clone(), visitor));
        self.strangers.push_back((known_as, task));
    }
}

impl Visitor {
    /// A request has shown the token. Returns false if there are too many connections.
    pub(crate) fn admit(&self) -> bool {
        let place = || Arc::clone(&self.places).try_acquire_owned().ok();
        self.place.get_or_init(place).is_some()
    }

    fn is_known(&self) -> bool {
        self.place.get().is_some_and(Option::is_some)
    }
}

async fn serve(stream: TcpStream, router: Router, visitor: Arc<Visitor>) {
    // Without it, a live sample may wait for an acknowledgement.
    let _ = stream.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&visitor));
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(Stream { stream, stalled: None }), service);
    let mut connection = std::pin::pin!(connection);
    // The browser notices if it breaks.
    if timeout(STRANGER, &mut connection).await.is_err() && visitor.is_known() {
        let _ = connection.await;
    }
}

/// A connection that fails when its visitor accepts nothing for [`STALLED`].
struct Stream {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Stream {
    fn watch(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALLED)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
