//! The endpoints of an upstream, and the connections to them.

pub(crate) mod attempt_log;
pub(crate) mod balance;
pub(crate) mod dial;
pub(crate) mod endpoint;
pub(crate) mod pool;
pub(crate) mod resolve;
pub(crate) mod targets;
pub(crate) mod wire;
