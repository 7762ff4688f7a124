//! Whether an HTTP or gRPC request may be sent again does not follow from the status alone: it takes the method, the headers
//! of both sides, how far the request got, and the server's hints.
//!
//! This module reads all of these, and has layers for clients and [servers](server).

mod client;
mod grpc;
mod hints;
pub mod names;
mod reach;
#[cfg(feature = "reqwest")]
pub mod reqwest;
mod safety;
pub mod server;
mod status;
#[cfg(feature = "tonic")]
pub mod tonic;
mod travel;

pub use client::{
    Answer, Attempts, BoxError, Connect, Connecting, Error, Replay, ResponseFuture, RetryLayer,
    RetryService,
};
use hints::hinted;
pub use hints::{Hints, hints};
pub use reach::{Transport, failure};
pub use safety::safety;
pub use status::{is_in_flight, outcome};
pub use travel::{attempt, grpc_timeout, grpc_timeout_value, timeout};
