//! The body of a request on its way from the caller to an endpoint.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, iter};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use redial::http::server::idempotency;
use redial::http::{BoxError, Replay};

use crate::headers::forwarding;
use crate::limits;
use crate::net::activity::Activity;
use crate::net::timer::Timer;

/// The body of an attempt.
pub(crate) type RequestBody = Replay<Inbound>;

/// The body of a caller's request.
pub(crate) enum Inbound {
    Streamed(Arriving),
    /// Read by the idempotency layer, if the request has a key.
    Keyed(Box<idempotency::Body<Arriving>>),
}

/// A body that arrives, with a limit on its pauses; `None` for a request without one. In a box, because a request is moved
/// often.
pub(crate) struct Arriving(Option<Box<Parts>>);

struct Parts {
    body: Incoming,
    paused: Timer,
    /// Told of the end.
    activity: Arc<Activity>,
    /// Whether trailers of proxies are accepted.
    trust: bool,
}

impl Arriving {
    pub(crate) fn new(body: Incoming, activity: &Arc<Activity>, trust: bool) -> Self {
        let has_body = !body.is_end_stream();
        activity.set_arriving(has_body);
        let parts =
            || Parts { body, paused: Timer::default(), activity: Arc::clone(activity), trust };
        Self(has_body.then(|| Box::new(parts())))
    }
}

impl Parts {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(read) = &mut frame {
            self.paused.stop();
            if let Some(Ok(frame)) = read
                && let Some(trailers) = frame.trailers_mut()
                && !self.trust
            {
                forwarding::strip(trailers);
            }
            if read.is_none() || self.body.is_end_stream() {
                self.activity.set_arriving(false);
            }
        } else if self.paused.poll(limits::REQUEST_BODY, cx).is_ready() {
            return Poll::Ready(Some(Err(CallerFailed::Paused.into())));
        }
        frame.map_err(|error| CallerFailed::Broke(error).into())
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.as_mut().map_or(Poll::Ready(None), |parts| parts.poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|parts| parts.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or(SizeHint::with_exact(0), |parts| parts.body.size_hint())
    }
}

impl Body for Inbound {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Streamed(body) => Pin::new(body).poll_frame(cx),
            Self::Keyed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Streamed(body) => body.is_end_stream(),
            Self::Keyed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Streamed(body) => body.size_hint(),
            Self::Keyed(body) => body.size_hint(),
        }
    }
}

/// The body of a request did not arrive.
#[derive(Debug)]
pub(crate) enum CallerFailed {
    /// No part of it for too long.
    Paused,
    /// It is invalid, or the caller has left. The error is no source of this one: it is not that of an attempt.
    Broke(hyper::Error),
}

impl CallerFailed {
    /// Whether this is among an error and its sources.
    pub(crate) fn caused(error: &(dyn Error + 'static)) -> bool {
        let mut errors = iter::successors(Some(error), |error| (*error).source());
        errors.any(|error| error.is::<Self>())
    }
}

impl fmt::Display for CallerFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => f.write_str("the caller sent no part of the body for 30 s"),
            Self::Broke(error) => write!(f, "the body of the request is incomplete: {error}"),
        }
    }
}

impl Error for CallerFailed {}
