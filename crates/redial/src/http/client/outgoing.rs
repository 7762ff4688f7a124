//! A request may have to be sent again. This is what is kept of it for that, the headers that each attempt
//! gets, and how its response is read.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, HeaderMap, HeaderValue, Request, Response, request};
use http_body::Body;
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::{Deadline, Event, Span, Stop, Time, TimeLimit};

use super::layer::{Options, RouteRetry};
use super::replay::{Kept, Replay, Upload};
use super::{Answer, BoxError};
use crate::clock::Tokio;
#[cfg(feature = "reqwest")]
use crate::http::reqwest::Redirected;
use crate::http::{hinted, names, safety, status, travel};
use crate::{Key, Retry, inbound};

/// How a response was obtained: an extension of responses that took more than one attempt, or whose call was parked or gave
/// up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    made: u32,
    stopped: Option<Stop>,
    maybe_applied: bool,
    parked: Duration,
}

impl Attempts {
    pub(super) fn new(made: u32, stopped: Option<Stop>, maybe_applied: bool) -> Self {
        Self { made, stopped, maybe_applied, parked: Duration::ZERO }
    }

    pub(super) fn parked_for(self, parked: Duration) -> Self {
        Self { parked, ..self }
    }

    /// Reads them from the extensions of a response. Without any, it took a single attempt.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or(Self::new(1, None, false))
    }

    /// How many attempts were made.
    pub fn made(&self) -> u32 {
        self.made
    }

    /// Why no further attempt was made; `None` after a success.
    pub fn stopped(&self) -> Option<Stop> {
        self.stopped
    }

    /// For how long the call was parked in all.
    pub fn parked(&self) -> Duration {
        self.parked
    }

    /// Whether the refusal may be caused by this call's own work: an earlier attempt may have been processed, and
    /// now the server reports a conflict or a failed precondition (409, 412, or gRPC's ALREADY_EXISTS,
    /// FAILED_PRECONDITION and ABORTED).
    pub fn maybe_applied(&self) -> bool {
        self.maybe_applied
    }
}

/// A request in flight: what all of its attempts share.
pub(super) struct Outgoing<B> {
    options: Arc<Options>,
    route: RouteRetry,
    pub(super) grpc: bool,
    original: Original<B>,
}

/// The request as the caller made it.
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for every request")]
enum Original<B> {
    /// It can be sent again.
    Kept { parts: request::Parts, body: Kept<B> },
    /// It was sent and is gone. `safety` is what it said about being repeated, if anything.
    Gone { safety: Option<Safety>, upload: Upload },
}

/// A request that is ready for its first attempt.
pub(super) struct Prepared<B> {
    pub(super) request: Request<Replay<B>>,
    pub(super) outgoing: Outgoing<B>,
    pub(super) times: Times,
}

impl<B: Body<Error: Into<BoxError>> + Unpin> Prepared<B> {
    #[inline(always)]
    pub(super) fn new(
        options: &Arc<Options>,
        route: RouteRetry,
        mut parts: request::Parts,
        body: B,
    ) -> Self {
        let retry = route.retry(options);
        let grpc = travel::is_grpc_request(&parts.method, &parts.headers);
        write_key(options, retry, &mut parts);
        let (body, kept) = keep(options, retry, body, grpc);
        let original = match kept {
            Ok(body) => Original::Kept { parts: parts.clone(), body },
            Err(upload) => Original::Gone { safety: safety_of(&parts), upload },
        };
        let times = Times::start(options, retry, &mut parts.headers, grpc);
        let outgoing = Outgoing { options: Arc::clone(options), route, grpc, original };
        Self { request: Request::from_parts(parts, body), outgoing, times }
    }
}

/// Writes the idempotency key, unless the request has one or is a read.
#[inline]
fn write_key(options: &Options, retry: &Retry, request: &mut request::Parts) {
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

/// What a request says about being repeated, if anything.
#[cold]
fn safety_of(request: &request::Parts) -> Option<Safety> {
    let stated = || Some(safety::safety(&request.method, &request.headers));
    let derived = || stated().filter(|safety| *safety != Safety::Unsafe);
    request.extensions.get::<Safety>().copied().or_else(derived)
}

/// The body that is sent first, and what is kept of it. A request that may not be repeated is not cloned; a
/// gRPC request may be resent even then.
#[inline(always)]
fn keep<B>(
    options: &Options,
    retry: &Retry,
    body: B,
    grpc: bool,
) -> (Replay<B>, Result<Kept<B>, Upload>)
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    if !grpc && (retry.policy().attempts() == 1 || !retry.is_enabled()) {
        let upload = Upload::of(&body);
        return (Replay::once(body, upload.clone()), Err(upload));
    }
    let (body, kept) = Replay::keep(body, options.buffer, options.replay_memory.as_ref());
    (body, kept.ok_or_else(Upload::default))
}

