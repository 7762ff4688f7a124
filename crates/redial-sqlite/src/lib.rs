//! A file that survives the process, and that several processes of one machine share: jobs of `redial-queue` are kept in it,
//! and the idempotency keys of a server. This crate has what both need: it opens the file, writes it from one thread,
//! and gives it a time of its own. It is not meant to be used for other data.

// The keys of a server:
#[cfg(feature = "idempotency")]
mod idempotency;

// Opening a file:
mod file;

mod open;

mod files;
mod saved_time;
mod store_time;

// A request to it:
mod task;

mod access;

mod writer;

mod changes;
mod checkpoint;

mod backup;
mod fault;

pub use access::Access;
pub use changes::ChangeCounts;
pub use fault::{SqliteFault, damaged};
pub use file::SqliteFile;
pub use rusqlite;
pub use store_time::{ahead_of_wall, between, span};
