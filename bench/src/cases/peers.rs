//! Other crates, used as documented.

use std::future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, BlockingRetryable, ExponentialBuilder, Retryable};
use tokio_retry::strategy::{ExponentialBackoff, jitter};
use tower::retry::budget::{Budget, TpsBudget};
use tower::retry::{Policy, Retry};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_resilience_circuitbreaker::CircuitBreakerLayer;

use super::{op, ready, repeat, repeat_async};

/// The example of tower's module `retry::budget`: a deposit on success, a withdrawal on failure.
#[derive(Clone)]
struct Budgeted {
    budget: Arc<TpsBudget>,
}

impl Policy<u64, u64, io::Error> for Budgeted {
    type Future = future::Ready<()>;

    fn retry(&mut self, _: &mut u64, result: &mut io::Result<u64>) -> Option<Self::Future> {
        match result {
            Ok(_) => {
                self.budget.deposit();
                None
            }
            Err(_) => self.budget.withdraw().then(|| future::ready(())),
        }
    }

    fn clone_request(&mut self, request: &u64) -> Option<u64> {
        Some(*request)
    }
}

pub(crate) fn tower(n: u64) {
    let policy = Budgeted { budget: Arc::new(TpsBudget::default()) };
    let mut service = Retry::new(policy, service_fn(ready));
    repeat_async(n, async |x| service.ready().await?.call(x).await);
}

pub(crate) fn tower_resilience(n: u64) {
    let layer = CircuitBreakerLayer::builder().build().expect("its defaults are valid");
    let mut service = layer.layer(service_fn(ready));
    repeat_async(n, async |x| service.ready().await?.call(x).await);
}

pub(crate) fn backon_async(n: u64) {
    let builder = ExponentialBuilder::default().with_jitter();
    repeat_async(n, async |x| (|| ready(x)).retry(builder).await);
}

pub(crate) fn backon_blocking(n: u64) {
    #[inline(never)]
    fn call(builder: ExponentialBuilder, x: u64) -> io::Result<u64> {
        (|| op(x)).retry(builder).call()
    }
    let builder = ExponentialBuilder::default().with_jitter();
    repeat(n, |x| call(builder, x));
}

pub(crate) fn tokio_retry(n: u64) {
    let strategy = ExponentialBackoff::from_millis(2).factor(50);
    repeat_async(n, async |x| {
        let delays = strategy.clone().map(jitter).take(3);
        tokio_retry::Retry::start(delays, || ready(x)).await
    });
}

/// Retries 1 to 4, then those of the next call.
pub(crate) fn backon_delay(n: u64) {
    #[inline(never)]
    fn draw(delays: &mut impl Iterator<Item = Duration>) -> Option<Duration> {
        delays.next()
    }
    let builder = ExponentialBuilder::default()
        .with_jitter()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(Duration::from_secs(2))
        .without_max_times();
    let mut delays = builder.build();
    repeat(n, |x| {
        if x & 3 == 0 {
            delays = builder.build();
        }
        draw(&mut delays)
    });
}

/// Retries 1 to 4, then those of the next call.
pub(crate) fn tokio_retry_delay(n: u64) {
    #[inline(never)]
    fn draw(delays: &mut ExponentialBackoff) -> Option<Duration> {
        delays.next().map(jitter)
    }
    let strategy = ExponentialBackoff::from_millis(2).factor(50).max_delay(Duration::from_secs(2));
    let mut delays = strategy.clone();
    repeat(n, |x| {
        if x & 3 == 0 {
            delays = strategy.clone();
        }
        draw(&mut delays)
    });
}

pub(crate) fn tps_deposit(n: u64) {
    let budget = TpsBudget::new(Duration::from_secs(10), 1, 1.0);
    repeat(n, |_| budget.deposit());
}

pub(crate) fn tps_withdraw(n: u64) {
    let budget = TpsBudget::new(Duration::from_secs(10), 1, 1.0);
    repeat(n, |_| {
        budget.deposit();
        assert!(budget.withdraw(), "every deposit pays for a retry");
    });
}
