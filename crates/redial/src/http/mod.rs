//! HTTP and gRPC: what the wire says, clients that retry well, servers that have the last word.
//!
//! A status line does not say whether a request may be sent again: that takes the method, the headers of
//! both sides, how far the request came, and what the server asked for.

pub mod names;
pub mod server;
mod travel;

pub use travel::{attempt, grpc_timeout, grpc_timeout_value, timeout};
