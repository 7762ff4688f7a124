//! A request on its way out: what is kept of it for another attempt, and what is written on it.

use std::time::Duration;

use http::{Extensions, HeaderMap, HeaderValue, Request, Response, request};
use http_body::Body;
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::{Event, NEVER, Nanos, Stop, nanos};

use super::layer::Options;
use super::replay::{Kept, Replay};
use super::{Answer, BoxError};
use crate::clock::Tokio;
#[cfg(feature = "reqwest")]
use crate::http::reqwest::Redirected;
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

    /// Those of a response, by its extensions. One that says nothing took a single attempt.
    pub fn of(extensions: &Extensions) -> Self {
        let one = Self { made: 1, stopped: None, maybe_applied: false };
        extensions.get().copied().unwrap_or(one)
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
    pub(super) parts: request::Parts,
    pub(super) body: Kept<B>,
}

/// Writes the idempotency key, unless the request has one or only asks.
#[inline]
pub(super) fn write_key(options: &Options, retry: &Retry, request: &mut request::Parts) {
    if safety::is_read(&request.method) {
        return;
    }
    if let Some(key) = request.extensions.get::<Key>().copied().or_else(|| retry.call_key()) {
        let text = if options.bare_keys { key.to_string() } else { format!("\"{key}\"") };
        if let Ok(value) = HeaderValue::try_from(text) {
            request.headers.entry(names::IDEMPOTENCY_KEY).or_insert(value);
        }
    }
}

/// What a request says about being done twice, if it says anything.
#[cold]
pub(super) fn safety_of(request: &request::Parts) -> Option<Safety> {
    let said = || Some(safety::safety(&request.method, &request.headers));
    let derived = || said().filter(|safety| *safety != Safety::Unsafe);
    request.extensions.get::<Safety>().copied().or_else(derived)
}

/// The body that is sent first, and what is kept of it. A request that may not be repeated is not cloned; one
/// of gRPC may be sent anew even then.
#[inline(always)]
pub(super) fn keep<B>(
    options: &Options,
    retry: &Retry,
    body: B,
    grpc: bool,
) -> (Replay<B>, Option<Kept<B>>)
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    if !grpc && (retry.policy().attempts() == 1 || !retry.is_enabled()) {
        return (Replay::once(body), None);
    }
    Replay::keep(body, options.buffer)
}

impl<B> Outgoing<B> {
    /// Why it cannot be sent again, if it cannot.
    pub(super) fn barred(&self, retry: &Retry) -> Option<Stop> {
        if self.is_lost() {
            Some(Stop::Body)
        } else if retry.policy().refuses_nested() && travel::attempt(&self.parts.headers) > 1 {
            Some(Stop::Nested)
        } else {
            None
        }
    }

    /// Whether a part of the body went by that was not kept.
    pub(super) fn is_lost(&self) -> bool {
        self.body.is_lost()
    }

    pub(super) fn is_keyed(&self) -> bool {
        self.parts.headers.contains_key(names::IDEMPOTENCY_KEY)
    }

    pub(super) fn safety(&self) -> Option<Safety> {
        safety_of(&self.parts)
    }

    /// Takes the body away from an earlier attempt, which sends no more of it.
    pub(super) fn rewind(&self) {
        self.body.rewind();
    }

    /// Whether its body can be sent by several attempts at once.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.body, Kept::Whole(_))
    }

    /// Whether all of the request has been sent.
    pub(super) fn is_sent(&self) -> bool {
        self.body.has_ended()
    }

    /// The request once more, after [`rewind`](Self::rewind), as this attempt with so much time. The attempts of
    /// those above count too.
    pub(super) fn again(
        &self,
        options: &Options,
        number: u32,
        left: Nanos,
        grpc: bool,
    ) -> Request<Replay<B>> {
        let mut request = Request::from_parts(self.parts.clone(), self.body.again());
        let headers = request.headers_mut();
        let before = number.saturating_sub(1);
        let count = travel::attempt(headers).saturating_add(before);
        stamp(options, headers, left, number, grpc);
        if count > 1 {
            headers.insert(names::ATTEMPT, count.into());
        }
        if grpc && before > 0 {
            headers.insert(names::GRPC_PREVIOUS_RPC_ATTEMPTS, before.into());
        }
        request
    }
}

/// When the first attempt starts and is cut off, and when the call ends.
pub(super) struct Span {
    pub(super) now: Nanos,
    pub(super) until: Nanos,
    pub(super) latest: Nanos,
}

impl Span {
    /// Starts now, and writes on the request how long it is waited for. What it said itself about that counts
    /// too.
    #[inline(always)]
    pub(super) fn begin(
        options: &Options,
        retry: &Retry,
        headers: &mut HeaderMap,
        grpc: bool,
    ) -> Self {
        let (now, mut latest) = (retry.now::<Tokio>(), retry.latest());
        let mut until = retry.expiry(now, latest);
        if let Some(left) = stamp(options, headers, until.saturating_sub(now), 1, grpc) {
            latest = latest.min(now.saturating_add(left));
            until = retry.expiry(now, latest);
            stamp(options, headers, until.saturating_sub(now), 1, grpc);
        }
        Self { now, until, latest }
    }
}

/// Writes what every attempt carries. What the request said before about the time that is left for it is
/// returned.
#[inline(always)]
pub(super) fn stamp(
    options: &Options,
    headers: &mut HeaderMap,
    left: Nanos,
    number: u32,
    grpc: bool,
) -> Option<Nanos> {
    if options.envoy {
        headers.insert(names::X_ENVOY_ATTEMPT_COUNT, number.into());
    }
    if grpc {
        let before = if left < LONGEST {
            let value = travel::grpc_timeout_value(Duration::from_nanos(left));
            headers.insert(names::GRPC_TIMEOUT, value)
        } else {
            headers.get(names::GRPC_TIMEOUT).cloned()
        };
        return before.as_ref().and_then(travel::grpc_timeout).map(nanos);
    }
    let name = options.timeout_header.as_ref()?;
    let before = if left < LONGEST {
        headers.insert(name, HeaderValue::from(left / MILLISECOND))
    } else {
        headers.get(name).cloned()
    };
    before.as_ref().and_then(travel::digits).map(|left| left.saturating_mul(MILLISECOND))
}

const MILLISECOND: Nanos = 1_000_000;

/// What is left of a call without a deadline is longer than any that can be set.
const LONGEST: Nanos = NEVER / 2;

/// What a response means: its status, the author's own judgement, its hints and the stop signal.
pub(super) fn read<R>(
    options: &Options,
    retry: &Retry,
    response: Response<R>,
    grpc: bool,
    keyed: bool,
) -> (Outcome, Response<R>) {
    let (parts, body) = response.into_parts();
    let mut outcome = status::read(parts.status, &parts.headers, grpc, options.request_timeout);
    if keyed && status::is_in_flight(parts.status, &parts.headers) {
        outcome = Failure::new(Class::Refused).code(parts.status.as_u16()).into();
    }
    #[cfg(feature = "reqwest")]
    if let (Outcome::Failure(failure), Some(Redirected)) = (outcome, parts.extensions.get()) {
        outcome = failure.reach(redial_core::decide::Reach::Unknown).into();
    }
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
