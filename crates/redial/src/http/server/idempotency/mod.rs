//! The reply to a payment is lost. Was the customer charged? The client cannot know, and a client that
//! repeats the request charges twice, or one that does not, not at all.
//!
//! With a key that stays the same on every attempt the server can know: it executes the first request
//! with a key, keeps the response, and gives it to whoever repeats the request. This is the
//! `Idempotency-Key` of the IETF's draft 07, for any service of [`http::Request`]s.
//!
//! | a request with a key | gets |
//! |---|---|
//! | the first one | executed |
//! | the same, later | the stored response, with `idempotent-replayed: true` |
//! | the same, meanwhile | 409, `retry-after: 1` |
//! | another one with the same key | 422 |
//! | the same, after the process died half-way | 424, or executed if [`Interrupted::Execute`] says so |
//! | the same, when the response was too large to keep | 410 |
//! | malformed, or missing and required | 400 |
//! | too large, too slow, broken off | 413, 408, 400 |
//! | any, while the bodies that are arriving take too much memory | 503 |
//! | any, while the store cannot be reached or is full | 503 |
//!
//! Refusals have a body of `application/problem+json` whose `type` tells them apart. None but the first
//! row, and 424 where that was asked for, executes anything.
//!
//! **What is stored**: every response, a 500 too, because the handler may have done its work before it
//! failed. Except one that says that nothing was done: 401, 421, 425, 429, 503 with `redial-slot`, and
//! any with the extension [`Unprocessed`]. These release the key.
//!
//! **Who waits**: the handler runs in a task of its own. A client that goes away does not stop it, and
//! finds the response when it comes back. Task-locals do not reach it; [`Inbound`](crate::Inbound) does.
//! The response is read to its end before its first byte is sent, unless it is too large.
//!
//! **What a crash does**: while a handler runs, its process gives signs of life. Without them the lease
//! ends, and the execution counts as interrupted: nobody knows whether it took effect. It is neither
//! locked for ever nor executed twice in silence. A handler that panics, or a service that fails, is
//! interrupted at once.

mod arriving;
mod body;
mod execute;
mod fingerprint;
mod future;
mod key;
mod layer;
pub(crate) mod memory;
mod problem;
mod record;
#[cfg(feature = "redis")]
mod redis;
mod service;
mod store;

pub use body::Body;
pub use future::ResponseFuture;
pub use layer::IdempotencyLayer;
pub use memory::MemoryStore;
#[cfg(feature = "redis")]
pub use redis::RedisStore;
pub use service::Idempotency;
pub use store::{Begun, Claim, Interrupted, Store, StoreError, Terms};

/// In a request's extensions: an execution of the same request was interrupted before this one, and
/// may have taken effect.
#[derive(Clone, Copy, Debug)]
pub struct AfterInterruption;

/// In a response's extensions: nothing was done, and the same request may be executed again.
#[derive(Clone, Copy, Debug)]
pub struct Unprocessed;
