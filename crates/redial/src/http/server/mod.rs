//! Servers that have the last word: layers for anything that serves [`http::Request`]s.

mod deadline;
mod handover;
pub mod idempotency;
mod refuse;
pub mod shed;
mod vacancy;

pub use deadline::{Deadline, DeadlineFuture, DeadlineLayer};
#[cfg(feature = "redis")]
pub use idempotency::RedisStore;
pub use idempotency::{IdempotencyLayer, MemoryStore};
pub use shed::{Shed, ShedFuture, ShedLayer};