impl<B> Outgoing<B> {
    #[inline(always)]
    pub(super) fn retry(&self) -> &Retry {
        self.route.retry(&self.options)
    }

    /// Why the request cannot be sent again, if it cannot.
    pub(super) fn barred(&self) -> Option<Stop> {
        match &self.original {
            Original::Kept { parts, .. } if !self.is_lost() => {
                let nested =
                    self.retry().policy().refuses_nested() && travel::attempt(&parts.headers) > 1;
                nested.then_some(Stop::Nested)
            }
            _ => Some(Stop::Body),
        }
    }

    /// Whether a part of the body was sent that was not kept.
    pub(super) fn is_lost(&self) -> bool {
        match &self.original {
            Original::Kept { body, .. } => body.is_lost(),
            Original::Gone { .. } => true,
        }
    }

    /// Whether the attempt waits for a part of the body that the caller has not sent yet.
    pub(super) fn waits_for_caller(&self) -> bool {
        match &self.original {
            Original::Kept { body, .. } => body.is_waiting(),
            Original::Gone { upload, .. } => upload.is_waiting(),
        }
    }

    pub(super) fn safety(&self) -> Option<Safety> {
        match &self.original {
            Original::Kept { parts, .. } => safety_of(parts),
            Original::Gone { safety, .. } => *safety,
        }
    }

    /// Stops an earlier attempt from sending more of the body, so that it can be sent from its beginning.
    pub(super) fn rewind(&self) {
        if let Original::Kept { body, .. } = &self.original {
            body.rewind();
        }
    }

    /// Whether several attempts can be in flight at once: all of the body is kept, and no precondition lets only one succeed.
    pub(super) fn can_hedge(&self) -> bool {
        let Original::Kept { parts, body } = &self.original else { return false };
        body.has_ended()
            && !body.is_lost()
            && !safety::is_conditional(&parts.method, &parts.headers)
    }

    /// The request again, after [`rewind`](Self::rewind), as this attempt with so much time left. `None`
    /// if it is gone, or if a part of its body was sent that was not kept. The attempts of callers further
    /// up count too.
    pub(super) fn again(&self, number: u32, left: TimeLimit) -> Option<Request<Replay<B>>> {
        let Original::Kept { parts, body } = &self.original else { return None };
        if body.is_lost() {
            return None;
        }
        let mut request = Request::from_parts(parts.clone(), body.again());
        let headers = request.headers_mut();
        let before = number.saturating_sub(1);
        let count = travel::attempt(headers).saturating_add(before);
        stamp(&self.options, headers, left, number, self.grpc);
        if count > 1 {
            headers.insert(names::ATTEMPT, count.into());
        }
        if self.grpc && before > 0 {
            headers.insert(names::GRPC_PREVIOUS_RPC_ATTEMPTS, before.into());
        }
        Some(request)
    }

    /// Updates the headers of a first attempt that was not sent at once.
    pub(super) fn delayed(&self, request: &mut Request<Replay<B>>, left: TimeLimit) {
        stamp(&self.options, request.headers_mut(), left, 1, self.grpc);
    }

    /// Whether the head of a response alone shows that the attempt succeeded.
    #[inline(always)]
    pub(super) fn is_success<R>(&self, response: &Response<R>) -> bool {
        let grpc =
            || !self.options.trailers && !response.headers().contains_key(names::GRPC_STATUS);
        response.status().as_u16() < 400 && self.options.judge.is_none() && (!self.grpc || grpc())
    }

    /// Whether the status of a gRPC response may be in its first frame. While the request is being sent,
    /// the response may be waiting for the rest of it.
    pub(super) fn should_peek<R>(&self, response: &Response<R>) -> bool {
        let sent = matches!(&self.original, Original::Kept { body, .. } if body.has_ended());
        self.grpc
            && self.options.trailers
            && sent
            && !response.headers().contains_key(names::GRPC_STATUS)
    }

    /// The outcome that a response stands for: its status, the user's own judgement, its hints and the
    /// stop signal.
    pub(super) fn read<R>(&self, response: Response<R>) -> (Outcome, Response<R>) {
        let options = &self.options;
        let (parts, body) = response.into_parts();
        let (status, headers) = (parts.status, &parts.headers);
        let mut outcome = status::read(status, headers, self.grpc, options.request_timeout);
        if self.is_keyed() && status::is_in_flight(status, headers) {
            outcome = Failure::new(Class::Refused).code(status.as_u16()).into();
        }
        #[cfg(feature = "reqwest")]
        if let (Outcome::Failure(failure), Some(Redirected)) = (outcome, parts.extensions.get()) {
            outcome = failure.reach(redial_core::decide::Reach::Unknown).into();
        }
        if let Some(judge) = &options.judge {
            outcome = judge(&parts, outcome);
        }
        let outcome = self.with_hints(outcome, &parts.headers);
        (outcome, Response::from_parts(parts, body))
    }

