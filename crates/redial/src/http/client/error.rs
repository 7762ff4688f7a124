use std::error;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use redial_core::Stop;

use super::BoxError;
use crate::error::ErrorInner;
use crate::http::reach;

/// A request that got no response: the last error of the client below, why no further attempt was made, how
/// many there were and how long they took.
///
/// It has the methods of [`redial::Error`](crate::Error). A failed response is no error: it is returned.
#[derive(Debug)]
pub struct Error(crate::Error<BoxError>);

impl Error {
    /// The same as the error of any other call.
    pub fn into_inner(self) -> crate::Error<BoxError> {
        self.0
    }

    /// The error of the client itself, when it was of this type and there was but one attempt.
    #[cfg(feature = "reqwest-middleware")]
    pub(crate) fn only_cause<E: error::Error + 'static>(self) -> Result<E, Self> {
        if self.attempts() > 1 {
            return Err(self);
        }
        let mut inner = self.0.into_parts();
        match inner.cause.take().map(|cause| cause.downcast::<E>()) {
            Some(Ok(cause)) => Ok(*cause),
            Some(Err(cause)) => Err(inner.with_cause(Some(cause)).into()),
            None => Err(inner.into()),
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
        let (failure, cause) = (Some(reach::failure(&*cause)), Some(cause));
        let (reason, elapsed) = (Stop::Permanent, Duration::ZERO);
        ErrorInner { reason, attempts, elapsed, failure, cause }.into()
    }
}

impl From<ErrorInner<BoxError>> for Error {
    fn from(inner: ErrorInner<BoxError>) -> Self {
        Self(inner.into())
    }
}

impl From<crate::Error<BoxError>> for Error {
    fn from(error: crate::Error<BoxError>) -> Self {
        Self(error)
    }
}

impl Deref for Error {
    type Target = crate::Error<BoxError>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.cause().map(|cause| &**cause as _)
    }
}
