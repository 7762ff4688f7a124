//! One address of an upstream, and how loaded it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderValue, StatusCode};
use redial::http::{BoxError, EndpointLayer};
use redial_core::admit::BreakerState;
use tokio::time::Instant;

use super::attempt_log::AttemptLog;
use super::dial::Dialer;
use super::pool::Pool;
use crate::clock;
use crate::request_body::CallerFailed;

/// One address that requests are sent to.
pub(crate) struct Endpoint {
    /// As shown in logs and metrics.
    pub(crate) name: Arc<str>,
    /// Whether there is an access log.
    pub(crate) is_logged: bool,
    /// The `Host` of requests.
    pub(crate) host: HeaderValue,
    /// Whether requests that have a `Host` keep theirs.
    pub(crate) keeps_host: bool,
    pub(crate) dialer: Dialer,
    pub(crate) pool: Pool,
    pub(crate) load: Load,
    /// Its own guards, if it has any.
    pub(crate) guards: Option<EndpointLayer>,
    /// Whether the active check failed.
    pub(crate) is_unhealthy: AtomicBool,
}

impl Endpoint {
    /// Notes the result of an active check. Returns whether it is another than before.
    pub(crate) fn set_healthy(&self, is_healthy: bool) -> bool {
        self.is_unhealthy.swap(!is_healthy, Ordering::Relaxed) == is_healthy
    }

    pub(crate) fn is_healthy(&self) -> bool {
        !self.is_unhealthy.load(Ordering::Relaxed)
    }

    /// Whether its breaker is not closed.
    pub(crate) fn is_ejected(&self) -> bool {
        let breaker = self.guards.as_ref().and_then(|guards| guards.retry().breaker());
        breaker.is_some_and(|state| state != BreakerState::Closed)
    }

    /// Whether it may be chosen: neither a check nor its own guards eject it.
    pub(crate) fn is_available(&self) -> bool {
        self.is_healthy() && self.guards.as_ref().is_none_or(|guards| guards.retry().would_admit())
    }
}

/// How loaded an endpoint is, as seen from this process.
///
/// The latency is a peak EWMA: it rises at once with a slow response and falls slowly, so that an endpoint that gets
/// stuck is avoided after one request. Threads that update it at the same moment may lose an update.
pub(crate) struct Load {
    start: Instant,
    /// The latency in microseconds at the last update, in the upper half, and the time of the update in milliseconds
    /// since `start`, in the lower half.
    latency: AtomicU64,
    in_flight: AtomicU32,
    requests: AtomicU64,
    /// Requests without a response, or with a 5xx.
    failures: AtomicU64,
}

/// An old latency counts for 1/e after this time.
const DECAY: Duration = Duration::from_secs(10);

/// A failure counts as at least so slow: an endpoint that fails fast must not attract requests.
const FAILURE: Duration = Duration::from_secs(1);

impl Load {
    pub(crate) fn new() -> Self {
        Self {
            start: clock::now(),
            latency: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Requests that were sent, and those of them that failed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.requests.load(Ordering::Relaxed), self.failures.load(Ordering::Relaxed))
    }

    /// The latency, times the requests that would then be in flight.
    pub(crate) fn cost(&self, now: Instant) -> u64 {
        let in_flight = u64::from(self.in_flight.load(Ordering::Relaxed)) + 1;
        // An endpoint that has not responded yet has no latency, but requests in flight.
        (self.micros(now) as u64 + 1).saturating_mul(in_flight)
    }

    fn micros(&self, now: Instant) -> f64 {
        self.decayed(self.latency.load(Ordering::Relaxed), now)
    }

    /// What is left of a latency.
    fn decayed(&self, latency: u64, now: Instant) -> f64 {
        (latency >> 32) as f64 * self.kept(latency, now)
    }

    /// How much an old latency counts.
    fn kept(&self, latency: u64, now: Instant) -> f64 {
        let age = self.millis(now).wrapping_sub(latency as u32);
        (-f64::from(age) / DECAY.as_millis() as f64).exp()
    }

    /// Wraps around after 49 days, when only the age of a latency could be wrong, once.
    fn millis(&self, now: Instant) -> u32 {
        now.saturating_duration_since(self.start).as_millis() as u32
    }

    fn observe(&self, took: Duration, now: Instant) {
        let old = self.latency.load(Ordering::Relaxed);
        let sample = took.as_micros() as f64;
        let mean = self.decayed(old, now) + sample * (1.0 - self.kept(old, now));
        let micros = sample.max(mean).min(f64::from(u32::MAX)) as u64;
        self.latency.store(micros << 32 | u64::from(self.millis(now)), Ordering::Relaxed);
    }
}

/// A request in flight at an endpoint, until its response has been read, or the connection that it upgraded has ended.
pub(crate) struct Lease {
    endpoint: Arc<Endpoint>,
    /// When the attempt began, until there is an outcome; `None` also if there is no other endpoint to compare with.
    started: Option<Instant>,
    /// For the access log.
    log: Option<AttemptLog>,
}

impl Lease {
    pub(crate) fn new(endpoint: Arc<Endpoint>, is_timed: bool, log: Option<AttemptLog>) -> Self {
        endpoint.load.in_flight.fetch_add(1, Ordering::Relaxed);
        endpoint.load.requests.fetch_add(1, Ordering::Relaxed);
        if let Some(log) = &log {
            log.sent(&endpoint.name);
        }
        Self { endpoint, started: is_timed.then(clock::now), log }
    }

    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// A response has begun.
    pub(crate) fn respond(&mut self, status: StatusCode) {
        if let Some(log) = &self.log {
            // A hedge may have overwritten the endpoint.
            log.responded(&self.endpoint.name);
        }
        match status.is_server_error() {
            true => self.settle_failure(),
            false => self.settle(Duration::ZERO),
        }
    }

    /// There is no response. That is no failure of the endpoint if the caller caused it.
    #[cold]
    pub(crate) fn fail(mut self, error: impl Into<BoxError>) -> BoxError {
        let error = error.into();
        if CallerFailed::caused(&*error) {
            self.started = None;
        } else {
            self.settle_failure();
        }
        error
    }

    #[cold]
    fn settle_failure(&mut self) {
        self.endpoint.load.failures.fetch_add(1, Ordering::Relaxed);
        self.settle(FAILURE);
    }

    fn settle(&mut self, at_least: Duration) {
        if let Some(started) = self.started.take() {
            let now = clock::now();
            self.endpoint.load.observe((now - started).max(at_least), now);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let load = &self.endpoint.load;
        if let Some(started) = self.started {
            // Cut off: the response would have taken longer.
            let now = clock::now();
            if (now - started).as_micros() as f64 > load.micros(now) {
                load.observe(now - started, now);
            }
        }
        load.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
