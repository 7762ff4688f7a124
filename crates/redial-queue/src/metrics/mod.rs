//! A queue that nobody looks at is full before somebody notices. What tells early is not how many jobs there are but for how
//! long the oldest has waited, and which failures come back as retries.
//!
//! These are the numbers of [`Stats`](crate::Stats), [`WorkerStats`](crate::durable::WorkerStats) and
//! [`Counts`](crate::durable::Counts) by way of the facade `metrics`, for whichever recorder the program has. Handles are made
//! once, for every value that a label can have, so that a rate sees the first retry too; after that a publication is a
//! few stores. Nothing is counted for it that was not counted before.
//!
//! Every metric has the label `queue`. Those of the whole queue ([`QueueMetrics`]) are read from the store and are the
//! same in every process that publishes them: take the maximum over processes. The others are of this process: add
//! them up.

mod handles;
pub mod names;
mod pool;
mod publisher;
mod queue;
mod worker;

pub use pool::PoolMetrics;
pub use publisher::Publisher;
pub use queue::QueueMetrics;
pub use worker::WorkerMetrics;
