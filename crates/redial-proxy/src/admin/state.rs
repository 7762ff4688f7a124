//! What the admin interface shows of a snapshot, as JSON.

use redial::Retry;
use redial_core::admit::BreakerState;
use serde_json::{Value, json};

use crate::config::snapshot::{Snapshot, Upstream};

/// The file that is in use, in its own names. It contains no secrets: those are in other files and in the environment.
pub(crate) fn config(snapshot: &Snapshot) -> Value {
    // The text was printed from what has been read, so this does not fail.
    toml::from_str(&snapshot.file.to_toml()).unwrap_or_default()
}

/// What each budget has left.
pub(crate) fn budgets(snapshot: &Snapshot) -> Value {
    let all = snapshot.upstreams.iter().flat_map(|upstream| {
        upstream.retries.iter().map(|(policy, retry)| {
            json!({
                "upstream": upstream.name,
                "policy": policy,
                "balance": retry.balance(),
                "parked": retry.parked(),
                "fleet": retry.policy().fleet(),
            })
        })
    });
    all.collect()
}

/// The state of each breaker: those of policies, and those of endpoints.
pub(crate) fn breakers(snapshot: &Snapshot) -> Value {
    let all = snapshot.upstreams.iter().flat_map(|upstream| Breaker::all(upstream));
    all.filter_map(|breaker| breaker.state()).collect()
}

/// Carries out `UPSTREAM/NAME/open` or `UPSTREAM/NAME/reset`, where the name is that of an endpoint, which may be a path, or of
/// a policy. Returns the breaker.
pub(crate) fn set_breaker(snapshot: &Snapshot, command: &str) -> Result<Value, String> {
    const FORM: &str =
        "the path is /breakers/UPSTREAM/ENDPOINT/open, /breakers/UPSTREAM/POLICY/open or …/reset";
    let parts = command.split_once('/').and_then(|(upstream, rest)| {
        let (wanted, action) = rest.rsplit_once('/')?;
        Some((upstream, wanted, action))
    });
    let (name, wanted, action) = parts.ok_or(FORM)?;
    let upstream = snapshot.upstream(name).ok_or_else(|| format!("no upstream `{name}`"))?;
    let breaker = Breaker::find(upstream, wanted)?;
    match action {
        "open" => breaker.retry.open_breaker(),
        "reset" => breaker.retry.reset_breaker(),
        _ => return Err(FORM.to_owned()),
    }
    breaker.state().ok_or_else(|| breaker.missing())
}

/// A breaker, of an endpoint or of a policy.
struct Breaker<'a> {
    upstream: &'a str,
    /// `endpoint` or `policy`.
    kind: &'static str,
    name: &'a str,
    retry: &'a Retry,
}

impl<'a> Breaker<'a> {
    fn all(upstream: &'a Upstream) -> impl Iterator<Item = Self> {
        let policies = upstream.retries.iter().map(|(name, retry)| ("policy", &**name, retry));
        let endpoints = upstream.endpoints.all.iter().filter_map(|endpoint| {
            Some(("endpoint", &*endpoint.name, endpoint.guards.as_ref()?.retry()))
        });
        let of = |(kind, name, retry)| Self { upstream: &upstream.name, kind, name, retry };
        policies.chain(endpoints).map(of)
    }

    fn find(upstream: &'a Upstream, wanted: &str) -> Result<Self, String> {
        let is_wanted = |known: &str| {
            known == wanted
                || known.replace('[', "%5B").replace(']', "%5D").eq_ignore_ascii_case(wanted)
        };
        if let Some(found) = Self::all(upstream).find(|breaker| is_wanted(breaker.name)) {
            return Ok(found);
        }
        let endpoints = upstream.endpoints.all.iter().map(|it| &*it.name);
        let policies = upstream.retries.iter().map(|(name, _)| &**name);
        if endpoints.clone().any(is_wanted) {
            return Err(missing("endpoint", wanted));
        }
        let known: Vec<&str> = endpoints.chain(policies).collect();
        let (name, known) = (&upstream.name, known.join(", "));
        Err(format!("`{name}` has no endpoint or policy `{wanted}`, only {known}"))
    }

    /// `None` if it has no breaker.
    fn state(&self) -> Option<Value> {
        let state = match self.retry.breaker()? {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half-open",
        };
        Some(json!({ "upstream": self.upstream, self.kind: self.name, "state": state }))
    }

    fn missing(&self) -> String {
        missing(self.kind, self.name)
    }
}

fn missing(kind: &str, name: &str) -> String {
    match kind {
        "endpoint" => format!("{name} has no breaker: write endpoint = {{ breaker = … }}"),
        _ => format!("the policy {name} has no breaker: write breaker = {{ … }} in its table"),
    }
}
