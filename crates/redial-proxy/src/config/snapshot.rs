//! What a file describes, ready to serve requests.
//!
//! A snapshot does not change. Another file is another snapshot, and so is another address of a name. It takes over what is the
//! same: guards with their budgets, stores, and endpoints with their connections. Requests in flight keep the snapshot in
//! which they began, except for the endpoints: a request may have been parked for seconds, and the old ones are gone.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Method};
use redial::fleet::Location;
use redial::http::server::{IdempotencyLayer, ShedLayer};
use redial::http::{ReplayMemory, RetryLayer, names};
use redial::telemetry::Meter;
use redial::{Fleet, ParkLimit, Policy, Retry};
use redial_policy::file::{self, File};
use tokio_rustls::TlsAcceptor;

use super::routes;
use crate::error::StartError;
use crate::layers::Stack;
use crate::layers::key_store::Keys;
use crate::limits;
use crate::net::tls;
use crate::upstream::balance::{Balance, Endpoints};
use crate::upstream::endpoint::Endpoint;
use crate::upstream::resolve::Resolved;
use crate::upstream::targets;

#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) file: File,
    /// The addresses of the names in the file.
    pub(crate) resolved: Resolved,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// The fleets that policies name.
    fleets: Vec<(Location, Fleet)>,
}

/// An upstream of the file.
pub(crate) struct Upstream {
    pub(crate) name: String,
    pub(crate) rules: Rules,
    pub(crate) stack: Stack,
    pub(crate) endpoints: Arc<Endpoints>,
    /// TLS towards callers.
    pub(crate) acceptor: Option<TlsAcceptor>,
    /// The guards of each policy that its requests use, by the name of the policy. The first is that of requests without
    /// a route.
    pub(crate) retries: Vec<(String, Retry)>,
    /// Which requests use another policy than the first, and its place.
    routes: Vec<(Arc<routes::Matcher>, usize)>,
    pub(crate) health: Option<file::HealthCheck>,
    shed: Option<(file::ShedLimits, ShedLayer)>,
    idempotency: Option<(file::IdempotencyRules, IdempotencyLayer<Arc<Keys>>)>,
}

/// What the checks of requests have to know of an upstream.
pub(crate) struct Rules {
    /// Whether headers of proxies are accepted from callers.
    pub(crate) trust: bool,
    /// The entry of this upstream in `Via`. It appears in a request only if this upstream has forwarded it before.
    pub(crate) via: HeaderValue,
}

/// What the requests of all upstreams may hold together. A reload does not change it.
pub(crate) struct Quota {
    /// The replay buffers.
    pub(crate) memory: ReplayMemory,
    /// The parked requests.
    pub(crate) parked: ParkLimit,
}

impl Quota {
    pub(crate) fn new(proxy: &file::ProxySettings) -> Self {
        let bytes = usize::try_from(proxy.replay).unwrap_or(usize::MAX);
        Self { memory: ReplayMemory::new(bytes), parked: ParkLimit::new(proxy.parked) }
    }
}

impl Snapshot {
    /// Reads certificates, opens stores and looks up names. `before` is the snapshot that this one replaces.
    pub(crate) fn new(file: &File, quota: &Quota, before: &Self) -> Result<Self, StartError> {
        Self::with(file, Resolved::look_up(file, &before.resolved), quota, before)
    }

    /// The same with names that have been looked up.
    pub(crate) fn with(
        file: &File,
        resolved: Resolved,
        quota: &Quota,
        before: &Self,
    ) -> Result<Self, StartError> {
        Self::build(file, resolved, quota, before, true)
    }

    /// Reads certificates and looks up names, but opens no fleet.
    pub(crate) fn check(file: &File, quota: &Quota) -> Result<(), StartError> {
        let before = Self::default();
        let resolved = Resolved::look_up(file, &before.resolved);
        Self::build(file, resolved, quota, &before, false).map(drop)
    }

    fn build(
        file: &File,
        resolved: Resolved,
        quota: &Quota,
        before: &Self,
        opens_fleets: bool,
    ) -> Result<Self, StartError> {
        let fleets = Vec::new();
        let mut build = Build { file, resolved: &resolved, before, quota, fleets, opens_fleets };
        let build_one = |upstream| build.upstream(upstream).map(Arc::new);
        let upstreams = file.upstreams.iter().map(build_one).collect::<Result<_, _>>()?;
        let fleets = build.fleets;
        Ok(Self { file: file.clone(), resolved, upstreams, fleets })
    }

