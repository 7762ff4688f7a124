use std::time::Duration;

use http::HeaderName;
use redial_core::{Nanos, nanos};
use tower_layer::Layer;

use super::service::Deadline;
use crate::http::names;
#[cfg(feature = "metrics")]
use crate::telemetry::ServerMeter;

/// Serves requests only for as long as their callers wait, and lets outgoing calls know how long that is.
///
/// Defaults: the deadline is read from `redial-timeout-ms` and `grpc-timeout`; more than an hour is not
/// believed; a handler that is still running when the deadline passes is dropped; the request carries an
/// [`Inbound`](crate::Inbound) in its extensions.
///
/// What is too late is answered with 504, or with DEADLINE_EXCEEDED when it is gRPC. It goes outside of a
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

/// What the options say.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) header: HeaderName,
    pub(super) at_most: Nanos,
    pub(super) cut_off: bool,
    pub(super) extension: bool,
    #[cfg(feature = "metrics")]
    pub(super) meter: Option<ServerMeter>,
}

impl Default for DeadlineLayer {
    fn default() -> Self {
        let (header, at_most) = (names::TIMEOUT_MS, 3_600_000_000_000);
        let rule = Rule {
            header,
            at_most,
            cut_off: true,
            extension: true,
            #[cfg(feature = "metrics")]
            meter: None,
        };
        Self { rule }
    }
}

impl DeadlineLayer {
    /// With the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads what is left, in milliseconds, from another header. `grpc-timeout` is read in any case.
    #[must_use]
    pub fn header(mut self, name: HeaderName) -> Self {
        self.rule.header = name;
        self
    }

    /// Believes no caller that claims to wait longer than this.
    #[must_use]
    pub fn at_most(mut self, longest: Duration) -> Self {
        self.rule.at_most = nanos(longest);
        self
    }

    /// Lets a handler that has started finish, for those that must not be dropped half-way. Their callers have
    /// gone by then, and a server drops the handlers of callers that hang up whatever this says.
    #[must_use]
    pub fn without_cut_off(mut self) -> Self {
        self.rule.cut_off = false;
        self
    }

    /// Counts the requests with `meter`, those that are too late included.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn meter(mut self, meter: ServerMeter) -> Self {
        self.rule.meter = Some(meter);
        self
    }

    /// Leaves the extensions of the request alone, which saves their allocation.
    /// [`Inbound::current`](crate::Inbound::current) says the same.
    #[must_use]
    pub fn without_extension(mut self) -> Self {
        self.rule.extension = false;
        self
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, inner: S) -> Deadline<S> {
        Deadline { inner, rule: self.rule.clone() }
    }
}
