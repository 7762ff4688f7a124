//! Tests of the page's server over real sockets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod live;
mod page;
mod security;
mod token;
