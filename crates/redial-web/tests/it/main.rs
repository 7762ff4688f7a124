//! The page, over real sockets and in a real browser.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod browser;
