//! The store in a file.

mod basics;
mod idempotency;
mod support;
