//! xtask's own tests: one binary, one file per topic.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod args;
mod dist;
mod features;
mod findings;
mod jobs;
mod postgres;
mod redis;
mod setup;
mod tally;
mod tidy;
mod tidy_circles;
mod tidy_metadata;
mod tidy_names;
