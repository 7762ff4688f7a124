use std::sync::Arc;

use redial_core::Observer;

use super::Retry;
#[cfg(feature = "otel")]
use crate::spans::Spans;

impl<C> Retry<C> {
    /// Notifies `observer` of every event of the calls. It replaces one set before.
    pub fn observe(self, observer: impl Observer + 'static) -> Self {
        self.observe_shared(Arc::new(observer))
    }

    /// As [`observe`](Self::observe), with an observer that is shared.
    pub fn observe_shared(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers = self.observers.with_user(observer);
        self
    }

    /// Counts the calls with `meter`. It replaces one set before, and works beside an observer. The destinations of
    /// [`scope`](Self::scope) count as one upstream.
    #[cfg(feature = "metrics")]
    pub fn meter(mut self, meter: &crate::telemetry::Meter) -> Self {
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
