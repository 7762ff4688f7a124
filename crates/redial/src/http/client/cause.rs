use std::fmt;
use std::time::Duration;

use redial_core::Stop;
use redial_core::decide::{Classify, Failure};

use super::BoxError;
use crate::Error;
use crate::error::Story;
use crate::http::reach;

/// The error of the client below a [`RetryLayer`](super::RetryLayer), whatever its type.
pub struct Cause(BoxError);

impl Cause {
    /// The error itself.
    pub fn get_ref(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.0
    }

    /// The error itself, by value.
    pub fn into_inner(self) -> BoxError {
        self.0
    }

    /// The client was not ready.
    pub(super) fn before_any_attempt(self) -> Error<Self> {
        self.story(0)
    }

    /// Of a request that is left alone.
    pub(super) fn of_the_only_attempt(self) -> Error<Self> {
        self.story(1)
    }

    fn story(self, attempts: u32) -> Error<Self> {
        let (failure, cause) = (Some(self.classify()), Some(self));
        Story { reason: Stop::Permanent, attempts, elapsed: Duration::ZERO, failure, cause }.into()
    }
}

impl From<BoxError> for Cause {
    fn from(error: BoxError) -> Self {
        Self(error)
    }
}

impl Classify for Cause {
    fn classify(&self) -> Failure {
        reach::failure(&*self.0)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
