//! Work that has to be done, possibly again: a coalescing queue of keys in memory and a pool of workers over it, and a
//! [`durable`] queue for what must outlive the process.

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
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "postgres")]
pub mod postgres;
mod reconcile;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod told;

pub use memory::{Added, Builder, Depth, Priority, WhenFull, Work, WorkQueue};
pub use reconcile::{Happened, Reconciled, Reconciler, Stats, Trend, Watch};
