//! Servers that have the last word: layers for anything that serves [`http::Request`]s.

mod deadline;
#[cfg_attr(
    not(feature = "idempotency"),
    allow(dead_code, reason = "used by the idempotency layer")
)]
mod handover;
#[cfg(feature = "idempotency")]
pub mod idempotency;
mod refuse;
pub mod shed;
#[cfg_attr(
    not(feature = "idempotency"),
    allow(dead_code, reason = "used by the idempotency layer")
)]
mod vacancy;

pub use deadline::{Deadline, DeadlineFuture, DeadlineLayer};
#[cfg(feature = "redis")]
pub use idempotency::RedisStore;
#[cfg(feature = "idempotency")]
pub use idempotency::{IdempotencyLayer, MemoryStore};
pub use shed::{Shed, ShedFuture, ShedLayer};
