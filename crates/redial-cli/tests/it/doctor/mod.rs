//! `redial doctor`.

mod endpoint;
mod envoy;
mod judge;
mod page;
