//! Clients that retry well.
//!
//! A client that repeats a request has to have its body once more, must not hold a connection while it
//! waits, must know whether the first one was done, and has to be told by the server when to come back.

mod answer;
mod connect;
mod error;
mod exchange;
mod future;
mod layer;
mod outgoing;
mod replay;
mod service;

pub use answer::Answer;
pub use connect::{Connect, Connecting};
pub use error::Error;
pub use future::ResponseFuture;
pub use layer::RetryLayer;
pub use outgoing::Attempts;
pub use replay::Replay;
pub use service::RetryService;
#[cfg(feature = "reqwest-middleware")]
pub(crate) use service::send;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
