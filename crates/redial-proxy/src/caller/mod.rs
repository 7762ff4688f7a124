//! The connections of callers: where they are accepted, and what is checked in their requests.

mod checks;
mod connection;
pub(crate) mod listener;
pub(crate) mod passed_sockets;
mod tunnel;
