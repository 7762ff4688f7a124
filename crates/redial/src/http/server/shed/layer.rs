use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redial_core::admit::Slots;
use redial_core::{Nanos, nanos};
use tower_layer::Layer;

use super::gate::Gate;
use super::places::Places;
use super::service::Shed;
use crate::http::server::refuse::{EXHAUSTED, Status, UNAVAILABLE};

/// Limits how many requests are served at once, and tells those who do not fit when to come back.
///
/// Defaults: as many wait as are served; a tenth of the capacity is kept for callers who were turned away;
/// slots are booked up to ten seconds ahead, which is as long as a standard policy waits; a rejection is a 503.
///
/// A request holds its place until there is a response. One with an idempotency key holds none while its body is
/// arriving, if an [`IdempotencyLayer`](crate::http::server::IdempotencyLayer) is further in; one without a key
/// does, if its handler reads the body.
///
/// Everything that one layer and its clones wrap shares its places, so that `Router::layer` limits the
/// server and not each of its routes. Options are for a layer that has not wrapped anything yet.
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
    places: Arc<Places>,
}

/// What the options say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) limit: u32,
    pub(super) queue: usize,
    pub(super) min_share: f64,
    pub(super) horizon: Nanos,
    pub(super) status: &'static Status,
}

impl ShedLayer {
    /// Serves at most so many requests at once: as many as the server really works on in parallel, because
    /// its capacity is taken to be the limit divided by how long a request takes. A limit of 0 turns everyone
    /// away, and lets nobody wait.
    pub fn new(limit: usize) -> Self {
        let (queue, min_share, horizon) = (limit, Slots::MIN_SHARE, Slots::HORIZON);
        // The largest number is not one that a turnstile counts to.
        let limit = u32::try_from(limit).unwrap_or(u32::MAX).min(u32::MAX - 1);
        Self::with(Rule { limit, queue, min_share, horizon, status: &UNAVAILABLE })
    }

    fn with(rule: Rule) -> Self {
        Self { rule, places: Arc::new(Places::new(&rule)) }
    }

    /// Lets at most so many wait for a place.
    #[must_use]
    pub fn queue(self, queue: usize) -> Self {
        Self::with(Rule { queue, ..self.rule })
    }

    /// Books rejected callers into at least this share of the capacity, from 0 to 1, even when first attempts
    /// leave less. With 1 the whole capacity is booked, as if nobody came for the first time.
    ///
    /// # Errors
    ///
    /// When the share is not from 0 to 1.
    pub fn min_share(self, ratio: f64) -> Result<Self, NotAShare> {
        if (0.0..=1.0).contains(&ratio) {
            Ok(Self::with(Rule { min_share: ratio, ..self.rule }))
        } else {
            Err(NotAShare(ratio))
        }
    }

    /// Books slots at most this far ahead, and at most an hour. Callers who would have to wait longer are told
    /// not to retry.
    #[must_use]
    pub fn horizon(self, horizon: Duration) -> Self {
        Self::with(Rule { horizon: nanos(horizon), ..self.rule })
    }

    /// Rejects with 429 instead of 503, for clients that repeat only that.
    #[must_use]
    pub fn too_many_requests(self) -> Self {
        Self::with(Rule { status: &EXHAUSTED, ..self.rule })
    }

    /// How many requests are being served.
    pub fn inside(&self) -> u32 {
        self.places.inside()
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.places.waiting()
    }

    /// A gate of its own with the same options, for servers of another kind and for simulations.
    pub fn gate<W>(&self) -> Gate<W> {
        Gate::new(&self.rule)
    }
}

impl<S> Layer<S> for ShedLayer {
    type Service = Shed<S>;

    fn layer(&self, inner: S) -> Shed<S> {
        Shed::new(inner, self.places.clone())
    }
}

/// A share that is not from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NotAShare(f64);

impl fmt::Display for NotAShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "min_share is {}, but must be from 0 to 1", self.0)
    }
}

impl std::error::Error for NotAShare {}
