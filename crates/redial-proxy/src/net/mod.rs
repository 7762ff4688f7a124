//! Sockets and connections of any kind, towards callers and towards endpoints.

pub(crate) mod activity;
pub(crate) mod listening;
pub(crate) mod stream;
pub(crate) mod timer;
pub(crate) mod tls;
