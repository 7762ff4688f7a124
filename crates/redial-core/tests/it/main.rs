//! The engine, through its public interface, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod breaker;
mod budget;
mod call;
mod events;
mod fleet;
mod herd;
mod lease;
mod limits;
mod peers;
mod policy;
mod policy_text;
mod saved;
mod schedule;
mod seeds;
mod short_way;
mod support;
mod suspended;
mod window_model;
