//! What the admin interface shows of a world, as JSON.

use redial::Retry;
use redial_core::admit::BreakerState;
use serde_json::{Value, json};

use crate::world::World;

/// The file that is in use, in its own names. It contains no secrets: those are in other files and in the environment.
pub(crate) fn config(world: &World) -> Value {
    // The text was printed from what has been read, so this does not fail.
    toml::from_str(&world.file.to_toml()).unwrap_or_default()
}

/// What each budget has left.
pub(crate) fn budgets(world: &World) -> Value {
    let all = world.upstreams.iter().flat_map(|upstream| {
        upstream.retries.iter().map(|(policy, retry)| {
            json!({
                "upstream": upstream.name,
                "policy": policy,
                "balance": retry.balance(),
                "fleet": retry.policy().fleet(),
            })
        })
    });
    all.collect()
}
