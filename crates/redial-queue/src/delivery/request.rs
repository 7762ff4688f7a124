//! A request as a job: the body is the payload, and method, URL and headers are the job's headers.

use std::error;
use std::fmt;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::method::Method;
use redial::http::names;
use reqwest::Url;

use crate::durable::{Job, NewJob};

/// Not valid header names, so they cannot be confused with a header.
const METHOD: &str = ":method";
const URL: &str = ":url";

/// A request to be sent by a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Delivery {
    /// A request with this method to this URL.
    ///
    /// # Errors
    ///
    /// The method is invalid, or is `CONNECT`; the URL is not an absolute one with `http` or `https`, or contains a user or a
    /// password, which would appear in every listing and log: they belong in a header.
    pub fn new(method: &str, url: &str) -> Result<Self, InvalidDelivery> {
        let wrong = |why: &str| Err(InvalidDelivery::new(format!("the method {method:?} {why}")));
        let parsed = match Method::from_bytes(method.as_bytes()) {
            Ok(Method::CONNECT) => return wrong("opens a tunnel and delivers nothing"),
            Ok(parsed) => parsed,
            Err(_) => return wrong("is invalid: use a token without spaces, such as POST"),
        };
        let (headers, body) = (HeaderMap::new(), Vec::new());
        Ok(Self { method: parsed, url: parse_url(url)?, headers, body })
    }

    /// A `POST` to this URL.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn post(url: &str) -> Result<Self, InvalidDelivery> {
        Self::new("POST", url)
    }

    /// Adds a header.
    ///
    /// # Errors
    ///
    /// It is invalid, or one that the connection or the worker writes: `host`, `content-length`, `redial-attempt` and hop-by-hop
    /// headers.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, InvalidDelivery> {
        let wrong = |why: &str| Err(InvalidDelivery::new(format!("the header {name:?} {why}")));
        let Ok(parsed) = HeaderName::from_bytes(name.as_bytes()) else {
            return wrong("has an invalid name: use letters, digits and hyphens");
        };
        if let Some((_, why)) = RESERVED.iter().find(|(reserved, _)| *reserved == parsed) {
            return wrong(why);
        }
        let Ok(mut value) = HeaderValue::from_bytes(value.as_bytes()) else {
            return wrong("has a line break or another control character in its value");
        };
        value.set_sensitive(is_secret(&parsed));
        if self.headers.try_append(parsed, value).is_err() {
            return wrong("exceeds the number of headers that a request can have");
        }
        Ok(self)
    }

    /// Sets the body.
    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The URL.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// The headers, without the ones a worker adds.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Scheme, host and port: requests to the same destination fail together.
    pub fn destination(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default().unwrap_or_default();
        format!("{}://{host}:{port}", self.url.scheme())
    }

    /// Converts it into a job with a new idempotency key.
    pub fn into_job(self) -> NewJob {
        let mut job = NewJob::new(self.body);
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let pseudo = [(METHOD, self.method.as_str()), (URL, self.url.as_str())];
        job.headers = pseudo.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let headers = self.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
        job.headers.extend(headers);
        job
    }

    /// Whether a job with these headers is meant to be a delivery, valid or not.
    pub fn is_delivery(headers: &[(String, String)]) -> bool {
        headers.iter().any(|(name, _)| name == METHOD || name == URL)
    }

    /// Checks whether a delivery can carry this idempotency key.
    ///
    /// # Errors
    ///
    /// It is empty, has characters other than printable ASCII, or begins or ends with a space.
    pub fn check_key(key: &str) -> Result<(), InvalidDelivery> {
        let printable = !key.is_empty() && key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        // Spaces around the value of a header are dropped, and the signature would no longer match.
        let good = printable && key.trim() == key;
        if good { Ok(()) } else { Err(invalid_key(key)) }
    }

    /// Reads the request of a job, without its body.
    ///
    /// # Errors
    ///
    /// The job is not a delivery, or not one that [`into_job`](Self::into_job) could have made.
    pub fn of(job: &Job) -> Result<Self, InvalidDelivery> {
        Self::of_headers(&job.headers)
    }

    /// Reads the request of a job with these headers, without its body.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub fn of_headers(headers: &[(String, String)]) -> Result<Self, InvalidDelivery> {
        let pseudo = |wanted: &str| {
            let mut all = headers.iter().filter(|(name, _)| name == wanted);
            match (all.next(), all.next()) {
                (Some((_, value)), None) => Ok(value.as_str()),
                (None, _) => {
                    Err(InvalidDelivery::new(format!("not a delivery: it has no {wanted}")))
                }
                (_, Some(_)) => {
                    Err(InvalidDelivery::new(format!("the delivery has {wanted} twice")))
                }
            }
        };
        let this = Self::new(pseudo(METHOD)?, pseudo(URL)?)?;
        let others = headers.iter().filter(|(name, _)| name != METHOD && name != URL);
        others.into_iter().try_fold(this, |this, (name, value)| this.header(name, value))
    }

    pub(super) fn parsed_url(&self) -> &Url {
        &self.url
    }

    pub(super) fn into_parts(self) -> (Method, Url, HeaderMap) {
        (self.method, self.url, self.headers)
    }
}

/// Headers that callers cannot set, and what to do instead.
static RESERVED: [(HeaderName, &str); 13] = [
    (header::HOST, HOST),
    (header::CONTENT_LENGTH, "is computed from the body: leave it out"),
    (header::TRANSFER_ENCODING, HOP),
    (header::CONNECTION, HOP),
    (HeaderName::from_static("keep-alive"), HOP),
    (HeaderName::from_static("proxy-connection"), HOP),
    (header::PROXY_AUTHORIZATION, HOP),
    (header::PROXY_AUTHENTICATE, HOP),
    (header::TE, HOP),
    (header::TRAILER, HOP),
    (header::UPGRADE, HOP),
    (header::EXPECT, HOP),
    (names::ATTEMPT, "is set by the worker: leave it out"),
];
const HOST: &str = "is part of the URL: leave it out";
const HOP: &str = "belongs to the connection, which the worker makes: leave it out";

pub(super) fn invalid_key(key: &str) -> InvalidDelivery {
    InvalidDelivery::new(format!(
        "invalid idempotency key {key:?}: use printable ASCII, at least one character, without spaces at either end"
    ))
}

fn is_secret(name: &HeaderName) -> bool {
    matches!(*name, header::AUTHORIZATION | header::COOKIE)
}

pub(super) fn parse_url(text: &str) -> Result<Url, InvalidDelivery> {
    // The text may contain a password, so errors do not repeat it.
    let wrong = |why: String| Err(InvalidDelivery::new(format!("the URL {why}")));
    if text.contains(char::is_control) {
        return wrong("has a line break or another control character in it".to_owned());
    }
    let mut url = match Url::parse(text) {
        Ok(url) => url,
        Err(error) => {
            return wrong(format!("is invalid ({error}): use the form https://host/path"));
        }
    };
    if !matches!(url.scheme(), "http" | "https") {
        return wrong(format!("has the scheme {:?}: use http or https", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let why = "contains a user or password: put them into the header authorization";
        return wrong(why.to_owned());
    }
    if url.host_str().is_none_or(str::is_empty) || url.port() == Some(0) {
        return wrong("has no host or port to connect to".to_owned());
    }
    url.set_fragment(None);
    Ok(url)
}

/// Why something can never be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidDelivery(String);

impl InvalidDelivery {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for InvalidDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for InvalidDelivery {}
