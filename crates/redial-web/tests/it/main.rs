//! The page's server, over real sockets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod assets;
mod browser;
mod exercise;
mod live;
mod page;
mod playground;
mod policies;
mod queue;
mod security;
mod token;
mod visitor;
