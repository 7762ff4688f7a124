//! The endpoints that the targets of an upstream stand for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::HeaderValue;
use redial::Retry;
use redial::http::EndpointLayer;
use redial_policy::file::{AccessLog, HostHeader, ProxySettings, Target, Upstream};
use rustls::pki_types::ServerName;

use super::dial::{Destination, Dialer, Tls};
use super::endpoint::{Endpoint, Load};
use super::pool::Pool;
use super::resolve::Resolved;
use crate::error::StartError;
use crate::net::tls;

/// Reads certificates. A name without an address is no error: it may get one. Endpoints that are the same as `before`
/// keep their connections.
pub(crate) fn endpoints(
    upstream: &Upstream,
    resolved: &Resolved,
    proxy: &ProxySettings,
    connect: Duration,
    before: &[Arc<Endpoint>],
) -> Result<Vec<Arc<Endpoint>>, StartError> {
    let field = format!("upstream.{}.tls", upstream.name);
    let client = match upstream.to.iter().any(Target::is_tls) {
        true => Some(tls::client(&upstream.tls, &field)?),
        false => None,
    };
    let keeps_host = upstream.host == HostHeader::Keep;
    let mut found = Vec::new();
    for target in &upstream.to {
        let tls = match &client {
            Some(client) if target.is_tls() => {
                let name = server_name(upstream, target)?;
                Some(Tls { client: client.clone(), name })
            }
            _ => None,
        };
        let host = HeaderValue::try_from(target.authority())
            .unwrap_or(HeaderValue::from_static("localhost"));
        for to in destinations(target, resolved) {
            found.push((host.clone(), Dialer { to, tls: tls.clone(), timeout: connect }));
        }
    }
    let policy = upstream.endpoint_policy(found.len());
    let has_guards = policy.breaker().is_some() || policy.concurrency().is_some();
    let policy = has_guards.then_some(policy);
    let endpoint = |(host, dialer)| {
        let same = |it: &&Arc<Endpoint>| {
            let guards = it.guards.as_ref().map(|guards| guards.retry().policy());
            let is_target = it.host == host && it.dialer == dialer;
            is_target && it.keeps_host == keeps_host && guards == policy.as_ref()
        };
        if let Some(same) = before.iter().find(same) {
            return Arc::clone(same);
        }
        let guards = policy.clone().map(|policy| EndpointLayer::new(Retry::new(policy)));
        let (pool, load) = (Pool::new(proxy.threads), Load::new());
        Arc::new(Endpoint {
            name: dialer.to.to_string().into(),
            is_logged: proxy.log != AccessLog::None,
            host,
            keeps_host,
            dialer,
            pool,
            load,
            guards,
            is_unhealthy: AtomicBool::new(false),
        })
    };
    Ok(found.into_iter().map(endpoint).collect())
}

fn server_name(upstream: &Upstream, target: &Target) -> Result<ServerName<'static>, StartError> {
    let name = match (&upstream.tls.name, target) {
        (Some(name), _) => name.clone(),
        (None, Target::Http { host, .. }) => host.clone(),
        (None, Target::Unix(_)) => target.authority(),
    };
    ServerName::try_from(name.clone()).map_err(|error| {
        let field = format!("upstream.{}.tls.name", upstream.name);
        let problem = format!("`{name}` is not a host name: {error}");
        StartError::new(field, problem, "write the name in the certificate of the upstream")
    })
}

/// The addresses of a target. Those of a name are endpoints of their own.
fn destinations(target: &Target, resolved: &Resolved) -> Vec<Destination> {
    match target {
        Target::Unix(path) => vec![Destination::Unix(path.clone())],
        Target::Http { host, port, .. } => by_machine(resolved.addresses(host, *port)),
    }
}

/// Pairs the addresses of the family that the resolver prefers with those of the other: most often both lead to the same
/// machine, and one of them may not work.
fn by_machine(found: &[SocketAddr]) -> Vec<Destination> {
    let Some(first) = found.first() else { return Vec::new() };
    let (preferred, others): (Vec<_>, Vec<_>) =
        found.iter().copied().partition(|address| address.is_ipv4() == first.is_ipv4());
    let others = others.into_iter().map(Some).chain(std::iter::repeat(None));
    let pairs = preferred.into_iter().zip(others);
    pairs.map(|(first, other)| Destination::Tcp { first, other }).collect()
}
