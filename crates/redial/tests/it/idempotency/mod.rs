//! A request with a key is executed once.

mod arrival;
mod callers;
mod crash;
mod flaky;
mod kept;
mod key;
mod limits;
mod lost_replies;
mod outage;
mod replay;
mod reply_limit;
mod shares;
mod spawned;
mod store;
pub(crate) mod support;
mod time;
mod wire;

/// Runs each test once for every store, each in a separate module.
macro_rules! on_every_store {
    ($($test:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::idempotency::support::memory()).await;
            })*
        }
        mod redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::idempotency::support::redis().await).await;
            })*
        }
    };
}
use on_every_store;
