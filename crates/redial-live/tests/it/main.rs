//! Real traffic, in small. What depends on how fast the machine is cannot be asserted here: a late reply may come
//! at any time, but never early.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod backend;
mod lag;
mod traffic;

const MS: u64 = 1_000_000;
