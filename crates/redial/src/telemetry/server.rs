use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use super::registry::Registry;
use crate::thread_state::stripe;

/// Counts the requests that arrive at a server, first ones and retries of their callers. Clones are the same meter, and so
/// are two of the same name; a process has at most 256 names, what comes later is counted as `other`.
#[derive(Clone)]
pub struct ServerMeter(Arc<Arrivals>);

struct Arrivals {
    server: String,
    /// A power of two of them.
    stripes: Box<[Stripe]>,
}

/// First requests and retries, on a cache line of their own.
#[derive(Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; 2]);

impl ServerMeter {
    /// The meter of this name.
    pub fn new(server: impl Into<String>) -> Self {
        Registry::global().server(server)
    }

    pub(super) fn made(server: String) -> Self {
        let stripes = thread::available_parallelism().map_or(1, usize::from);
        let stripes = stripes.clamp(1, 64).next_power_of_two();
        let stripes = (0..stripes).map(|_| Stripe::default()).collect();
        Self(Arc::new(Arrivals { server, stripes }))
    }

    /// The name that the numbers are published under.
    pub fn server(&self) -> &str {
        &self.0.server
    }

    /// A request arrived that is this attempt of its caller; 1 is the first. The
    /// [`DeadlineLayer`](crate::http::server::DeadlineLayer) says it for HTTP.
    pub fn arrived(&self, attempt: u32) {
        let stripes = &self.0.stripes;
        let Stripe(counters) = &stripes[stripe() & (stripes.len() - 1)];
        counters[usize::from(attempt > 1)].fetch_add(1, Relaxed);
    }

    /// First requests, and retries.
    pub(super) fn requests(&self) -> [u64; 2] {
        let sum = |i: usize| self.0.stripes.iter().map(|stripe| stripe.0[i].load(Relaxed)).sum();
        [sum(0), sum(1)]
    }
}

impl fmt::Debug for ServerMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerMeter").field("server", &self.0.server).finish_non_exhaustive()
    }
}
