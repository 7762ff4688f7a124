//! Work queues with retries: a coalescing queue of keys in memory with a pool of workers, and a [`durable`] queue for jobs
//! that must outlive the process.

#[cfg(doctest)]
#[doc = include_str!("../docs/controllers.md")]
mod page {}

#[cfg(all(doctest, feature = "delivery", feature = "postgres", feature = "sqlite"))]
#[doc = include_str!("../docs/webhooks.md")]
mod webhooks {}

mod clock;
#[cfg(feature = "delivery")]
pub mod delivery;
pub mod durable;
mod memory;
mod observer;
#[cfg(feature = "postgres")]
pub mod postgres;
mod reconcile;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod stats;
#[cfg(feature = "metrics")]
pub mod telemetry;
mod watch;

pub use memory::{Added, Builder, Depth, Priority, WhenFull, Work, WorkQueue};
pub use reconcile::{PoolStats, Reconciled, Reconciler};
pub use stats::WorkStats;
pub use watch::{Trend, Watch, WorkEvent};
