//! Whether an HTTP or gRPC request may be sent again does not follow from the status alone: it takes the method, the headers
//! of both sides, how far the request got, and the server's hints.
//!
//! This module reads all of these, and has layers for clients and servers (`http::server`).

#[cfg(feature = "http-client")]
mod client;
mod date;
mod grpc;
mod hints;
#[cfg(any(feature = "http-client", feature = "idempotency"))]
mod memory;
pub mod names;
#[cfg(feature = "http-client")]
mod reach;
#[cfg(feature = "reqwest")]
pub mod reqwest;
mod safety;
#[cfg(feature = "http-server")]
pub mod server;
mod status;
#[cfg(feature = "tonic")]
pub mod tonic;
mod travel;

#[cfg(feature = "http-client")]
pub use client::{
    Answer, Attempts, BoxError, Connect, Connecting, EndpointFuture, EndpointLayer,
    EndpointRefused, EndpointService, Error, Replay, ReplayMemory, ResponseFuture, RetryLayer,
    RetryService, SlowBody,
};
use hints::hinted;
pub use hints::{Hints, hints};
#[cfg(feature = "http-client")]
pub use reach::{Transport, failure};
pub use safety::safety;
pub use status::{is_in_flight, outcome};
pub use travel::{attempt, grpc_timeout, grpc_timeout_value, timeout};
