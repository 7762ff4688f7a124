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

/// The state of each breaker: those of policies, and those of endpoints.
pub(crate) fn breakers(world: &World) -> Value {
    let mut all = Vec::new();
    for upstream in &world.upstreams {
        for (policy, retry) in &upstream.retries {
            if let Some(state) = retry.breaker() {
                let state = name(state);
                all.push(json!({ "upstream": upstream.name, "policy": policy, "state": state }));
            }
        }
        for endpoint in &upstream.endpoints.all {
            if let Some(retry) = endpoint.guards.as_ref().map(|guards| guards.retry()) {
                all.extend(of_endpoint(&upstream.name, &endpoint.name, retry));
            }
        }
    }
    all.into()
}

fn of_endpoint(upstream: &str, endpoint: &str, retry: &Retry) -> Option<Value> {
    let state = name(retry.breaker()?);
    Some(json!({ "upstream": upstream, "endpoint": endpoint, "state": state }))
}

fn name(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::Open => "open",
        BreakerState::HalfOpen => "half-open",
    }
}

/// Carries out `UPSTREAM/ENDPOINT/open` or `UPSTREAM/ENDPOINT/reset`. An endpoint may be a path. Returns the breaker.
pub(crate) fn set_breaker(world: &World, command: &str) -> Result<Value, String> {
    const FORM: &str = "the path is /breakers/UPSTREAM/ENDPOINT/open or …/reset";
    let parts = command.split_once('/').and_then(|(upstream, rest)| {
        let (endpoint, action) = rest.rsplit_once('/')?;
        Some((upstream, endpoint, action))
    });
    let (name, wanted, action) = parts.ok_or(FORM)?;
    let upstream = world.upstream(name).ok_or_else(|| format!("no upstream `{name}`"))?;
    let is_wanted = |known: &str| {
        known == wanted
            || known.replace('[', "%5B").replace(']', "%5D").eq_ignore_ascii_case(wanted)
    };
    let endpoint = upstream.endpoints.all.iter().find(|endpoint| is_wanted(&endpoint.name));
    let endpoint = endpoint.ok_or_else(|| {
        let known: Vec<&str> = upstream.endpoints.all.iter().map(|it| &*it.name).collect();
        format!("`{name}` has no endpoint `{wanted}`, only {}", known.join(", "))
    })?;
    let none = || format!("{wanted} has no breaker: write endpoint = {{ breaker = … }}");
    let retry = endpoint.guards.as_ref().map(|guards| guards.retry()).ok_or_else(none)?;
    match action {
        "open" => retry.open_breaker(),
        "reset" => retry.reset_breaker(),
        _ => return Err(FORM.to_owned()),
    }
    of_endpoint(name, &endpoint.name, retry).ok_or_else(none)
}
