//! xtask's own tests: one binary, one file per topic.

mod args;
mod features;
mod findings;
mod jobs;
mod postgres;
mod prometheus;
mod redis;
mod setup;
mod tally;
mod tidy;
mod tidy_metadata;
