use std::error;
use std::fmt;
use std::ops::Deref;

use http::StatusCode;
use redial_core::Stop;
use redial_core::decide::{Class, Reach};

use super::BoxError;
use crate::error::{Ending, ErrorInner};
use crate::http::reach;
use crate::inbound;

/// A request that got no response: the last error of the client below, why no further attempt was made, how
/// many there were and how long they took.
///
/// It has the methods of [`redial::Error`](crate::Error). A response with an error status is not an error: it is
/// returned.
#[derive(Debug)]
pub struct Error {
    inner: crate::Error<BoxError>,
    maybe_processed: bool,
}

/// Time was up while the attempt waited for a part of the request's body: the caller was slow, not the server.
#[derive(Clone, Copy, Debug)]
pub struct SlowBody;

impl fmt::Display for SlowBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body of the request had not arrived when its time was up")
    }
}

impl std::error::Error for SlowBody {}

impl Error {
    /// The status for a caller of a gateway whose own request failed with this error.
    ///
    /// | status | when |
    /// |---|---|
    /// | 504 Gateway Timeout | the deadline has passed ([`Stop::Deadline`]) and the call was not [parked](crate::Error::parked), or the last attempt timed out |
    /// | 503 Service Unavailable | a guard refused an attempt ([`Stop::is_guard`]), or the last one was not sent: no connection, an [`EndpointRefused`](super::EndpointRefused), a client that was not ready |
    /// | 502 Bad Gateway | anything else: the connection broke, or the response was invalid |
    ///
    /// The first row that applies counts. None of them says that nothing was done; [`failure`](crate::Error::failure) says how far
    /// the last attempt got.
    pub fn status(&self) -> StatusCode {
        let failure = self.failure();
        let timed_out = failure.is_some_and(|failure| failure.class == Class::Timeout);
        let not_sent = failure.is_some_and(|failure| failure.reach == Reach::NotSent);
        let late = self.reason() == Stop::Deadline && self.parked().is_zero();
        if late || timed_out {
            StatusCode::GATEWAY_TIMEOUT
        } else if self.reason().is_guard() || self.attempts() == 0 || not_sent {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::BAD_GATEWAY
        }
    }

    /// Why the caller of a gateway should not retry either, for the header [`STOP`](crate::http::names::STOP) of its response:
    /// this call has retried or was [parked](crate::Error::parked), or a guard protects the server. `None` if the caller may.
    pub fn stop(&self) -> Option<Stop> {
        let reason = self.reason();
        inbound::should_cross(reason, self.attempts(), !self.parked().is_zero()).then_some(reason)
    }

    /// Whether any of the attempts may have been processed. If not, none was sent, or the server refused them all.
    pub fn maybe_processed(&self) -> bool {
        self.maybe_processed
    }

    pub(super) fn with_processed(self, maybe_processed: bool) -> Self {
        Self { maybe_processed, ..self }
    }

    /// The same as the error of any other call.
    pub fn into_inner(self) -> crate::Error<BoxError> {
        self.inner
    }

    /// The error of the client itself, if it has this type and there was only one attempt.
    #[cfg(feature = "reqwest-middleware")]
    pub(crate) fn only_cause<E: error::Error + 'static>(self) -> Result<E, Self> {
        if self.attempts() > 1 {
            return Err(self);
        }
        let ErrorInner { ending, cause } = self.inner.into_parts();
        match cause.map(|cause| cause.downcast::<E>()) {
            Some(Ok(cause)) => Ok(*cause),
            Some(Err(cause)) => Err(ErrorInner { ending, cause: Some(cause) }.into()),
            None => Err(ErrorInner { ending, cause: None }.into()),
        }
    }

    /// The client was not ready.
    pub(crate) fn before_any_attempt(cause: BoxError) -> Self {
        Self::alone(cause, 0)
    }

    /// Of a request that is left alone.
    pub(super) fn of_the_only_attempt(cause: BoxError) -> Self {
        Self::alone(cause, 1)
    }

    fn alone(cause: BoxError, attempts: u32) -> Self {
        let ending = Ending::new(Stop::Permanent, attempts, Some(reach::failure(&*cause)));
        ErrorInner { ending, cause: Some(cause) }.into()
    }
}

impl From<ErrorInner<BoxError>> for Error {
    fn from(inner: ErrorInner<BoxError>) -> Self {
        crate::Error::from(inner).into()
    }
}

impl From<crate::Error<BoxError>> for Error {
    /// Of several attempts only the last is known.
    fn from(inner: crate::Error<BoxError>) -> Self {
        let maybe_processed = match inner.attempts() {
            0 => false,
            1 => inner.failure().is_none_or(|failure| failure.reach == Reach::Unknown),
            _ => true,
        };
        Self { inner, maybe_processed }
    }
}

impl Deref for Error {
    type Target = crate::Error<BoxError>;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.inner.cause().map(|cause| &**cause as _)
    }
}
