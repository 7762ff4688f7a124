//! Work queues with retries: a coalescing queue of keys in memory with a pool of workers, and a [`durable`] queue for jobs
//! that must outlive the process.

#[cfg(doctest)]
#[doc = include_str!("../docs/controllers.md")]
mod controllers {}

#[cfg(all(doctest, feature = "postgres", feature = "sqlite"))]
#[doc = include_str!("../docs/recipes.md")]
mod recipes {}

#[cfg(all(doctest, feature = "delivery", feature = "postgres", feature = "sqlite"))]
#[doc = include_str!("../docs/webhooks.md")]
mod webhooks {}

// Keys in memory:
mod memory;

mod reconcile;

// Jobs that outlive the process:
pub mod durable;

#[cfg(feature = "sqlite")]
pub mod sqlite;

#[cfg(feature = "postgres")]
pub mod postgres;

#[cfg(feature = "delivery")]
pub mod delivery;

// What both have:
mod clock;
mod observer;
mod stats;
mod store_error;
#[cfg(feature = "metrics")]
pub mod telemetry;
mod watch;

pub use memory::{Added, Builder, Depth, Priority, WhenFull, Work, WorkQueue};
pub use reconcile::{PoolStats, Reconciled, Reconciler};
pub use stats::WorkStats;
pub use watch::{Trend, Watcher, WorkEvent};
