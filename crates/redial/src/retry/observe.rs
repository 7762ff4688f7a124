use std::sync::Arc;

use redial_core::Observer;

use super::Retry;
#[cfg(feature = "otel")]
use crate::spans::Spans;

impl<C> Retry<C> {
    /// Notifies `observer` of every event of the calls. Replaces an earlier observer.
    ///
    /// To share an observer, pass it in an [`Arc`].
    pub fn observe(mut self, observer: impl Observer + 'static) -> Self {
        self.observers = self.observers.with_user(Arc::new(observer));
        self
    }

    /// Counts the calls with `meter`. Replaces an earlier meter, and works beside an observer. The destinations of
    /// [`scope`](Self::scope) count as one upstream.
    #[cfg(feature = "metrics")]
    pub fn meter(mut self, meter: crate::telemetry::Meter) -> Self {
        meter.core().watch(&self.shared);
        self.observers = self.observers.with_meter(Arc::clone(meter.core()));
        self
    }

    /// Creates a span for every call, and one for each of its attempts.
    #[cfg(feature = "otel")]
    pub fn traced(mut self, otel: crate::telemetry::Otel) -> Self {
        self.spans = Spans::new(otel);
        self
    }
}
