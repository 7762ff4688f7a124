//! A queue that is not watched is full before anyone notices. The early signs are how long the oldest job has waited, and
//! which failures come back as retries, rather than how many jobs there are.
//!
//! These are the numbers of [`WorkStats`](crate::WorkStats), [`PoolStats`](crate::PoolStats) and
//! [`Counts`](crate::durable::Counts), published to the recorder of the crate `metrics` that the program has installed;
//! [`QUEUE_METRICS`] are their names. Handles are made once, for every value that a label can have, so that a rate sees the
//! first retry too; after that a publication is a few stores. Nothing is counted for it that was not counted before.
//!
//! Every metric has the label `queue`. Those of the whole queue ([`QueueMetrics`]) are read from the store and are the
//! same in every process that publishes them: take the maximum over processes. The others are of this process: add
//! them up.

pub mod names;
mod pool;
mod publisher;
mod queue;
mod work;

pub use names::QUEUE_METRICS;
pub use pool::PoolMetrics;
pub use publisher::QueuePublisher;
pub use queue::QueueMetrics;
pub use work::WorkMetrics;
