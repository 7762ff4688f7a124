use std::error;
use std::fmt;

use redial_core::Stop;
use redial_core::decide::{Class, Failure, Reach};

/// No endpoint takes the request now, and nothing of it was sent.
///
/// A [`RetryLayer`](crate::http::RetryLayer) repeats it, whatever the method. Its breaker does not count it, because no
/// server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointRefused(Stop);

impl EndpointRefused {
    /// The guard that refused. For balancers that know before they choose an endpoint that none takes the request.
    pub fn new(reason: Stop) -> Self {
        Self(reason)
    }

    /// The guard that refused.
    pub fn reason(&self) -> Stop {
        self.0
    }

    pub(crate) fn failure() -> Failure {
        Failure::new(Class::Refused).reach(Reach::NotSent)
    }
}

impl fmt::Display for EndpointRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not sent to the endpoint: {}", self.0)
    }
}

impl error::Error for EndpointRefused {}
