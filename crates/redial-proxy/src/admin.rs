//! The admin interface: metrics, health and state, for this machine only.
//!
//! It runs beside the requests, on the thread that tends the proxy. Slow, many or broken clients must not affect it, so
//! connections are few and short, and further ones wait.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use redial_policy::file::Address;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::body::Outbound;
use crate::control::Control;
use crate::error::StartError;
use crate::io::Stream;
use crate::listen::{self, AcceptedSocket, BoundSocket};
use crate::metrics::Metrics;
use crate::state;

/// The most connections at once.
const MOST: usize = 16;
/// From the connection to the last byte of the request's head.
const HEAD: Duration = Duration::from_secs(1);
/// From the connection to the last byte of the response.
const TIMEOUT: Duration = Duration::from_secs(10);

const PAGES: &str = "/metrics, /healthz, /readyz, /config, /budgets and /breakers";

/// The listener, which accepts no connections yet.
pub(crate) struct Admin {
    pub(crate) address: Address,
    socket: BoundSocket,
}

impl Admin {
    pub(crate) fn bind(address: &Address) -> Result<Self, StartError> {
        let (address, socket) = BoundSocket::new(address).map_err(|error| {
            let help = match error.kind() {
                std::io::ErrorKind::AddrInUse => "choose another port, or write admin = \"none\"",
                _ => listen::help(&error),
            };
            let problem = format!("cannot listen on {address}: {error}");
            StartError::new("proxy.admin".to_owned(), problem, help)
        })?;
        Ok(Self { address, socket })
    }
}

struct Pages {
    control: Arc<Control>,
    metrics: Mutex<Metrics>,
    /// Whether callers connect by TCP, as a web page could make a browser do.
    is_tcp: bool,
}

/// Serves until it is dropped.
pub(crate) async fn serve(admin: Admin, control: Arc<Control>) {
    let is_tcp = matches!(admin.address, Address::Tcp(_));
    let Ok(socket) = admin.socket.listen() else { return };
    let metrics = Mutex::new(Metrics::new());
    let pages = Arc::new(Pages { control, metrics, is_tcp });
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= MOST {
            connections.join_next().await;
        }
        match socket.accept().await {
            Ok(socket) => {
                connections.spawn(timeout(TIMEOUT, serve_one(socket, Arc::clone(&pages))));
            }
            // Most likely too many open files, which passes.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_one(socket: AcceptedSocket, pages: Arc<Pages>) {
    let Ok(socket) = socket.join() else { return };
    let service = service_fn(|request| {
        let response = pages.respond(&request);
        async { Ok::<_, Infallible>(response) }
    });
    // One response per connection: idle ones would keep others waiting. A client notices if it breaks.
    let _ = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(Stream::plain(socket)), service)
        .await;
}

impl Pages {
    fn respond(&self, request: &Request<Incoming>) -> Response<Outbound> {
        if self.is_tcp && !names_this_machine(request.headers()) {
            let why = "the Host header must be localhost or a loopback address";
            return error(StatusCode::FORBIDDEN, why);
        }
        let path = request.uri().path();
        if let Some(command) = path.strip_prefix("/breakers/") {
            return self.set_breaker(command, request);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return only("GET, HEAD", "only GET is allowed");
        }
        let world = self.control.shared.world.load();
        match path {
            "/metrics" => self.metrics(),
            "/healthz" => json(StatusCode::OK, &json!({ "status": "ok" })),
            "/readyz" if self.control.shared.drain.has_started() => {
                error(StatusCode::SERVICE_UNAVAILABLE, "the proxy is draining")
            }
            "/readyz" => json(StatusCode::OK, &json!({ "status": "ready" })),
            "/config" => json(StatusCode::OK, &state::config(&world)),
            "/budgets" => json(StatusCode::OK, &state::budgets(&world)),
            "/breakers" => json(StatusCode::OK, &state::breakers(&world)),
            _ => error(StatusCode::NOT_FOUND, &format!("no such page: there are {PAGES}")),
        }
    }

    fn metrics(&self) -> Response<Outbound> {
        let mut metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let text = metrics.render(&self.control.shared);
        let mut response = Response::new(Outbound::Text(text.into()));
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }

    /// Opens or resets a breaker: `UPSTREAM/ENDPOINT/open`.
    fn set_breaker(&self, command: &str, request: &Request<Incoming>) -> Response<Outbound> {
        if *request.method() != Method::POST {
            return only("POST", "only POST is allowed");
        }
        // A page in a browser can send a POST to any address, but not without this header.
        if request.headers().contains_key(header::ORIGIN) {
            return error(StatusCode::FORBIDDEN, "requests of web pages are not allowed");
        }
        match state::set_breaker(&self.control.shared.world.load(), command) {
            Ok(breaker) => {
                self.control.event("breaker", format!("{command} by hand"));
                json(StatusCode::OK, &breaker)
            }
            Err(why) => error(StatusCode::NOT_FOUND, &why),
        }
    }
}

/// A web page whose name resolves to this machine would have its own name here.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else {
        return false;
    };
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn json(status: StatusCode, value: &Value) -> Response<Outbound> {
    let mut response = Response::new(Outbound::Text(format!("{value:#}\n").into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn error(status: StatusCode, why: &str) -> Response<Outbound> {
    json(status, &json!({ "error": why }))
}

fn only(methods: &'static str, why: &str) -> Response<Outbound> {
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, why);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    response
}
