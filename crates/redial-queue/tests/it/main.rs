//! Queues, in memory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod queue_model;
mod work_queue;
