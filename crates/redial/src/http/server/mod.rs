//! Servers that have the last word: layers for anything that serves [`http::Request`]s.

pub mod idempotency;

#[cfg(feature = "redis")]
pub use idempotency::RedisStore;
pub use idempotency::{IdempotencyLayer, MemoryStore};
