//! What a file describes, ready to serve requests.
//!
//! A world does not change. Another file is another world, which takes over what is the same: guards with their budgets,
//! and endpoints with their connections. Requests in flight keep the world in which they began.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use http::HeaderValue;
use redial::http::RetryLayer;
use redial::{Policy, Retry};
use redial_policy::file::{self, File, HostHeader, Keys, Target};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use crate::balance::{Balance, Endpoints};
use crate::dial::{Destination, Dialer};
use crate::endpoint::{Endpoint, Load};
use crate::error::StartError;
use crate::guard::Rules;
use crate::limits;
use crate::pool::Pool;
use crate::route;
use crate::stack::Stack;
use crate::tls;

pub(crate) struct World {
    upstreams: Vec<Arc<Upstream>>,
}

/// An upstream of the file.
pub(crate) struct Upstream {
    pub(crate) name: String,
    pub(crate) rules: Rules,
    pub(crate) stack: Stack,
    pub(crate) endpoints: Arc<Endpoints>,
    /// The guards of each policy that its requests use, by the name of the policy; the first is that of requests without
    /// a route.
    retries: Vec<(String, Retry)>,
}

impl World {
    /// Reads certificates and looks up names. `before` is the world that this one replaces.
    pub(crate) fn new(file: &File, before: Option<&Self>) -> Result<Self, StartError> {
        let build = |upstream: &file::Upstream| {
            let before = before.and_then(|world| world.upstream(&upstream.name));
            Upstream::new(file, upstream, before.map(|it| &**it)).map(Arc::new)
        };
        Ok(Self { upstreams: file.upstreams.iter().map(build).collect::<Result<_, _>>()? })
    }

    pub(crate) fn upstream(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.name == name)
    }

    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.upstreams.iter().flat_map(|upstream| &upstream.endpoints.all)
    }
}

impl Upstream {
    fn new(
        file: &File,
        upstream: &file::Upstream,
        before: Option<&Self>,
    ) -> Result<Self, StartError> {
        let policies = route::policies(file, upstream);
        let retry = |(name, policy): &(String, Policy)| {
            (
                name.clone(),
                before.and_then(|it| it.retry(name, policy)).unwrap_or_else(|| new_retry(policy)),
            )
        };
        let retries: Vec<(String, Retry)> = policies.iter().map(retry).collect();
        let connect = policies.first().and_then(|(_, policy)| policy.connect_timeout());
        let endpoints = endpoints(file, upstream, connect.unwrap_or(limits::CONNECT))?;
        let endpoints = Arc::new(Endpoints::new(endpoints));
        let layer = layer(file, upstream, &retries);
        let stack = Stack::new(&layer, Balance::new(Arc::clone(&endpoints)));
        let via = before.map_or_else(pseudonym, |before| before.rules.via.clone());
        let rules = Rules { trust: upstream.trust, via };
        Ok(Self { name: upstream.name.clone(), rules, stack, endpoints, retries })
    }

    /// The guards of a policy, if it is the same.
    fn retry(&self, name: &str, policy: &Policy) -> Option<Retry> {
        let same = |(known, retry): &&(String, Retry)| known == name && retry.policy() == policy;
        self.retries.iter().find(same).map(|(_, retry)| retry.clone())
    }
}

fn new_retry(policy: &Policy) -> Retry {
    Retry::new(policy.clone())
}

fn layer(file: &File, upstream: &file::Upstream, retries: &[(String, Retry)]) -> RetryLayer {
    let keyed = |retry: &Retry| match upstream.keys {
        Keys::Make => retry.clone().keyed(),
        Keys::Leave => retry.clone(),
    };
    let [(_, default), ..] = retries else { return RetryLayer::routes_only() };
    let mut layer = RetryLayer::new(keyed(default))
        .buffer(usize::try_from(upstream.buffer).unwrap_or(usize::MAX));
    for route in route::of(file, upstream) {
        let policy = retries.iter().find(|(name, _)| *name == route.policy);
        if let Some((_, retry)) = policy {
            layer = layer.route(route::matcher(route), keyed(retry));
        }
    }
    layer
}

/// The name of this upstream in `Via`: another process, and another upstream of this one, have another.
fn pseudonym() -> HeaderValue {
    let text = format!("1.1 redial-{:016x}", RandomState::new().hash_one(0));
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("1.1 redial"))
}

fn endpoints(
    file: &File,
    upstream: &file::Upstream,
    connect: std::time::Duration,
) -> Result<Vec<Arc<Endpoint>>, StartError> {
    let field = format!("upstream.{}", upstream.name);
    let connector = match upstream.to.iter().any(Target::is_tls) {
        true => Some(tls::connector(&upstream.tls, &format!("{field}.tls"))?),
        false => None,
    };
    let mut endpoints = Vec::new();
    for target in &upstream.to {
        let tls = connector.as_ref().filter(|_| target.is_tls());
        let tls = tls.map(|connector| server_name(upstream, target, connector)).transpose()?;
        let host = match upstream.host {
            HostHeader::Keep => None,
            HostHeader::Upstream => HeaderValue::try_from(target.authority()).ok(),
        };
        for (name, to) in destinations(target) {
            endpoints.push(Arc::new(Endpoint {
                name,
                host: host.clone(),
                dialer: Dialer { to, tls: tls.clone(), timeout: connect },
                pool: Pool::new(file.proxy.threads),
                load: Load::new(),
            }));
        }
    }
    Ok(endpoints)
}

fn server_name(
    upstream: &file::Upstream,
    target: &Target,
    connector: &TlsConnector,
) -> Result<(TlsConnector, ServerName<'static>), StartError> {
    let name = match (&upstream.tls.name, target) {
        (Some(name), _) => name.clone(),
        (None, Target::Http { host, .. }) => host.clone(),
        (None, Target::Unix(_)) => "localhost".to_owned(),
    };
    let field = format!("upstream.{}.tls.name", upstream.name);
    match ServerName::try_from(name.clone()) {
        Ok(name) => Ok((connector.clone(), name)),
        Err(error) => Err(StartError::new(
            field,
            format!("`{name}` is not a host name: {error}"),
            "write the name in the certificate of the upstream",
        )),
    }
}

/// The addresses of a target. Those of a name are endpoints of their own, except that the IPv4 and IPv6 addresses of
/// one machine are tried in turn.
fn destinations(target: &Target) -> Vec<(String, Destination)> {
    match target {
        Target::Unix(path) => {
            vec![(format!("unix:{}", path.display()), Destination::Unix(path.clone()))]
        }
        Target::Http { host, port, .. } => {
            let found = (host.as_str(), *port).to_socket_addrs();
            let found: Vec<SocketAddr> = found.into_iter().flatten().collect();
            let grouped = by_machine(&found).into_iter();
            grouped.map(|all| (all[0].to_string(), Destination::Tcp(all.into()))).collect()
        }
    }
}

/// Pairs the addresses of the family that the resolver prefers with those of the other one.
fn by_machine(found: &[SocketAddr]) -> Vec<Vec<SocketAddr>> {
    let Some(first) = found.first() else { return Vec::new() };
    let (preferred, mut others): (Vec<_>, Vec<_>) =
        found.iter().copied().partition(|address| address.is_ipv4() == first.is_ipv4());
    others.reverse();
    preferred
        .into_iter()
        .map(|address| Vec::from_iter([Some(address), others.pop()].into_iter().flatten()))
        .collect()
}
