//! A page on loopback can be attacked through the browser of its user: any web site can send requests to this machine, and a
//! name that an attacker owns can resolve to it. So requests are let in only if they are for a name of this server, were not
//! made by another site, and carry the token.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};

use crate::connection::Visitor;
use crate::error::ApiError;
use crate::hosts::Hosts;
use crate::token::Token;

/// What every response has. Scripts and styles come from this server alone, and no text becomes markup.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// For container probes, which use the address of the pod as the host and have no token. They reveal nothing.
const PROBE_PATHS: [&str; 2] = ["/healthz", "/readyz"];

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// A month: longer than a page is kept open.
const COOKIE_SECONDS: u32 = 30 * 24 * 3600;

/// Who is let in.
pub(crate) struct Access {
    pub(crate) hosts: Hosts,
    pub(crate) token: Token,
    /// Cookies ignore ports: two servers of one machine must not overwrite each other's.
    pub(crate) cookie: String,
}

impl Access {
    pub(crate) fn new(hosts: Hosts, token: Token, port: u16) -> Self {
        Self { hosts, token, cookie: format!("redial_{port}") }
    }
}

/// How a request proves that its sender knows the token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    Bearer,
    /// A browser sends it without being asked.
    Cookie,
    /// In the address, which is to disappear from the browser.
    Address,
    None,
}

/// Lets only the user's own page and programs in.
pub(crate) async fn guard(
    State(access): State<Arc<Access>>,
    mut request: Request,
    next: Next,
) -> Response {
    let visitor = request.extensions_mut().remove::<Arc<Visitor>>();
    let admit = || visitor.is_some_and(|visitor| visitor.admit());
    let mut response = match check(&access, &request) {
        Ok(Pass::Token) if admit() => next.run(request).await,
        Ok(Pass::Token) => closing(too_many()),
        Ok(Pass::Probe) => closing(next.run(request).await),
        Err(refusal) => closing(*refusal),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    let is_set = response.headers().contains_key(header::CACHE_CONTROL);
    if !is_set {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// The response to a stranger, whose connection takes a place that another visitor may need.
fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn too_many() -> Response {
    let why = "too many connections: close some of the tabs and programs that use this page";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, why).into_response()
}

/// Why a request is let in.
enum Pass {
    Probe,
    /// It has shown the token.
    Token,
}

fn check(access: &Access, request: &Request) -> Result<Pass, Box<Response>> {
    if matches!(*request.method(), Method::GET | Method::HEAD)
        && PROBE_PATHS.contains(&request.uri().path())
    {
        return Ok(Pass::Probe);
    }
    let headers = request.headers();
    let refuse = |status, why: String| Err(Box::new(ApiError::new(status, why).into_response()));
    let host = text(headers, header::HOST);
    if !host.is_some_and(|host| access.hosts.has(host))
        || headers.get_all(header::HOST).iter().count() > 1
    {
        let why = format!(
            "this server does not answer for that host name: open {}, or allow it with --allow-host",
            access.hosts.first()
        );
        return refuse(StatusCode::MISDIRECTED_REQUEST, why);
    }
    let origin = headers.get(header::ORIGIN);
    let is_ours =
        |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| access.hosts.is_origin(origin));
    if !headers.get_all(header::ORIGIN).iter().all(is_ours) {
        return refuse(StatusCode::FORBIDDEN, "requests of other sites are refused".to_owned());
    }
    let site = headers.get(SEC_FETCH_SITE);
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        let why = "requests of other sites are refused: type the address, or paste it, \
                   instead of following a link";
        return refuse(StatusCode::FORBIDDEN, why.to_owned());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD | Method::POST) {
        let why = "only GET and POST are allowed".to_owned();
        let mut response = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, why).into_response();
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
        return Err(Box::new(response));
    }
    let is_change = *request.method() == Method::POST;
    match proof(access, request) {
        Proof::Bearer => Ok(Pass::Token),
        // A browser adds the cookie to what another site sends too; one of these headers tells who sent it.
        Proof::Cookie if is_change && origin.is_none() && site.is_none() => {
            let why = "a change needs an Origin header, or Authorization: Bearer TOKEN".to_owned();
            refuse(StatusCode::FORBIDDEN, why)
        }
        Proof::Cookie => Ok(Pass::Token),
        Proof::Address if !is_change => Err(Box::new(enter(access, request.uri()))),
        _ => Err(Box::new(unauthorized(access, request))),
    }
}

fn proof(access: &Access, request: &Request) -> Proof {
    let headers = request.headers();
    let bearer =
        text(headers, header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    if bearer.is_some_and(|token| access.token.is(token.trim())) {
        return Proof::Bearer;
    }
    // Before the cookie, so that the token leaves the address bar also when there is a cookie.
    if token_of(request.uri()).is_some_and(|token| access.token.is(token)) {
        return Proof::Address;
    }
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut values = cookies
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|cookie| cookie.trim().strip_prefix(access.cookie.as_str())?.strip_prefix('='));
    if values.any(|token| access.token.is(token)) { Proof::Cookie } else { Proof::None }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn token_of(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// Turns the token of the address into a cookie, and leads to the same address without it.
fn enter(access: &Access, uri: &Uri) -> Response {
    let others = uri.query().unwrap_or_default().split('&');
    let others: Vec<&str> =
        others.filter(|pair| !pair.is_empty() && !pair.starts_with("token=")).collect();
    // One slash: a path that begins with two would lead to another host, and browsers read a backslash as a slash.
    let path = uri.path().trim_start_matches(['/', '\\']);
    let to = match others.is_empty() {
        true => format!("/{path}"),
        false => format!("/{path}?{}", others.join("&")),
    };
    let Access { cookie, token, .. } = access;
    let token = token.reveal();
    let cookie =
        format!("{cookie}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age={COOKIE_SECONDS}");
    (StatusCode::SEE_OTHER, [(header::LOCATION, to), (header::SET_COOKIE, cookie)]).into_response()
}

/// Says how to get in: as a page for a person, as JSON for a program.
fn unauthorized(access: &Access, request: &Request) -> Response {
    let wants_page =
        text(request.headers(), header::ACCEPT).is_some_and(|accept| accept.contains("text/html"));
    if !wants_page || request.uri().path().starts_with("/api/") {
        let why = "this server needs its token: send Authorization: Bearer TOKEN; \
                   `redial up` prints it";
        let mut response = ApiError::new(StatusCode::UNAUTHORIZED, why).into_response();
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        return response;
    }
    let page = NO_TOKEN.replace("ADDRESS", &access.hosts.first());
    (StatusCode::UNAUTHORIZED, Html(page)).into_response()
}

const NO_TOKEN: &str = include_str!("no_token.html");
