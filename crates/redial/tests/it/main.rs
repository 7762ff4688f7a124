//! The runners, on paused clocks and real threads.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::disallowed_methods, reason = "tests read the clocks that they stop")]

mod blocking;
mod budget;
mod cost;
mod deadline;
mod docs;
mod entropy;
mod errors;
mod examples;
mod fake_redis;
mod fleet;
mod gate;
mod hedge;
mod http;
mod idempotency;
mod options;
mod park;
mod ports;
mod run;
mod shed;
mod slots;
mod standard;
mod support;
mod telemetry;
mod tower;
