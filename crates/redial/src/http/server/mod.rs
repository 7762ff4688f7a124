//! An overloaded server recovers only if it chooses which requests to serve and when clients come back. These are
//! layers for any service that takes [`http::Request`]s.

mod deadline;
#[cfg(feature = "idempotency")]
pub mod idempotency;
mod refuse;
pub mod shed;

pub use deadline::{DeadlineFuture, DeadlineLayer, DeadlineService};
#[cfg(feature = "redis")]
pub use idempotency::RedisStore;
#[cfg(feature = "idempotency")]
pub use idempotency::{Idempotency, IdempotencyFuture, IdempotencyLayer, MemoryStore};
pub use refuse::Refused;
pub use shed::{Shed, ShedFuture, ShedLayer};
