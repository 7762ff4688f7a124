//! The proxy between raw sockets: callers that are written byte by byte, and upstreams that follow a script.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::disallowed_methods, reason = "scripted upstreams are slow in real time")]

mod access;
mod admin;
mod cancel;
mod chaos;
mod crowd;
mod endings;
mod endpoints;
mod envoy;
mod forward;
mod keys;
mod kit;
mod layers;
mod lifecycle;
mod limits;
mod park;
#[path = "../../../redial/tests/it/ports.rs"]
mod ports;
mod process;
mod programs;
mod reread;
mod safety;
mod start;
mod tls;
mod websocket;