    pub(crate) fn upstream(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.name == name)
    }

    /// Sends further attempts of requests in flight to the endpoints of the snapshot that has replaced this one.
    pub(crate) fn follow(&self, next: &Self) {
        for upstream in &self.upstreams {
            if let Some(next) = next.upstream(&upstream.name) {
                upstream.endpoints.replace_by(&next.endpoints);
            }
        }
    }

    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.upstreams.iter().flat_map(|upstream| &upstream.endpoints.all)
    }
}

impl Upstream {
    /// The place of a request's policy.
    pub(crate) fn policy_of(&self, request: &Parts) -> usize {
        let route = self.routes.iter().find(|(matches, _)| matches(request));
        route.map_or(0, |(_, place)| *place)
    }
}

/// A snapshot that is being made.
struct Build<'a> {
    file: &'a File,
    resolved: &'a Resolved,
    before: &'a Snapshot,
    quota: &'a Quota,
    fleets: Vec<(Location, Fleet)>,
    opens_fleets: bool,
}

impl Build<'_> {
    fn upstream(&mut self, upstream: &file::Upstream) -> Result<Upstream, StartError> {
        let before = self.before.upstream(&upstream.name).map(|before| &**before);
        let policies = routes::policies(self.file, upstream);
        let connect = policies.first().and_then(|(_, policy)| policy.connect_timeout());
        let retry = |(name, policy): (String, Policy)| {
            let retry = self.retry(upstream, &name, policy, before)?;
            Ok((name, retry))
        };
        let retries: Vec<_> = policies.into_iter().map(retry).collect::<Result<_, _>>()?;
        let endpoints = targets::endpoints(
            upstream,
            self.resolved,
            &self.file.proxy,
            connect.unwrap_or(limits::CONNECT),
            before.map_or(&[], |before| &before.endpoints.all),
        )?;
        let endpoints = Arc::new(Endpoints::new(endpoints));
        let shed = upstream.shed.map(|shed| (shed, shed_layer(shed, before)));
        let idempotency = match &upstream.idempotency {
            None => None,
            Some(wanted) => Some((wanted.clone(), idempotency(wanted, upstream, before)?)),
        };
        let routes = self.routes(upstream, &retries);
        let stack = Stack::new(
            &self.layer(upstream, &retries, &routes),
            Balance::new(Arc::clone(&endpoints)),
            shed.as_ref().map(|(_, layer)| layer),
            idempotency.as_ref().map(|(_, layer)| layer),
        );
        let via = before.map_or_else(pseudonym, |before| before.rules.via.clone());
        let rules = Rules { trust: upstream.trust, via };
        let name = upstream.name.clone();
        let field = format!("upstream.{name}.listen_tls");
        let acceptor = upstream.listen_tls.as_ref().map(|tls| tls::acceptor(tls, &field));
        let acceptor = acceptor.transpose()?;
        Ok(Upstream {
            name,
            rules,
            stack,
            endpoints,
            acceptor,
            retries,
            routes,
            health: upstream.health.clone(),
            shed,
            idempotency,
        })
    }

    fn routes(
        &self,
        upstream: &file::Upstream,
        retries: &[(String, Retry)],
    ) -> Vec<(Arc<routes::Matcher>, usize)> {
        let place = |policy: &str| retries.iter().position(|(name, _)| name == policy);
        let routes = routes::of(self.file, upstream);
        let placed =
            routes.filter_map(|route| Some((routes::matcher(route), place(&route.policy)?)));
        placed.collect()
    }

    /// The guards of a policy: those from before if it is the same.
    fn retry(
        &mut self,
        upstream: &file::Upstream,
        name: &str,
        policy: Policy,
        before: Option<&Upstream>,
    ) -> Result<Retry, StartError> {
        let fleet = self.fleet(&policy)?;
        let is_at_same_place = self.before.file.location(&policy) == self.file.location(&policy);
        let mut known = before.into_iter().flat_map(|before| &before.retries);
        let same = |(known, retry): &&(String, Retry)| known == name && *retry.policy() == policy;
        if let Some((_, same)) = known.find(same)
            && is_at_same_place
        {
            return Ok(same.clone());
        }
        let name = policy.fleet().unwrap_or_default().to_owned();
        let retry = Retry::new(policy).meter(Meter::new(upstream.name.as_str()));
        let retry = retry.park_limit(&self.quota.parked);
        let Some(fleet) = fleet else { return Ok(retry) };
        retry.fleet(&fleet).map_err(|wrong| {
            let help = "a policy with a fleet needs a window budget";
            StartError::new(format!("fleet.{name}"), wrong, help)
        })
    }

    /// The fleet of a policy: that from before if its ledger is at the same place.
    fn fleet(&mut self, policy: &Policy) -> Result<Option<Fleet>, StartError> {
        let (Some(name), Some(location)) = (policy.fleet(), self.file.location(policy)) else {
            return Ok(None);
        };
        let mut known = self.fleets.iter().chain(&self.before.fleets);
        let same = |(at, fleet): &&(Location, Fleet)| at == location && fleet.name() == name;
        let wrong = |wrong| {
            let help = "write redis = \"redis://host:port/database\"";
            StartError::new(format!("fleet.{name}"), wrong, help)
        };
        let fleet = match known.find(same) {
            Some((_, fleet)) => fleet.clone(),
            None => {
                let draft = Fleet::at(location, name).map_err(wrong)?;
                if !self.opens_fleets {
                    return Ok(None);
                }
                draft.open().map_err(wrong)?
            }
        };
        self.fleets.push((location.clone(), fleet.clone()));
        Ok(Some(fleet))
    }

    fn layer(
        &self,
        upstream: &file::Upstream,
        retries: &[(String, Retry)],
        routes: &[(Arc<routes::Matcher>, usize)],
    ) -> RetryLayer {
        let keyed = |retry: &Retry| match upstream.keys {
            file::MissingKeys::Make => retry.clone().keyed(),
            file::MissingKeys::Leave => retry.clone(),
        };
        let [(_, default), ..] = retries else { return RetryLayer::routes_only() };
        let buffer = usize::try_from(upstream.buffer).unwrap_or(usize::MAX);
        let mut layer =
            RetryLayer::new(keyed(default)).buffer(buffer).replay_memory(&self.quota.memory);
        if upstream.attempts_header {
            layer = layer.attempts_header(names::ATTEMPTS);
        }
        for (matches, place) in routes {
            let matches = Arc::clone(matches);
            layer = layer.route(move |request| matches(request), keyed(&retries[*place].1));
        }
        layer
    }
}

