//! A file, ready to serve requests.

mod routes;
pub(crate) mod snapshot;
pub(crate) mod versioned;
