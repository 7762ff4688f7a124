//! The admin interface: metrics, health and state, for this machine only.
//!
//! It runs beside the requests, on the thread of everything that is not a request.

pub(crate) mod metrics;
pub(crate) mod page_server;
mod state;

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use redial_policy::file::{Address, File};
use serde_json::{Value, json};

use self::metrics::{Metrics, RenderMetrics};
use self::page_server::PageServer;
use crate::error::StartError;
use crate::net::listening;
use crate::shared::Shared;

/// Before the command for a breaker.
const BREAKERS: &str = "/breakers/";

/// Binds the address of the admin interface.
pub(crate) fn bind(address: &Address) -> Result<PageServer, StartError> {
    PageServer::bind(address).map_err(|error| {
        let help = match error.kind() {
            std::io::ErrorKind::AddrInUse => "choose another port, or write admin = \"none\"",
            _ => listening::help(&error),
        };
        let problem = format!("cannot listen on {address}: {error}");
        StartError::new("proxy.admin".to_owned(), problem, help)
    })
}

/// The pages of the admin interface, for a program that serves them itself. They outlive the proxy.
#[derive(Clone)]
pub struct AdminPages(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    metrics: Mutex<Metrics>,
}

/// Serves until it is dropped.
pub(crate) async fn serve(server: PageServer, pages: AdminPages) {
    // A web page could make a browser connect by TCP.
    let is_tcp = matches!(server.address(), Address::Tcp(_));
    server.serve(move |request| pages.guarded(request, is_tcp)).await;
}

impl AdminPages {
    /// The paths of the pages. Breakers are changed below the last one: `/breakers/UPSTREAM/ENDPOINT/open`.
    pub const PATHS: [&str; 6] =
        ["/metrics", "/healthz", "/readyz", "/config", "/budgets", "/breakers"];

    pub(crate) fn new(shared: Arc<Shared>, metrics: Option<Arc<RenderMetrics>>) -> Self {
        Self(Arc::new(Inner { shared, metrics: Mutex::new(Metrics::new(metrics)) }))
    }

    /// The file that is in use.
    pub fn file(&self) -> File {
        self.0.shared.snapshot.load().file.clone()
    }

    /// Responds as on the listener. The program decides which requests are let in.
    pub fn respond(&self, method: &Method, path: &str) -> Response<Bytes> {
        if let Some(command) = path.strip_prefix(BREAKERS) {
            return self.set_breaker(command, method);
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            return only("GET, HEAD", "only GET is allowed");
        }
        let shared = &self.0.shared;
        let snapshot = shared.snapshot.load();
        match path {
            "/metrics" => self.metrics(),
            "/healthz" => json(StatusCode::OK, &json!({ "status": "ok" })),
            "/readyz" if shared.drain.has_started() => {
                error(StatusCode::SERVICE_UNAVAILABLE, "the proxy is draining")
            }
            "/readyz" => json(StatusCode::OK, &json!({ "status": "ready" })),
            "/config" => json(StatusCode::OK, &state::config(&snapshot)),
            "/budgets" => json(StatusCode::OK, &state::budgets(&snapshot)),
            "/breakers" => json(StatusCode::OK, &state::breakers(&snapshot)),
            _ => error(
                StatusCode::NOT_FOUND,
                &format!("no such page: there are {}", Self::PATHS.join(", ")),
            ),
        }
    }

    /// Responds to a request that any program of this machine may have sent.
    fn guarded(&self, request: &Parts, is_tcp: bool) -> Response<Bytes> {
        if is_tcp && !names_this_machine(&request.headers) {
            let why = "the Host header must be localhost or a loopback address";
            return error(StatusCode::FORBIDDEN, why);
        }
        // A page in a browser can send a POST to any address, but not without this header.
        if request.method == Method::POST && request.headers.contains_key(header::ORIGIN) {
            return error(StatusCode::FORBIDDEN, "requests of web pages are not allowed");
        }
        self.respond(&request.method, request.uri.path())
    }

    fn metrics(&self) -> Response<Bytes> {
        let mut metrics = self.0.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let text = metrics.render(&self.0.shared);
        let mut response = Response::new(text.into());
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }

    /// Opens or resets a breaker: `UPSTREAM/ENDPOINT/open`.
    fn set_breaker(&self, command: &str, method: &Method) -> Response<Bytes> {
        if *method != Method::POST {
            return only("POST", "only POST is allowed");
        }
        match state::set_breaker(&self.0.shared.snapshot.load(), command) {
            Ok(breaker) => {
                self.0.shared.event("breaker", format!("{command} by hand"));
                json(StatusCode::OK, &breaker)
            }
            Err(why) => error(StatusCode::NOT_FOUND, &why),
        }
    }
}

impl fmt::Debug for AdminPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminPages").finish_non_exhaustive()
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

fn json(status: StatusCode, value: &Value) -> Response<Bytes> {
    let mut response = Response::new(format!("{value:#}\n").into());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn error(status: StatusCode, why: &str) -> Response<Bytes> {
    json(status, &json!({ "error": why }))
}

fn only(methods: &'static str, why: &str) -> Response<Bytes> {
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, why);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    response
}
