//! The SQLite store.

mod basics;
mod damage;
mod disk;
mod files;
mod idempotency;
mod opening;
mod shared;
mod shim;
mod support;
mod time;
