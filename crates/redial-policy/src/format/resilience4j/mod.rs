//! resilience4j is configured by Spring, which takes the same names in trees and in flat keys, in camel case and in kebab
//! case, and lets an instance inherit from a config.

mod guards;
mod leaves;
mod read;
mod write;

use redial_core::{MS, Nanos};

use super::Border;
use crate::tree::Node;

pub(super) const BORDER: Border = Border { recognises, read: read::read, write: write::write };

fn recognises(node: &Node) -> bool {
    let Some(table) = node.table() else { return false };
    table.entries().iter().any(|entry| {
        let rest = entry.key.strip_prefix("resilience4j");
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// The wait when nothing is said.
const WAIT: Nanos = 500 * MS;
/// How it grows, and how much more or less it is, when that is asked for and no number is given.
const MULTIPLIER: f64 = 1.5;
const RANDOM: f64 = 0.5;
