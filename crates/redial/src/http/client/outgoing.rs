//! A request on its way out: what is kept of it for another attempt, and what is written on it.

use http::{HeaderMap, HeaderValue, Method, Request, Response, request};
use http_body::Body;
use redial_core::decide::{Outcome, Safety};
use redial_core::{Event, NEVER, Nanos, Stop, nanos};

use super::layer::Options;
use super::replay::{Kept, Replay};
use super::{Answer, BoxError};
use crate::attempt::Attempt;
use crate::http::{hinted, names, safety, status, travel};
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
    /// Which attempt of somebody above the request was when it came to us.
    arrived: u32,
}

/// What the layer finds out about a request before it is sent.
pub(super) struct Plan {
    pub(super) retry: Retry,
    pub(super) grpc: bool,
    /// What the request itself says is left for it.
    pub(super) left: Nanos,
}

impl Plan {
    /// `None` when the request is left alone.
    #[inline]
    pub(super) fn new(options: &Options, request: &mut request::Parts) -> Option<Self> {
        let mut retry = options.retry(request)?.clone();
        if options.per_host {
            let host = request.uri.authority().map_or("", |authority| authority.as_str());
            retry = retry.scope(host);
        }
        let grpc = request.method == Method::POST && travel::is_grpc(&request.headers);
        let key = retry.take_key();
        let key = request.extensions.get::<Key>().copied().or_else(|| key.make());
        if let Some(key) = key.filter(|_| !safety::is_read(&request.method)) {
            let absent = || key_value(key, options.bare_keys);
            request.headers.entry(names::IDEMPOTENCY_KEY).or_insert_with(absent);
        }
        match request.extensions.get::<Safety>() {
            Some(known) => retry.set_safety(*known),
            None => match safety::safety(&request.method, &request.headers) {
                Safety::Unsafe => {}
                known => retry.set_safety(known),
            },
        }
        let left = match &options.timeout_header {
            Some(name) if !request.headers.is_empty() => travel::timeout(&request.headers, name),
            _ => None,
        };
        Some(Self { retry, grpc, left: left.map_or(NEVER, nanos) })
    }
}

fn key_value(key: Key, bare: bool) -> HeaderValue {
    let text = if bare { key.to_string() } else { format!("\"{key}\"") };
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Splits a request into what is sent first and what is kept for another attempt. One that may not be
/// repeated is not cloned.
#[inline]
pub(super) fn split<B>(
    options: &Options,
    plan: &Plan,
    parts: request::Parts,
    body: B,
) -> (Request<Replay<B>>, Option<Outgoing<B>>)
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    let once = plan.retry.policy().attempts() == 1 || !plan.retry.is_enabled();
    if once {
        return (Request::from_parts(parts, Replay::once(body)), None);
    }
    let (body, kept) = Replay::keep(body, options.buffer);
    let arrived = travel::attempt(&parts.headers);
    let kept = kept.map(|kept| Outgoing { parts: parts.clone(), body: kept, next: None, arrived });
    (Request::from_parts(parts, body), kept)
}

impl<B> Outgoing<B> {
    /// Why it cannot be sent again, if it cannot.
    pub(super) fn barred(&self, retry: &Retry) -> Option<Stop> {
        if self.next.is_none() && self.body.is_lost() {
            Some(Stop::Body)
        } else if retry.policy().refuses_nested() && self.arrived > 1 {
            Some(Stop::Nested)
        } else {
            None
        }
    }

    /// Takes the body back, so that an earlier attempt sends no more of it.
    pub(super) fn rewind(&mut self) {
        self.next = self.body.again();
    }

    /// Whether all of the request has been sent.
    pub(super) fn is_sent(&self) -> bool {
        self.body.has_ended()
    }

    /// The next attempt, after [`rewind`](Self::rewind).
    pub(super) fn again(
        &mut self,
        options: &Options,
        attempt: &Attempt,
        grpc: bool,
    ) -> Option<Request<Replay<B>>> {
        let body = self.next.take()?;
        let mut request = Request::from_parts(self.parts.clone(), body);
        let headers = request.headers_mut();
        stamp(options, headers, attempt, grpc);
        let count = self.arrived.saturating_add(attempt.number() - 1);
        headers.insert(names::ATTEMPT, count.into());
        if grpc {
            headers.insert(names::GRPC_PREVIOUS_RPC_ATTEMPTS, (attempt.number() - 1).into());
        }
        Some(request)
    }
}

/// Writes what every attempt carries.
#[inline]
pub(super) fn stamp(options: &Options, headers: &mut HeaderMap, attempt: &Attempt, grpc: bool) {
    if grpc {
        if let Some(left) = attempt.timeout() {
            headers.insert(names::GRPC_TIMEOUT, travel::grpc_timeout_value(left));
        }
    } else if let Some(name) = &options.timeout_header {
        if let Some(left) = attempt.timeout() {
            headers.insert(name.clone(), travel::timeout_value(left));
        }
    }
    if options.envoy {
        headers.insert(names::X_ENVOY_ATTEMPT_COUNT, attempt.number().into());
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
