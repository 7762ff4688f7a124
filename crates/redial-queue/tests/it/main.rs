//! Queues, in memory and on disk.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::disallowed_methods, reason = "tests measure on tokio's paused clock")]

mod conformance;
mod delegate;
mod delivery;
mod draining;
mod metrics;
#[path = "../../../redial/tests/it/ports.rs"]
mod ports;
mod postgres;
mod queue_model;
mod reconciler;
mod sqlite;
mod work_queue;
mod worker;
