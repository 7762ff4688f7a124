//! The SQLite store.

mod basics;
mod damage;
mod disk;
mod files;
mod opening;
mod shared;
mod shim;
mod support;
mod time;
