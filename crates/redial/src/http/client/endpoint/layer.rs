use std::sync::Arc;

use tower_layer::Layer;

use super::EndpointService;
use crate::Retry;

/// Sends each attempt under the guards of one endpoint.
///
/// It belongs below a [`RetryLayer`](crate::http::RetryLayer) and its balancer: one for each server that the balancer chooses
/// from. A request that the guards refuse fails with [`EndpointRefused`](super::EndpointRefused), which the layer above repeats
/// within its own attempts and budget. Nothing is repeated here, and nothing cut off: the policy's attempts, waits, timeouts,
/// hedges and budget do not apply; its other guards do.
///
/// - The *breaker* learns from responses and errors as that of a `RetryLayer` does, by status, error and time. An
///   attempt that the layer above cuts off is a timeout. An attempt that is dropped because another was faster or
///   the caller left is not counted.
/// - The *concurrency limit* counts attempts until the head of their response, as in every policy. Readers
///   that take long for a body cannot block an endpoint.
/// - The *meter* and the observers of the `Retry` see every attempt as a call. Give the meter a name of its own.
///
/// The `Retry` should be the endpoint's own. A clone of that of the whole call, or one with the same
/// [`budget`](Retry::budget), counts each attempt twice. Clones of this value, and further ones made with clones of its `Retry`,
/// are the same endpoint, so its state survives a reload; so does what [`Retry::open_breaker`] and
/// [`Retry::reset_breaker`] did.
///
/// A balancer asks [`Retry::would_admit`] to avoid endpoints that would refuse.
///
/// ```
/// use redial::admit::BreakerRule;
/// use redial::http::EndpointLayer;
/// use redial::{Policy, Retry};
///
/// let rule = BreakerRule::default();
/// let policy = Policy::draft().attempts(1).without_stall().breaker(rule).concurrency(100).build()?;
/// let endpoint = EndpointLayer::new(Retry::new(policy));
/// assert!(endpoint.retry().would_admit());
/// endpoint.retry().open_breaker();
/// assert!(!endpoint.retry().would_admit());
/// # Ok::<(), redial::Invalid>(())
/// ```
#[derive(Clone, Debug)]
pub struct EndpointLayer(Arc<Retry>);

impl EndpointLayer {
    /// Sends attempts under the guards of `retry`.
    pub fn new(retry: Retry) -> Self {
        Self(Arc::new(retry.for_attempts()))
    }

    /// The guards, to ask and to operate.
    pub fn retry(&self) -> &Retry {
        &self.0
    }
}

impl<S> Layer<S> for EndpointLayer {
    type Service = EndpointService<S>;

    fn layer(&self, inner: S) -> EndpointService<S> {
        EndpointService::new(inner, Arc::clone(&self.0))
    }
}
