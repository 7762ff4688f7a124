//! Which headers end at a proxy, and which only a proxy may write.

pub(crate) mod forwarding;
pub(crate) mod hop_by_hop;
pub(crate) mod names;
