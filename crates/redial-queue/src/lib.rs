//! Work that has to be done, possibly again: a coalescing queue of keys in memory.

mod memory;

pub use memory::{Added, Builder, Depth, Priority, WhenFull, Work, WorkQueue};
