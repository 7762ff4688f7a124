//! A request as a job: the body is the payload, the headers are the job's, and so are the method and the URL.

use std::error;
use std::fmt;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::method::Method;
use redial::http::names;
use reqwest::Url;

use crate::durable::{Job, NewJob};

/// No header can have such a name, so they cannot be confused with one.
const METHOD: &str = ":method";
const URL: &str = ":url";

/// A request that is to be sent.
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
    /// The method is not one, or is `CONNECT`; the URL is not an absolute one of `http` or `https`, or has a user or a
    /// password in it, which would stand in every listing and log: they belong into a header.
    pub fn new(method: &str, url: &str) -> Result<Self, Invalid> {
        let wrong = |why: &str| Err(Invalid::new(format!("the method {method:?} {why}")));
        let parsed = match Method::from_bytes(method.as_bytes()) {
            Ok(Method::CONNECT) => return wrong("opens a tunnel, and delivers nothing"),
            Ok(parsed) => parsed,
            Err(_) => return wrong("is none: it has letters and no spaces, such as POST"),
        };
        let (headers, body) = (HeaderMap::new(), Vec::new());
        Ok(Self { method: parsed, url: parse_url(url)?, headers, body })
    }

    /// A `POST` to this URL.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn post(url: &str) -> Result<Self, Invalid> {
        Self::new("POST", url)
    }

    /// With one more header.
    ///
    /// # Errors
    ///
    /// It is no header, or one that the connection or the worker writes: `host`, `content-length`, `redial-attempt`, and
    /// those that are about a connection.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Invalid> {
        let wrong = |why: &str| Err(Invalid::new(format!("the header {name:?} {why}")));
        let Ok(parsed) = HeaderName::from_bytes(name.as_bytes()) else {
            return wrong("has a name that no header has: letters, digits and hyphens");
        };
        if let Some((_, why)) = WRITTEN.iter().find(|(written, _)| *written == parsed) {
            return wrong(why);
        }
        let Ok(mut value) = HeaderValue::from_bytes(value.as_bytes()) else {
            return wrong("has a line break or another control character in its value");
        };
        value.set_sensitive(is_secret(&parsed));
        if self.headers.try_append(parsed, value).is_err() {
            return wrong("is one too many");
        }
        Ok(self)
    }

    /// With this body.
    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// Its method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Where it goes.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Its headers, without those that a worker adds.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Scheme, host and port: what fails together.
    pub fn destination(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default().unwrap_or_default();
        format!("{}://{host}:{port}", self.url.scheme())
    }

    /// As a job, with an idempotency key of its own.
    pub fn into_job(self) -> NewJob {
        let mut job = NewJob::new(self.body);
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let pseudo = [(METHOD, self.method.as_str()), (URL, self.url.as_str())];
        job.headers = pseudo.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let headers = self.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
        job.headers.extend(headers);
        job
    }

    /// Whether a job with these headers is meant to be a delivery, good or not.
    pub fn is_one(headers: &[(String, String)]) -> bool {
        headers.iter().any(|(name, _)| name == METHOD || name == URL)
    }

    /// Whether a delivery can carry this idempotency key.
    ///
    /// # Errors
    ///
    /// It is empty, has characters other than printable ASCII, or begins or ends with a space.
    pub fn check_key(key: &str) -> Result<(), Invalid> {
        let printable = !key.is_empty() && key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        // A header loses the spaces around its value, and its signature would not fit any more.
        let good = printable && key.trim() == key;
        if good { Ok(()) } else { Err(no_key(key)) }
    }

    /// The request that a job is, without its body, which stays where it is.
    ///
    /// # Errors
    ///
    /// The job is no delivery, or one that was not made by [`into_job`](Self::into_job).
    pub fn of(job: &Job) -> Result<Self, Invalid> {
        Self::of_headers(&job.headers)
    }

    /// The request that a job with these headers is, without its body.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub fn of_headers(headers: &[(String, String)]) -> Result<Self, Invalid> {
        let pseudo = |wanted: &str| {
            let mut all = headers.iter().filter(|(name, _)| name == wanted);
            match (all.next(), all.next()) {
                (Some((_, value)), None) => Ok(value.as_str()),
                (None, _) => Err(Invalid::new(format!("this is no delivery: it has no {wanted}"))),
                (_, Some(_)) => Err(Invalid::new(format!("the delivery has {wanted} twice"))),
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

/// Headers that are not the caller's, and what to do instead.
static WRITTEN: [(HeaderName, &str); 13] = [
    (header::HOST, HOST),
    (header::CONTENT_LENGTH, "is counted when the body is sent: leave it out"),
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
    (names::ATTEMPT, "is counted by the worker: leave it out"),
];
const HOST: &str = "is a part of the URL: leave it out";
const HOP: &str = "is about one connection, and connections are the worker's: leave it out";

pub(super) fn no_key(key: &str) -> Invalid {
    Invalid::new(format!(
        "the idempotency key {key:?} cannot be sent: a key is printable ASCII, not empty, and without spaces around it"
    ))
}

fn is_secret(name: &HeaderName) -> bool {
    matches!(*name, header::AUTHORIZATION | header::COOKIE)
}

pub(super) fn parse_url(text: &str) -> Result<Url, Invalid> {
    // What is wrong with it may be the password.
    let wrong = |why: String| Err(Invalid::new(format!("the URL {why}")));
    if text.contains(char::is_control) {
        return wrong("has a line break or another control character in it".to_owned());
    }
    let mut url = match Url::parse(text) {
        Ok(url) => url,
        Err(error) => {
            return wrong(format!("cannot be read ({error}): it is like https://host/path"));
        }
    };
    if !matches!(url.scheme(), "http" | "https") {
        return wrong(format!("has the scheme {:?}: only http and https are sent", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let why = "has a user or password in it: put them into the header authorization";
        return wrong(why.to_owned());
    }
    if url.host_str().is_none_or(str::is_empty) || url.port() == Some(0) {
        return wrong("names no host and port that a connection can be made to".to_owned());
    }
    url.set_fragment(None);
    Ok(url)
}

/// Why something cannot be delivered, whenever it is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(String);

impl Invalid {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for Invalid {}
