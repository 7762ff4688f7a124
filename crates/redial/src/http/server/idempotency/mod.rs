//! The reply to a payment is lost. Was the customer charged? The client cannot know: repeating the request may charge
//! twice, and not repeating it may charge nothing.
//!
//! With a key that stays the same on every attempt the server can know. It executes the first request with a key, stores
//! the response, and returns it for every repetition. This is the `Idempotency-Key` header of the IETF's draft 07, for
//! any service that takes [`http::Request`]s.
//!
//! | a request with a key | gets |
//! |---|---|
//! | the first one | executed |
//! | the same, later | the stored response, with `idempotent-replayed: true` |
//! | the same, during the execution | 409, `retry-after: 1` |
//! | another one with the same key | 422 |
//! | the same, after the process crashed half-way | 424, or executed with [`Interrupted::Execute`] |
//! | the same, after a response that was too large to store | 410 |
//! | malformed, or missing and required | 400 |
//! | too large, too slow, incomplete | 413, 408, 400 |
//! | any, while arriving bodies use too much memory | 503 |
//! | any, while the store cannot be reached or is full | 503 |
//!
//! Rejections have a body of `application/problem+json` with a distinct `type`. Only the first row executes the request,
//! and the fifth if so configured.
//!
//! **What is stored**: every response, including a 500, because the handler may have done its work before it failed. The
//! exceptions are responses which state that nothing was done: 401, 421, 425, 429, 503 with `redial-slot`, and any with
//! the extension [`Unprocessed`]. These release the key.
//!
//! **Disconnects**: the handler runs in a separate task. A client that disconnects does not stop it, and finds the
//! response when it repeats the request. Task-locals are not visible to the handler; [`Inbound`](crate::Inbound) is. The
//! response is read to its end before its first byte is sent, unless it is too large.
//!
//! **Crashes**: while a handler runs, its process renews a lease. When the lease expires, the execution counts as
//! interrupted: whether it took effect is unknown. The key is neither locked for ever nor silently executed twice. A
//! handler that panics, or a service that returns an error, is interrupted at once.

mod body;
mod body_memory;
mod error;
mod execute;
mod fingerprint;
mod future;
mod key;
mod layer;
mod memory;
mod problem;
mod record;
#[cfg(feature = "redis")]
mod redis;
mod service;
mod store;

use std::sync::Arc;

pub use body::Body;
pub use error::IdempotencyStoreError;
pub use future::IdempotencyFuture;
pub use layer::IdempotencyLayer;
pub use memory::MemoryStore;
#[cfg(feature = "redis")]
pub use redis::RedisStore;
pub use service::Idempotency;
pub use store::{Begun, IdempotencyStore, Interrupted, KeyClaim, KeyTerms};

/// A request extension: the verified identity of the caller, such as the names in its client certificate, which an outer layer
/// adds. Each principal has a separate set of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal(pub Arc<[u8]>);

/// A request extension: an earlier execution of the same request was interrupted, and may have taken effect.
#[derive(Clone, Copy, Debug)]
pub struct AfterInterruption;

/// A response extension: nothing was done, and the same request may be executed again.
#[derive(Clone, Copy, Debug)]
pub struct Unprocessed;
