//! What the receiver said, as what becomes of the job.

use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::iter::successors;
use std::time::Duration;

use http::{Response, header};
use redial_core::decide::{Class, Failure, Outcome};

use super::public::Blocked;
use crate::durable::{Handled, is_shortage};

/// As much of a body is read: for the cause, and so that the connection can be used again.
const MOST: usize = 64 << 10;
/// And not for longer than this: what came of the delivery is known by then.
const LONGEST: Duration = Duration::from_secs(1);
/// Nor so long if it is done: it would be sent again if its time were over meanwhile.
const LONGEST_IF_DONE: Duration = Duration::from_millis(50);
/// The most characters of a cause that are the receiver's.
const MOST_SAID: usize = 160;

/// What a response means. `keyed` is whether the request had an idempotency key.
pub(super) async fn read(response: reqwest::Response, keyed: bool) -> Handled {
    let response: Response<reqwest::Body> = response.into();
    let outcome = judge(&response, keyed);
    let (status, location) = (response.status(), response.headers().get(header::LOCATION).cloned());
    let patience = match outcome {
        Outcome::Failure(_) => LONGEST,
        Outcome::Success | Outcome::NotYet(_) => LONGEST_IF_DONE,
    };
    let said = body(response.into(), patience).await;
    let failure = match outcome {
        Outcome::Success => return Handled::Done,
        Outcome::NotYet(hint) => return Handled::NotYet(hint),
        Outcome::Failure(failure) => failure,
    };
    let mut cause = status.to_string();
    if status.is_redirection() {
        let location = location.as_ref().map(|to| String::from_utf8_lossy(to.as_bytes()));
        let to = location.as_deref().map_or("nowhere", |to| to);
        // Writing to a string cannot fail.
        let _ = write!(cause, ": redirected to {}, which is not followed", line(to));
    } else if !said.is_empty() {
        let _ = write!(cause, ": {said}");
    }
    Handled::failed(failure, cause)
}

/// As every client of ours, except that nothing is followed: a redirect is not a success.
fn judge(response: &Response<reqwest::Body>, keyed: bool) -> Outcome {
    let status = response.status();
    if status.is_redirection() {
        return Failure::new(Class::Permanent).code(status.as_u16()).into();
    }
    match redial::http::outcome(response) {
        // An earlier attempt with this key is still being worked on.
        Outcome::Failure(failure)
            if keyed && redial::http::is_in_flight(status, response.headers()) =>
        {
            let refused = Failure::new(Class::Refused);
            Failure { class: refused.class, reach: refused.reach, ..failure }.into()
        }
        outcome => outcome,
    }
}

/// The start of a body, in a line. What is markup says nothing in a line.
async fn body(mut response: reqwest::Response, patience: Duration) -> String {
    let mut start = Vec::new();
    let mut left = MOST;
    let reading = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = (MOST_SAID * 4).saturating_sub(start.len());
            start.extend_from_slice(&chunk[..chunk.len().min(room)]);
            match left.checked_sub(chunk.len()) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    };
    let _ = tokio::time::timeout(patience, reading).await;
    let said = line(&String::from_utf8_lossy(&start));
    if said.starts_with('<') { String::new() } else { said }
}

/// Short, and without breaks and control characters.
fn line(text: &str) -> String {
    let clean = text.replace(char::is_control, " ");
    let words = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(MOST_SAID).collect()
}

/// What it means that there was no response.
pub(super) fn unanswered(error: &reqwest::Error) -> Handled {
    if let Some(blocked) = Blocked::find(error) {
        return Handled::failed(Failure::new(Class::Permanent), blocked);
    }
    if is_ours(error) {
        return Handled::NotTried(line(&chain(error)));
    }
    Handled::failed(redial::http::failure(error), line(&chain(error)))
}

/// Whether it is this process that has run out of something.
fn is_ours(error: &reqwest::Error) -> bool {
    let causes = successors(error.source(), |&error| error.source());
    causes.filter_map(|error| error.downcast_ref::<io::Error>()).any(is_shortage)
}

/// What went wrong, without the outermost words: those are about the URL, which the job has, and then about which part of
/// the client it was.
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
