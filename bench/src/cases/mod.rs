//! What is measured: the same loop around each peer's call and ours.
//!
//! The operation succeeds at once with a number that the compiler cannot know. What a user builds once (a policy, a
//! service) is built before the loop; what belongs to a call is inside it.

mod bare;
mod fleet;
mod http;
mod ours;
mod peers;
mod serve;

use std::future::poll_fn;
use std::hint::black_box;
use std::io;
use std::task::Poll;

pub(crate) use http::bytes_copied;
pub(crate) use ours::{NOW, new_guards};

/// The two numbers of calls whose difference counts.
pub(crate) const FEW: u64 = 1000;
pub(crate) const MANY: u64 = 3000;
/// Calls before these, so that what is built on first use exists.
const WARM_UP: u64 = 200;

/// A call to make `n` times.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(u64),
}

/// One call, without HTTP.
pub(crate) const CALLS: &[Case] = &[
    Case { name: "bare-sync", run: bare::sync },
    Case { name: "bare-async", run: bare::ready },
    Case { name: "bare-pending", run: bare::pending },
    Case { name: "clock", run: bare::clock },
    Case { name: "timeout", run: bare::timeout },
    Case { name: "redial-async", run: ours::ready },
    Case { name: "redial-metered", run: ours::metered },
    Case { name: "redial-metered-blocking", run: ours::metered_blocking },
    Case { name: "redial-breaker", run: ours::breaker },
    Case { name: "redial-limited", run: ours::limited },
    Case { name: "redial-pending", run: ours::pending },
    Case { name: "redial-blocking", run: ours::blocking },
    Case { name: "redial-engine", run: ours::engine },
    Case { name: "redial-engine-breaker", run: ours::engine_breaker },
    Case { name: "redial-delay", run: ours::delay },
    Case { name: "redial-deposit", run: ours::deposit },
    Case { name: "redial-withdraw", run: ours::withdraw },
    Case { name: "tower", run: peers::tower },
    Case { name: "backon-async", run: peers::backon_async },
    Case { name: "backon-blocking", run: peers::backon_blocking },
    Case { name: "backon-delay", run: peers::backon_delay },
    Case { name: "tokio-retry", run: peers::tokio_retry },
    Case { name: "tokio-retry-delay", run: peers::tokio_retry_delay },
    Case { name: "tower-resilience", run: peers::tower_resilience },
    Case { name: "tps-deposit", run: peers::tps_deposit },
    Case { name: "tps-withdraw", run: peers::tps_withdraw },
];

/// One call of an instance of a fleet.
pub(crate) const FLEET: &[Case] = &[
    Case { name: "clock", run: bare::clock },
    Case { name: "fleet-async", run: fleet::ready },
    Case { name: "fleet-blocking", run: fleet::blocking },
    Case { name: "redial-async", run: ours::ready },
    Case { name: "redial-blocking", run: ours::blocking },
];

/// One request.
pub(crate) const REQUESTS: &[Case] = &[
    Case { name: "http-bare", run: |n| http::bare(n, &http::put()) },
    Case { name: "http-redial", run: |n| http::redial(n, &http::put()) },
    Case { name: "http-metered", run: |n| http::metered(n, &http::put()) },
    Case { name: "http-tower", run: |n| http::tower(n, &http::put()) },
    Case { name: "http-resilience", run: |n| http::tower_resilience(n, &http::put()) },
    Case { name: "http-bare-post", run: |n| http::bare(n, &http::post()) },
    Case { name: "http-redial-post", run: |n| http::redial(n, &http::post()) },
    Case { name: "http-tower-post", run: |n| http::tower(n, &http::post()) },
    Case { name: "http-resilience-post", run: |n| http::tower_resilience(n, &http::post()) },
    Case { name: "http-bare-get", run: |n| http::bare(n, &http::get()) },
    Case { name: "http-redial-get", run: |n| http::redial(n, &http::get()) },
    Case { name: "http-tower-get", run: |n| http::tower(n, &http::get()) },
    Case { name: "http-resilience-get", run: |n| http::tower_resilience(n, &http::get()) },
    Case { name: "serve-bare", run: serve::bare },
    Case { name: "serve-shed", run: serve::shed },
    Case { name: "serve-tower", run: serve::tower },
    Case { name: "serve-bare-timeout", run: serve::bare_timeout },
    Case { name: "serve-deadline", run: serve::deadline },
    Case { name: "serve-deadline-extension", run: serve::deadline_extension },
    Case { name: "serve-deadline-none", run: serve::deadline_none },
    Case { name: "serve-bare-pending", run: serve::bare_pending },
    Case { name: "serve-deadline-pending", run: serve::deadline_pending },
    Case { name: "serve-tokio-pending", run: serve::tokio_pending },
];

pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    CALLS.iter().chain(FLEET).chain(REQUESTS)
}

pub(crate) fn find(name: &str) -> Result<&'static Case, String> {
    all().find(|case| case.name == name).ok_or_else(|| format!("no case is named {name:?}"))
}

/// The operation.
#[inline(never)]
fn op(x: u64) -> io::Result<u64> {
    Ok(black_box(x))
}

/// The operation, ready when it is first polled.
async fn ready(x: u64) -> io::Result<u64> {
    Ok(black_box(x))
}

/// The operation, ready when it is polled again.
async fn pending_once(x: u64) -> io::Result<u64> {
    let mut polled = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    Ok(black_box(x))
}

fn repeat<T>(n: u64, mut call: impl FnMut(u64) -> T) {
    for x in 0..WARM_UP + n {
        black_box(call(black_box(x)));
    }
}

fn repeat_async<T>(n: u64, mut call: impl AsyncFnMut(u64) -> T) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime without I/O has nothing to fail on");
    runtime.block_on(async {
        for x in 0..WARM_UP + n {
            black_box(call(black_box(x)).await);
        }
    });
}
