use std::sync::Arc;
use std::time::Duration;

use redial_core::Span;
use redial_core::admit::Slots;
use tower_layer::Layer;

use super::error::InvalidShare;
use super::gate::Gate;
use super::limiter::Limiter;
use super::service::Shed;
use crate::http::server::refuse::{EXHAUSTED, Status, UNAVAILABLE};

/// Limits how many requests are served at once, and tells rejected clients when to retry.
///
/// Defaults: the queue is as long as the limit; at least a tenth of the capacity is booked for rejected callers; slots
/// are booked up to 10 s ahead, which is as long as a standard policy waits; a rejection is a 503.
///
/// A request holds its permit until there is a response. With an
/// `IdempotencyLayer` further in, a request with an idempotency key holds none
/// while its body is arriving. A request without a key does while its handler reads the body.
///
/// All services that one layer and its clones wrap share the limit, so that `Router::layer` limits the server and not
/// each of its routes. Set the options before the layer wraps a service.
///
/// ```
/// # async fn score() -> &'static str { "7" }
/// use axum::{Router, routing::get};
/// use redial::http::server::ShedLayer;
///
/// let app: Router = Router::new().route("/score", get(score)).layer(ShedLayer::new(64).queue(32));
/// ```
#[derive(Clone, Debug)]
pub struct ShedLayer {
    rule: Rule,
    limiter: Arc<Limiter>,
}

/// The options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) limit: u32,
    pub(super) queue: usize,
    pub(super) min_share: f64,
    pub(super) horizon: Span,
    pub(super) status: &'static Status,
}

impl ShedLayer {
    /// Serves at most `limit` requests at once. Set it to what the server can process in parallel: its capacity is
    /// computed as the limit divided by how long a request takes. A limit of 0 rejects every request.
    pub fn new(limit: usize) -> Self {
        let (queue, min_share, horizon) = (limit, Slots::MIN_SHARE, Slots::HORIZON);
        // The turnstile reserves the largest number.
        let limit = u32::try_from(limit).unwrap_or(u32::MAX).min(u32::MAX - 1);
        Self::with(Rule { limit, queue, min_share, horizon, status: &UNAVAILABLE })
    }

    fn with(rule: Rule) -> Self {
        Self { rule, limiter: Arc::new(Limiter::new(&rule)) }
    }

    /// Lets at most this many requests wait.
    #[must_use]
    pub fn queue(self, queue: usize) -> Self {
        Self::with(Rule { queue, ..self.rule })
    }

    /// Books rejected callers into at least this share of the capacity, from 0 to 1, even when first attempts leave
    /// less. With 1 the whole capacity is booked, as if there were no first attempts.
    ///
    /// # Errors
    ///
    /// If the share is not from 0 to 1.
    pub fn min_share(self, ratio: f64) -> Result<Self, InvalidShare> {
        if (0.0..=1.0).contains(&ratio) {
            Ok(Self::with(Rule { min_share: ratio, ..self.rule }))
        } else {
            Err(InvalidShare(ratio))
        }
    }

    /// Books slots at most this far ahead, and at most an hour. Callers that would have to wait longer are told not to
    /// retry.
    #[must_use]
    pub fn horizon(self, horizon: Duration) -> Self {
        Self::with(Rule { horizon: horizon.into(), ..self.rule })
    }

    /// Rejects with 429 instead of 503, for clients that retry only 429.
    #[must_use]
    pub fn too_many_requests(self) -> Self {
        Self::with(Rule { status: &EXHAUSTED, ..self.rule })
    }

    /// How many requests are being served.
    pub fn in_flight(&self) -> u32 {
        self.limiter.in_flight()
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.limiter.waiting()
    }

    /// A separate gate with the same options, for other kinds of servers and for simulations.
    pub fn gate<W>(&self) -> Gate<W> {
        Gate::new(&self.rule)
    }
}

impl<S> Layer<S> for ShedLayer {
    type Service = Shed<S>;

    fn layer(&self, inner: S) -> Shed<S> {
        Shed::new(inner, self.limiter.clone())
    }
}
