//! The engine, through its public interface, in virtual time.

mod breaker;
mod budget;
mod call;
mod herd;
mod limits;
mod peers;
mod policy;
mod policy_text;
mod schedule;
mod seeds;
mod support;
mod window_model;
