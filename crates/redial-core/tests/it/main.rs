//! The engine, through its public interface, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod breaker;
mod budget;
mod call;
mod control;
mod earned;
mod events;
mod fast_path;
mod fleet;
mod herd;
mod hint;
mod lease;
mod limits;
mod literature;
mod pace;
mod park;
mod peers;
mod policy;
mod policy_text;
mod saved;
mod schedule;
mod support;
mod suspended;
mod window_model;
