//! Servers that have the last word: layers for anything that serves [`http::Request`]s.

mod deadline;
mod refuse;
pub mod shed;

pub use deadline::{Deadline, DeadlineFuture, DeadlineLayer};
pub use shed::{Shed, ShedFuture, ShedLayer};