fn shed_layer(wanted: file::ShedLimits, before: Option<&Upstream>) -> ShedLayer {
    match before.and_then(|before| before.shed.as_ref()) {
        Some((shed, layer)) if *shed == wanted => layer.clone(),
        _ => ShedLayer::new(wanted.limit as usize).queue(wanted.queue as usize),
    }
}

fn idempotency(
    wanted: &file::IdempotencyRules,
    upstream: &file::Upstream,
    before: Option<&Upstream>,
) -> Result<IdempotencyLayer<Arc<Keys>>, StartError> {
    match before.and_then(|before| before.idempotency.as_ref()) {
        Some((known, layer)) if known == wanted => return Ok(layer.clone()),
        _ => {}
    }
    let keys = Arc::new(Keys::open(&wanted.store, &store_field(upstream))?);
    let methods = wanted.methods.iter().filter_map(|name| Method::from_bytes(name.as_bytes()).ok());
    let layer = IdempotencyLayer::new(keys).methods(methods).ttl(wanted.ttl);
    Ok(match wanted.scope.clone() {
        file::KeyScope::Credentials => layer,
        file::KeyScope::Certificate => layer.scoped_by(|_| []),
        file::KeyScope::Header(name) => layer.scoped_by(move |request| {
            let values = request.headers.get_all(&name).iter();
            values.flat_map(|value| [value.as_bytes(), b"\n"].concat()).collect::<Vec<_>>()
        }),
    })
}

/// The field of an upstream's store.
pub(crate) fn store_field(upstream: &file::Upstream) -> String {
    format!("upstream.{}.idempotency.store", upstream.name)
}

/// The name of an upstream in `Via`. No other upstream, of this process or another, has it.
fn pseudonym() -> HeaderValue {
    let text = format!("1.1 redial-{:016x}", RandomState::new().hash_one(0));
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("1.1 redial"))
}
