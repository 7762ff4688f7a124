//! An overloaded server recovers only if it chooses which requests to serve and when clients come back. These are
//! layers for any service that takes [`http::Request`]s.

mod deadline;
pub mod idempotency;
mod permit_release;
mod permit_transfer;
mod refuse;
pub mod shed;

pub use deadline::{Deadline, DeadlineFuture, DeadlineLayer};
#[cfg(feature = "redis")]
pub use idempotency::RedisStore;
pub use idempotency::{Idempotency, IdempotencyFuture, IdempotencyLayer, MemoryStore};
pub use shed::{Shed, ShedFuture, ShedLayer};
