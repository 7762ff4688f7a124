//! gRPC reads retries from the service config of a channel: by method, in JSON, and what it does not like it throws away
//! whole, with a line in a log.

mod read;
mod write;

use super::Border;
use crate::tree::Node;

pub(super) const BORDER: Border = Border { recognises, read: read::read, write: write::write };

fn recognises(node: &Node) -> bool {
    let methods = node.get("methodConfig").and_then(Node::list);
    methods.is_some() || node.get("retryThrottling").and_then(Node::table).is_some()
}

const UNKNOWN: u16 = 2;
const DEADLINE_EXCEEDED: u16 = 4;
const RESOURCE_EXHAUSTED: u16 = 8;
const INTERNAL: u16 = 13;
const UNAVAILABLE: u16 = 14;

/// Clients make no more attempts than this, whatever the config says.
const MOST_ATTEMPTS: u32 = 5;

/// Every wait is more or less by this, after the cap.
const JITTER: f64 = 0.2;
