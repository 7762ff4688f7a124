//! The page's server, over real sockets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod advice;
mod assets;
mod browser;
mod connections;
#[path = "../../../redial-queue/tests/it/delegate.rs"]
mod delegate;
mod demo;
mod demo_faults;
mod exercise;
mod live;
mod page;
mod panics;
mod playground;
mod policies;
mod queue;
mod security;
mod sidecar;
mod stories;
mod token;
#[cfg(feature = "typescript")]
mod typescript;
mod visitor;
mod work;
