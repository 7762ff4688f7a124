//! A receiver of webhooks that records the requests.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri, Version};
use axum::response::{IntoResponse as _, Response};
use axum::serve::{Listener, ListenerExt as _};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A status, headers and a body.
#[derive(Clone, Debug)]
pub(crate) struct Answer(pub u16, pub Vec<(&'static str, &'static str)>, pub String);

pub(crate) fn status(status: u16) -> Answer {
    Answer(status, Vec::new(), String::new())
}

impl Answer {
    pub(crate) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.1.push((name, value));
        self
    }

    pub(crate) fn body(self, body: impl Into<String>) -> Self {
        Self(self.0, self.1, body.into())
    }
}

/// A request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub method: Method,
    pub uri: Uri,
    pub version: Version,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Seen {
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).unwrap_or_else(|| panic!("{name} in {self:?}"));
        std::str::from_utf8(value.as_bytes()).unwrap()
    }
}

#[derive(Clone)]
pub(crate) struct Sink {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// In reverse order.
    answers: Mutex<Vec<Answer>>,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
}

impl Sink {
    /// Answers from the list, and repeats the last one.
    pub(crate) async fn start(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let this = Self::new(address, "http", answers);
        let shared = Arc::clone(&this.shared);
        let counted = listener.tap_io(move |_| count(&shared));
        let app = this.app();
        tokio::spawn(async move { axum::serve(counted, app).await });
        this
    }

    /// The same with TLS.
    pub(crate) async fn start_tls(answers: &[Answer], config: ServerConfig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let this = Self::new(address, "https", answers);
        let shared = Arc::clone(&this.shared);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let counted = TlsListener { listener, acceptor }.tap_io(move |_| count(&shared));
        let app = this.app();
        tokio::spawn(async move { axum::serve(counted, app).await });
        this
    }

    fn new(address: SocketAddr, scheme: &'static str, answers: &[Answer]) -> Self {
        let shared = Shared::default();
        *shared.answers.lock().unwrap() = answers.iter().rev().cloned().collect();
        Self { address, scheme, shared: Arc::new(shared) }
    }

    fn app(&self) -> Router {
        Router::new().fallback(receive).with_state(Arc::clone(&self.shared))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://localhost:{}{path}", self.scheme, self.address.port())
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    #[track_caller]
    pub(crate) fn only(&self) -> Seen {
        let mut seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.pop().unwrap()
    }

    /// All connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

fn count(shared: &Shared) {
    shared.connections.fetch_add(1, Ordering::SeqCst);
}

async fn receive(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    version: Version,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    shared.seen.lock().unwrap().push(Seen { method, uri, version, headers, body });
    let Answer(status, headers, body) = {
        let mut answers = shared.answers.lock().unwrap();
        if answers.len() > 1 { answers.pop().unwrap() } else { answers[0].clone() }
    };
    let mut response = body.into_response();
    *response.status_mut() = axum::http::StatusCode::from_u16(status).unwrap();
    for (name, value) in headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    /// Ignores failed handshakes: the client reports them.
    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.listener.accept().await else { continue };
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