    /// The outcome with the hints of the headers or trailers.
    pub(super) fn with_hints(&self, outcome: Outcome, headers: &HeaderMap) -> Outcome {
        let (outcome, hints) = hinted(outcome, headers);
        if let Some(field) = hints.unreadable {
            self.retry().tell(&Event::HintUnreadable { field });
        }
        if let Some(field) = hints.nonstandard {
            self.retry().tell(&Event::HintNonstandard { field });
        }
        outcome
    }

    fn is_keyed(&self) -> bool {
        match &self.original {
            Original::Kept { parts, .. } => parts.headers.contains_key(names::IDEMPOTENCY_KEY),
            Original::Gone { .. } => false,
        }
    }

    /// Adds the number of attempts to a response, if the layer is asked to.
    #[inline(always)]
    pub(super) fn count<R>(&self, mut response: Response<R>, made: u32) -> Response<R> {
        if let Some(name) = &self.options.attempts_header {
            response.headers_mut().insert(name, made.into());
        }
        response
    }

    /// Adds to a response how it came about.
    pub(super) fn report<R: Body>(
        &self,
        response: Response<Answer<R>>,
        attempts: Attempts,
    ) -> Response<Answer<R>> {
        let mut response = self.count(response, attempts.made);
        if self.options.envoy {
            response.headers_mut().insert(names::X_ENVOY_ATTEMPT_COUNT, attempts.made.into());
        }
        let Attempts { made, stopped, parked, .. } = attempts;
        if let Some(reason) =
            stopped.filter(|reason| inbound::should_cross(*reason, made, !parked.is_zero()))
        {
            let name = HeaderValue::from_static(reason.name());
            response.headers_mut().entry(names::STOP).or_insert(name);
        }
        response.extensions_mut().insert(attempts);
        response
    }
}

/// When the first attempt starts and is cut off, and when the call ends.
pub(super) struct Times {
    pub(super) now: Time,
    pub(super) expires: Deadline,
    pub(super) latest: Deadline,
}

impl Times {
    /// Starts now, and tells the server how long the caller waits. A timeout that the request carries already
    /// counts too.
    #[inline(always)]
    fn start(options: &Options, retry: &Retry, headers: &mut HeaderMap, grpc: bool) -> Self {
        let (now, mut latest) = (retry.now::<Tokio>(), retry.latest());
        let mut expires = retry.expiry(now, latest);
        if let Some(left) = stamp(options, headers, expires.left(now), 1, grpc) {
            latest = latest.min((now + left).into());
            expires = retry.expiry(now, latest);
            stamp(options, headers, expires.left(now), 1, grpc);
        }
        Self { now, expires, latest }
    }
}

/// Writes the headers that every attempt carries. Returns the timeout that the request carried before.
#[inline(always)]
fn stamp(
    options: &Options,
    headers: &mut HeaderMap,
    left: TimeLimit,
    number: u32,
    grpc: bool,
) -> Option<Span> {
    if options.envoy {
        headers.insert(names::X_ENVOY_ATTEMPT_COUNT, number.into());
    }
    if grpc {
        let before = match left.duration() {
            Some(left) => headers.insert(names::GRPC_TIMEOUT, travel::grpc_timeout_value(left)),
            None => headers.get(names::GRPC_TIMEOUT).cloned(),
        };
        return before.as_ref().and_then(travel::grpc_timeout).map(Span::from);
    }
    let name = options.timeout_header.as_ref()?;
    let before = match left.span() {
        Some(left) => headers.insert(name, number_value(left.as_millis())),
        None => headers.get(name).cloned(),
    };
    before.as_ref().and_then(travel::digits).map(Span::from_millis)
}

thread_local!(static LATEST: RefCell<(u64, HeaderValue)> = RefCell::new((0, HeaderValue::from(0))));

/// The value of a header. The first attempts of all calls of a policy have the same timeout, so that the latest value is
/// most often the next one too, and not allocated again.
#[inline]
fn number_value(number: u64) -> HeaderValue {
    LATEST.with_borrow_mut(|(latest, value)| {
        if *latest != number {
            (*latest, *value) = (number, HeaderValue::from(number));
        }
        value.clone()
    })
}
