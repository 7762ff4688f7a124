//! A client that repeats a request needs its body again, must not hold a connection while it waits, must know
//! whether the first one may have been processed, and should wait as long as the server asks.
//!
//! [`RetryService`] prepares a request ([`outgoing`]); sending it, and everything that follows, is a loop in [`exchange`].
//! A request that succeeds allocates once, for the box of its future; the price is that a client has to be `Send + 'static`.
//!
//! Each call has an instance of the client below: `poll_ready` made it ready, and a clone takes its place. So a balancer can
//! keep the state of a call in its fields.

mod answer;
mod connect;
mod endpoint;
mod error;
mod exchange;
mod future;
mod layer;
mod outgoing;
mod replay;
mod replay_memory;
mod service;

pub use answer::Answer;
pub use connect::{Connect, Connecting};
pub use endpoint::{EndpointFuture, EndpointLayer, EndpointRefused, EndpointService};
pub use error::{Error, SlowBody};
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
