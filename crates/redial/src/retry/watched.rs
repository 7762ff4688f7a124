//! Who is told what happens to calls.

use std::sync::Arc;

use redial_core::Observer;

use super::Retry;
#[cfg(feature = "otel")]
use crate::spans::Spans;

impl<C> Retry<C> {
    /// Tells `observer` what happens to the calls, instead of one set before.
    pub fn observe(self, observer: impl Observer + 'static) -> Self {
        self.observe_shared(Arc::new(observer))
    }

    /// As [`observe`](Self::observe), with an observer that others hold too.
    pub fn observe_shared(mut self, observer: Arc<dyn Observer>) -> Self {
        self.watch = self.watch.own(observer);
        self.rethink()
    }

    /// Counts the calls with `meter`, instead of one set before, and beside an observer. The destinations of
    /// [`scope`](Self::scope) are one upstream for it.
    #[cfg(feature = "metrics")]
    pub fn meter(mut self, meter: &crate::telemetry::Meter) -> Self {
        meter.core().watch(&self.shared);
        self.watch = self.watch.meter(Arc::clone(meter.core()));
        self.rethink()
    }

    /// Makes a span of every call, and one of each of its attempts.
    #[cfg(feature = "otel")]
    pub fn traced(mut self, otel: crate::telemetry::Otel) -> Self {
        self.spans = Spans::new(otel);
        self.watch = self.watch.somebody();
        self.rethink()
    }
}
