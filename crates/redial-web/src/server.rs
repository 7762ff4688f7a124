//! Listens, and puts the parts together.
//!
//! Slow, many or broken visitors must not use up the process that the sidecar runs in: connections are limited, and so are
//! the times for a request's head and body and for its response, and the size of the body. A defect of one page must not take
//! the others away: a panic is an error of its request alone.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Router, middleware};
use http::{Method, StatusCode};
use redial_proxy::AdminPages;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::app::App;
use crate::connection::Connections;
use crate::error::ApiError;
use crate::hosts::Hosts;
use crate::security::{self, Access};
use crate::token::Token;
use crate::{assets, demo, exercise, hello, live, playground, policies, queue};

/// The largest body of a request, and the time for all of it.
const BODY: usize = 2 << 20;
const BODY_TIME: Duration = Duration::from_secs(10);

/// Where the page is, and for whom.
#[derive(Clone, Debug)]
pub struct Listen {
    address: SocketAddr,
    hosts: Vec<String>,
    token: Token,
}

/// Why the page cannot be served.
#[derive(Debug)]
pub enum BindError {
    /// Another machine could reach the address, and no host name is allowed.
    NoHosts(SocketAddr),
    /// The address is in use, or is not one of this machine.
    Io(SocketAddr, io::Error),
}

/// The page's server.
pub struct Web {
    listener: TcpListener,
    address: SocketAddr,
    access: Arc<Access>,
    url: String,
}

impl Listen {
    /// This address, whose visitors know this token. Port 0 is any free port.
    pub fn new(address: SocketAddr, token: Token) -> Self {
        Self { address, hosts: Vec::new(), token }
    }

    /// Allows host names besides the address itself and `localhost`; see [`check_host`](crate::check_host).
    pub fn allow_hosts(self, hosts: impl IntoIterator<Item = String>) -> Self {
        Self { hosts: hosts.into_iter().collect(), ..self }
    }
}

impl Web {
    /// Binds the address. Visitors wait until it [serves](Self::serve).
    ///
    /// # Errors
    ///
    /// Another machine could reach the address and no host name is allowed; or the address is in use, or is not one of this
    /// machine.
    pub async fn bind(listen: Listen) -> Result<Self, BindError> {
        let Listen { address, hosts, token } = listen;
        if !address.ip().is_loopback() && hosts.is_empty() {
            return Err(BindError::NoHosts(address));
        }
        let wrong = |error| BindError::Io(address, error);
        let listener = TcpListener::bind(address).await.map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let hosts = Hosts::new(address, &hosts);
        let url = format!("{}/?token={}", hosts.first(), token.reveal());
        let access = Arc::new(Access::new(hosts, token, address.port()));
        Ok(Self { listener, address, access, url })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address to open in a browser, with the token.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Serves until the future is dropped. Then its connections break.
    pub async fn serve(self, app: App) {
        let router = router(Arc::new(app))
            .layer(DefaultBodyLimit::max(BODY))
            .layer(middleware::from_fn(read_body))
            .layer(middleware::from_fn(catch_panic))
            .layer(middleware::from_fn_with_state(self.access, security::guard));
        let mut connections = Connections::new(router);
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => connections.add(stream),
                // Most likely too many open files, which passes.
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

/// A panic is a defect, which is reported on stderr. The visitor is told so, and the connection can be used further.
async fn catch_panic(request: Request, next: Next) -> Response {
    let mut answer = std::pin::pin!(next.run(request));
    let caught = poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx)));
        polled.map_or(Poll::Ready(None), |answer| answer.map(Some))
    });
    let why = "the request failed: this is a bug; the server's stderr has the details";
    let failed = || ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, why).into_response();
    caught.await.unwrap_or_else(failed)
}

/// Reads a body before anything waits for it: a visitor who sends it byte by byte is cut off.
async fn read_body(request: Request, next: Next) -> Response {
    if *request.method() != Method::POST {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let (status, why) = match timeout(BODY_TIME, to_bytes(body, BODY)).await {
        Ok(Ok(body)) => return next.run(Request::from_parts(head, Body::from(body))).await,
        Ok(Err(error)) => {
            (StatusCode::PAYLOAD_TOO_LARGE, format!("the body cannot be read: {error}"))
        }
        Err(_) => {
            let why = format!("the body did not arrive within {} s", BODY_TIME.as_secs());
            (StatusCode::REQUEST_TIMEOUT, why)
        }
    };
    ApiError::new(status, why).into_response()
}

fn router(app: Arc<App>) -> Router {
    let api = Router::new()
        .merge(demo::routes(app.demo.clone()))
        .merge(exercise::routes())
        .merge(hello::routes())
        .merge(live::routes(app.live.clone(), app.demo.clone()))
        .merge(playground::routes())
        .merge(policies::routes())
        .merge(queue::routes())
        .fallback(async || ApiError::new(StatusCode::NOT_FOUND, "no such path below /api"));
    let mut router = Router::new().nest("/api", api).fallback(assets::serve);
    if app.proxy.is_some() {
        for path in AdminPages::PATHS {
            router = router.route(path, any(admin));
        }
        router = router.route("/breakers/{*command}", any(admin));
    }
    router.with_state(app)
}

/// The sidecar's admin pages.
async fn admin(State(app): State<Arc<App>>, request: Request) -> Response {
    match &app.proxy {
        Some(pages) => pages.respond(request.method(), request.uri().path()).map(Body::from),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHosts(address) => write!(
                f,
                "{address} can be reached from other machines: name the hosts that browsers use for it, as in \
                 --allow-host dashboard.internal"
            ),
            Self::Io(address, error) if error.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "{address} is in use: choose another port, or 0 for any free port")
            }
            Self::Io(address, error) => write!(f, "cannot listen on {address}: {error}"),
        }
    }
}

impl std::error::Error for BindError {}
