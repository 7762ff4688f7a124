//! The proxy between raw sockets: callers that are written byte by byte, and upstreams that follow a script. And between
//! programs that others have written.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod envoy;
mod kit;
