//! A client that repeats a request needs its body again, must not hold a connection while it waits, must know
//! whether the first one may have been processed, and should wait as long as the server asks.
//!
//! [`RetryService`] prepares a request ([`outgoing`]) and sends it. [`ResponseFuture`] awaits the first attempt
//! on the fast path; everything else is a loop in [`exchange`].

mod answer;
mod connect;
mod endpoint;
mod error;
mod exchange;
mod future;
mod layer;
mod outgoing;
mod racer;
mod replay;
mod replay_memory;
mod service;

pub use answer::Answer;
pub use connect::{Connect, Connecting};
pub use endpoint::{EndpointFuture, EndpointLayer, EndpointRefused, EndpointService};
pub use error::Error;
pub use future::ResponseFuture;
pub use layer::RetryLayer;
pub use outgoing::Attempts;
pub use replay::Replay;
pub use replay_memory::ReplayMemory;
pub use service::RetryService;
#[cfg(feature = "reqwest-middleware")]
pub(crate) use service::send;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
