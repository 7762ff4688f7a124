//! The receiver's response, as the outcome of the job.

use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::iter::successors;
use std::time::Duration;

use http::{Response, header};
use redial_core::decide::{Class, Failure, Outcome};

use super::public::Blocked;
use crate::durable::{Handled, is_shortage};

/// The most bytes of a body that are read: for the cause, and so that the connection can be reused.
const MAX_BODY_BYTES: usize = 64 << 10;
/// The time limit for reading the body of a failed delivery.
const READ_LIMIT: Duration = Duration::from_secs(1);
/// The same for a successful one. It is short: if the attempt timed out meanwhile, the delivery would be sent again.
const READ_LIMIT_IF_DONE: Duration = Duration::from_millis(50);
/// The most characters of the receiver's text in a cause.
const MOST_TEXT: usize = 160;

/// The outcome of a response. `keyed` is whether the request had an idempotency key.
pub(super) async fn read(response: reqwest::Response, keyed: bool) -> Handled {
    let response: Response<reqwest::Body> = response.into();
    let outcome = judge(&response, keyed);
    let (status, location) = (response.status(), response.headers().get(header::LOCATION).cloned());
    let limit = match outcome {
        Outcome::Failure(_) => READ_LIMIT,
        Outcome::Success | Outcome::NotYet(_) => READ_LIMIT_IF_DONE,
    };
    let text = body(response.into(), limit).await;
    let failure = match outcome {
        Outcome::Success => return Handled::Done,
        Outcome::NotYet(hint) => return Handled::NotYet(hint),
        Outcome::Failure(failure) => failure,
    };
    let mut cause = status.to_string();
    if status.is_redirection() {
        let location = location.as_ref().map(|to| String::from_utf8_lossy(to.as_bytes()));
        let to = location.as_deref().unwrap_or("nowhere");
        // Writing to a string cannot fail.
        let _ = write!(cause, ": redirected to {}, which is not followed", line(to));
    } else if !text.is_empty() {
        let _ = write!(cause, ": {text}");
    }
    Handled::failed(failure, cause)
}

/// As in our HTTP clients, except that redirects are not followed: a redirect is a failure.
fn judge(response: &Response<reqwest::Body>, keyed: bool) -> Outcome {
    let status = response.status();
    if status.is_redirection() {
        return Failure::new(Class::Permanent).code(status.as_u16()).into();
    }
    match redial::http::outcome(response) {
        // An earlier attempt with this key is still being processed.
        Outcome::Failure(failure)
            if keyed && redial::http::is_in_flight(status, response.headers()) =>
        {
            let refused = Failure::new(Class::Refused);
            Failure { class: refused.class, reach: refused.reach, ..failure }.into()
        }
        outcome => outcome,
    }
}

/// The start of a body as one line; empty if it is markup.
async fn body(mut response: reqwest::Response, limit: Duration) -> String {
    let mut start = Vec::new();
    let mut left = MAX_BODY_BYTES;
    let reading = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = (MOST_TEXT * 4).saturating_sub(start.len());
            start.extend_from_slice(&chunk[..chunk.len().min(room)]);
            match left.checked_sub(chunk.len()) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    };
    let _ = tokio::time::timeout(limit, reading).await;
    let text = line(&String::from_utf8_lossy(&start));
    if text.starts_with('<') { String::new() } else { text }
}

/// Shortens a text, and replaces line breaks and control characters.
fn line(text: &str) -> String {
    let clean = text.replace(char::is_control, " ");
    let words = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(MOST_TEXT).collect()
}

/// The outcome of a request without a response.
pub(super) fn no_response(error: &reqwest::Error) -> Handled {
    if let Some(blocked) = Blocked::find(error) {
        return Handled::failed(Failure::new(Class::Permanent), blocked);
    }
    if is_local(error) {
        return Handled::NotTried(line(&chain(error)));
    }
    Handled::failed(redial::http::failure(error), line(&chain(error)))
}

/// Whether this process has run out of a resource.
fn is_local(error: &reqwest::Error) -> bool {
    let causes = successors(error.source(), |&error| error.source());
    causes.filter_map(|error| error.downcast_ref::<io::Error>()).any(is_shortage)
}

/// The sources of an error, joined. The outermost error is left out, because it only repeats the URL, and so is the part of the
/// client that reported it.
fn chain(error: &reqwest::Error) -> String {
    let mut cause = String::new();
    let mut next = error.source();
    while let Some(error) = next {
        let (separator, text) = (if cause.is_empty() { "" } else { ": " }, error.to_string());
        if !cause.ends_with(&text) && !text.starts_with("client error (") {
            let _ = write!(cause, "{separator}{text}");
        }
        next = error.source();
    }
    if cause.is_empty() { error.to_string() } else { cause }
}
