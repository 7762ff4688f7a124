use std::time::Duration;

use http::HeaderName;
use redial_core::Span;
use tower_layer::Layer;

use super::service::DeadlineService;
use crate::http::names;
#[cfg(feature = "metrics")]
use crate::telemetry::ServerMeter;

/// Stops requests at their callers' deadlines, and passes the deadlines on to outgoing calls.
///
/// Defaults: the deadline is read from `redial-timeout-ms` and `grpc-timeout`; a timeout of more than an hour counts as an
/// hour; a handler that is still running at the deadline is dropped. Handlers read the deadline with
/// [`Inbound::current`](crate::Inbound::current).
///
/// A request that is too late is answered with 504, or with DEADLINE_EXCEEDED for gRPC. Put this layer outside of a
/// [`ShedLayer`](crate::http::server::ShedLayer), so that the time in the queue counts:
///
/// ```
/// use axum::{Router, routing::get};
/// use redial::Inbound;
/// use redial::http::server::{DeadlineLayer, ShedLayer};
///
/// let left = || async { format!("{:?} are left", Inbound::current().remaining()) };
/// let app: Router = Router::new()
///     .route("/left", get(left))
///     .layer(ShedLayer::new(64))
///     .layer(DeadlineLayer::new());
/// ```
#[derive(Clone, Debug)]
pub struct DeadlineLayer {
    rule: Rule,
}

/// The options.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) header: HeaderName,
    pub(super) at_most: Span,
    pub(super) cut_off: bool,
    pub(super) extension: bool,
    #[cfg(feature = "metrics")]
    pub(super) meter: Option<ServerMeter>,
}

impl Default for DeadlineLayer {
    fn default() -> Self {
        let (header, at_most) = (names::TIMEOUT_MS, Span::from_secs(3600));
        let rule = Rule {
            header,
            at_most,
            cut_off: true,
            extension: false,
            #[cfg(feature = "metrics")]
            meter: None,
        };
        Self { rule }
    }
}

impl DeadlineLayer {
    /// A layer with the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the timeout, in milliseconds, from another header. `grpc-timeout` is read as well.
    #[must_use]
    pub fn header(mut self, name: HeaderName) -> Self {
        self.rule.header = name;
        self
    }

    /// Treats longer timeouts as this one.
    #[must_use]
    pub fn at_most(mut self, longest: Duration) -> Self {
        self.rule.at_most = longest.into();
        self
    }

    /// Does not drop a handler at the deadline, for handlers that must not be interrupted. A server still drops the
    /// handler when its client disconnects.
    #[must_use]
    pub fn without_cut_off(mut self) -> Self {
        self.rule.cut_off = false;
        self
    }

    /// Counts all requests with `meter`, including late ones.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn meter(mut self, meter: ServerMeter) -> Self {
        self.rule.meter = Some(meter);
        self
    }

    /// Also inserts the [`Inbound`](crate::Inbound) into the extensions of the request, for code that reads it there.
    /// In a request without other extensions this costs three allocations.
    #[must_use]
    pub fn with_extension(mut self) -> Self {
        self.rule.extension = true;
        self
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = DeadlineService<S>;

    fn layer(&self, inner: S) -> DeadlineService<S> {
        DeadlineService { inner, rule: self.rule.clone() }
    }
}
