//! A request on its way out: what is kept of it for another attempt, and what is written on it.

use std::time::Duration;

use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Response, request};
use http_body::Body;
use redial_core::decide::{Outcome, Safety};
use redial_core::{Event, Stop};

use super::layer::Options;
use super::replay::{Kept, Replay};
use super::{Answer, BoxError};
use crate::attempt::Attempt;
use crate::http::{hinted, names, safety, status, travel};
use crate::retry::KeySource;
use crate::{Key, Retry, inbound};

/// How a response came about: on its extensions when it took more than one attempt, or when the call gave
/// up on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    made: u32,
    stopped: Option<Stop>,
    maybe_applied: bool,
}

impl Attempts {
    pub(super) fn new(made: u32, stopped: Option<Stop>, maybe_applied: bool) -> Self {
        Self { made, stopped, maybe_applied }
    }

    /// How many attempts were made.
    pub fn made(&self) -> u32 {
        self.made
    }

    /// Why no further attempt was made; `None` after a success.
    pub fn stopped(&self) -> Option<Stop> {
        self.stopped
    }

    /// Whether the refusal may be the echo of this call's own work: an earlier attempt went unanswered, and
    /// now the server says that there is a conflict or that the precondition does not hold (409, 412).
    pub fn maybe_applied(&self) -> bool {
        self.maybe_applied
    }
}

/// What is kept for another attempt.
pub(super) struct Outgoing<B> {
    parts: request::Parts,
    body: Kept<B>,
    /// The body of the next attempt.
    next: Option<Replay<B>>,
}

/// Writes the idempotency key, unless the request has one or only asks.
#[inline]
pub(super) fn write_key(options: &Options, source: KeySource, request: &mut request::Parts) {
    let key = request.extensions.get::<Key>().copied().or_else(|| source.make());
    if let Some(key) = key.filter(|_| !safety::is_read(&request.method)) {
        let text = if options.bare_keys { key.to_string() } else { format!("\"{key}\"") };
        if let Ok(value) = HeaderValue::try_from(text) {
            request.headers.entry(names::IDEMPOTENCY_KEY).or_insert(value);
        }
    }
}

/// What a request says about being done twice, if it says anything.
pub(super) fn safety_of(
    method: &Method,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Option<Safety> {
    let said = || safety::safety(method, headers);
    let known = extensions.get::<Safety>().copied().unwrap_or_else(said);
    (known != Safety::Unsafe).then_some(known)
}

/// Splits a request into what is sent first and what is kept for another attempt. One that may not be
/// repeated is not cloned.
#[inline(always)]
pub(super) fn split<B>(
    options: &Options,
    retry: &Retry,
    parts: request::Parts,
    body: B,
) -> (Request<Replay<B>>, Option<Outgoing<B>>)
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    if retry.policy().attempts() == 1 || !retry.is_enabled() {
        return (Request::from_parts(parts, Replay::once(body)), None);
    }
    let (body, kept) = Replay::keep(body, options.buffer);
    let kept = kept.map(|kept| Outgoing { parts: parts.clone(), body: kept, next: None });
    (Request::from_parts(parts, body), kept)
}

impl<B> Outgoing<B> {
    /// Why it cannot be sent again, if it cannot.
    pub(super) fn barred(&self, retry: &Retry) -> Option<Stop> {
        if self.next.is_none() && self.body.is_lost() {
            Some(Stop::Body)
        } else if retry.policy().refuses_nested() && travel::attempt(&self.parts.headers) > 1 {
            Some(Stop::Nested)
        } else {
            None
        }
    }

    pub(super) fn safety(&self) -> Option<Safety> {
        safety_of(&self.parts.method, &self.parts.headers, &self.parts.extensions)
    }

    /// Takes the body back, so that an earlier attempt sends no more of it.
    pub(super) fn rewind(&mut self) {
        self.next = self.body.again();
    }

    /// Whether all of the request has been sent.
    pub(super) fn is_sent(&self) -> bool {
        self.body.has_ended()
    }

    /// The next attempt, after [`rewind`](Self::rewind). The attempts of those above count too.
    pub(super) fn again(
        &mut self,
        options: &Options,
        attempt: &Attempt,
        grpc: bool,
    ) -> Option<Request<Replay<B>>> {
        let body = self.next.take()?;
        let mut request = Request::from_parts(self.parts.clone(), body);
        let headers = request.headers_mut();
        let before = attempt.number() - 1;
        let count = travel::attempt(headers).saturating_add(before);
        stamp(options, headers, attempt, grpc);
        headers.insert(names::ATTEMPT, count.into());
        if grpc {
            headers.insert(names::GRPC_PREVIOUS_RPC_ATTEMPTS, before.into());
        }
        Some(request)
    }
}

/// Writes what every attempt carries. What the request said before about the time that is left for it is
/// returned.
#[inline]
pub(super) fn stamp(
    options: &Options,
    headers: &mut HeaderMap,
    attempt: &Attempt,
    grpc: bool,
) -> Option<Duration> {
    if options.envoy {
        headers.insert(names::X_ENVOY_ATTEMPT_COUNT, attempt.number().into());
    }
    let left = attempt.timeout();
    if grpc {
        let value = left.map(travel::grpc_timeout_value);
        replace(headers, names::GRPC_TIMEOUT, value).as_ref().and_then(travel::grpc_timeout)
    } else {
        let name = options.timeout_header.clone()?;
        let before = replace(headers, name, left.map(travel::timeout_value));
        before.as_ref().and_then(travel::digits).map(Duration::from_millis)
    }
}

/// What was there before; it stays when there is nothing to put in its place.
#[inline]
fn replace(
    headers: &mut HeaderMap,
    name: HeaderName,
    value: Option<HeaderValue>,
) -> Option<HeaderValue> {
    match value {
        Some(value) => headers.insert(name, value),
        None => headers.get(name).cloned(),
    }
}

/// What a response means: its status, the author's own judgement, its hints and the stop signal.
pub(super) fn read<R>(
    options: &Options,
    retry: &Retry,
    response: Response<R>,
    grpc: bool,
) -> (Outcome, Response<R>) {
    let (parts, body) = response.into_parts();
    let mut outcome = status::read(parts.status, &parts.headers, grpc, options.request_timeout);
    if let Some(judge) = &options.judge {
        outcome = judge(&parts, outcome);
    }
    let outcome = with_hints(outcome, &parts.headers, retry);
    (outcome, Response::from_parts(parts, body))
}

/// With what the headers, or trailers, say about the next attempt.
pub(super) fn with_hints(outcome: Outcome, headers: &HeaderMap, retry: &Retry) -> Outcome {
    let (outcome, unreadable) = hinted(outcome, headers);
    if let Some(field) = unreadable {
        retry.tell(&Event::HintUnreadable { field });
    }
    outcome
}

/// Writes on a response how it came about.
pub(super) fn report<R: Body>(
    options: &Options,
    response: &mut Response<Answer<R>>,
    attempts: Attempts,
) {
    if options.envoy {
        response.headers_mut().insert(names::X_ENVOY_ATTEMPT_COUNT, attempts.made.into());
    }
    if let Some(reason) =
        attempts.stopped.filter(|reason| inbound::should_cross(*reason, attempts.made))
    {
        let name = HeaderValue::from_static(reason.name());
        response.headers_mut().entry(names::STOP).or_insert(name);
    }
    response.extensions_mut().insert(attempts);
}
