//! Rejecting a request costs an overloaded server work too. The adaptive throttle of Google's SRE book
//! rejects some requests at the client instead, with the probability
//!
//! ```text
//! max(0, (requests − K·accepts) / (requests + 1))
//! ```
//!
//! over a window. Requests rejected at the client count as requests, so it sends less and less until the
//! server accepts again.

use core::time::Duration;

use super::sliding::Sliding;
use crate::random;
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Span, Time};

/// The settings of the adaptive throttle.
///
/// Defaults: K = 2 over two minutes, as in the book.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
pub struct ThrottleRule {
    /// Admitted attempts ÷ accepted attempts.
    pub k: f64,
    /// The length of the window.
    pub window: Span,
}

impl Default for ThrottleRule {
    fn default() -> Self {
        Self { k: 2.0, window: Span::from_secs(120) }
    }
}

impl ThrottleRule {
    /// Admits `k` attempts for every one that the server accepted.
    pub fn k(k: f64) -> Self {
        Self { k, ..Self::default() }
    }

    /// Sets the length of the window.
    pub fn window(self, window: Duration) -> Self {
        Self { window: window.into(), ..self }
    }
}

#[derive(Debug)]
pub(crate) struct Throttle {
    k: f64,
    sliding: Sliding<3>,
    requests: AtomicU64,
    accepts: AtomicU64,
    /// Cancelled requests. Whether they were accepted is unknown, so they are subtracted again.
    dropped: AtomicU64,
    seed: u64,
}

impl Throttle {
    pub(crate) fn new(rule: &ThrottleRule, seed: u64) -> Self {
        let [requests, accepts, dropped] = core::array::from_fn(|_| AtomicU64::new(0));
        Self { k: rule.k, sliding: Sliding::new(rule.window), requests, accepts, dropped, seed }
    }

    /// Counts a request, and returns whether it may be sent.
    pub(crate) fn admits(&self, now: Time) -> bool {
        let odds = self.refusal(now);
        let request = self.requests.fetch_add(1, Ordering::AcqRel);
        odds <= 0.0 || !random::chance(odds, random::draw(self.seed, request))
    }

    /// Records whether a request was accepted; `None` if it was cancelled.
    pub(crate) fn learn(&self, accepted: Option<bool>, now: Time) {
        self.advance(now);
        match accepted {
            Some(true) => self.accepts.fetch_add(1, Ordering::AcqRel),
            None => self.dropped.fetch_add(1, Ordering::AcqRel),
            Some(false) => return,
        };
    }

    /// The probability that the next request is refused.
    pub(crate) fn refusal(&self, now: Time) -> f64 {
        self.advance(now);
        let since = self.sliding.since(self.sliding.current());
        let totals = self.totals();
        let [requests, accepts, dropped] =
            core::array::from_fn(|i| totals[i].saturating_sub(since[i]) as f64);
        let requests = (requests - dropped).max(0.0);
        ((requests - self.k * accepts) / (requests + 1.0)).max(0.0)
    }

    fn advance(&self, now: Time) {
        self.sliding.advance(now, || self.totals());
    }

    fn totals(&self) -> [u64; 3] {
        [&self.requests, &self.accepts, &self.dropped].map(|count| count.load(Ordering::Acquire))
    }
}
