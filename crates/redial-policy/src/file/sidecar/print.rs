use std::path::Path;
use std::time::Duration;

use redial_core::{Policy, Span};

use super::size::size_text;
use super::{
    Address, ClientTls, HealthCheck, IdempotencyRules, Identity, KeyStore, ProxySettings,
    ServerTls, ShedLimits, Upstream, words,
};
use crate::file::print::{policy, table};
use crate::tree::{Table, Value};

pub(in crate::file) fn proxy(proxy: &ProxySettings) -> Table {
    let default = ProxySettings::default();
    let admin = || proxy.admin.as_ref().map_or(Value::from("none"), text);
    table([
        (proxy.admin != default.admin).then(|| ("admin", admin())),
        (proxy.threads != default.threads).then(|| ("threads", count(proxy.threads))),
        (proxy.connections != default.connections)
            .then(|| ("connections", count(proxy.connections))),
        (proxy.parked != default.parked).then(|| ("parked", count(proxy.parked as usize))),
        (proxy.replay != default.replay).then(|| ("replay", size_text(proxy.replay).into())),
        (proxy.drain != default.drain).then(|| ("drain", duration(proxy.drain))),
        words::print(proxy.log, &words::LOG).map(|word| ("log", word)),
    ])
}

pub(in crate::file) fn upstream(upstream: &Upstream) -> Table {
    let to = || Value::list(upstream.to.iter().map(text));
    let to = if let [only] = &upstream.to[..] { text(only) } else { to() };
    let is_local = upstream.listen.as_ref().is_none_or(Address::is_local);
    table([
        Some(("to", to)),
        upstream.listen.as_ref().map(|address| ("listen", text(address))),
        upstream.policy.as_deref().map(|name| ("policy", name.into())),
        words::print(upstream.keys, &words::KEYS).map(|word| ("keys", word)),
        (upstream.buffer != Upstream::BUFFER)
            .then(|| ("buffer", size_text(upstream.buffer).into())),
        words::print(upstream.host, &words::HOST).map(|word| ("host", word)),
        (upstream.trust != is_local).then(|| ("trust", upstream.trust.into())),
        upstream.attempts_header.then(|| ("attempts_header", true.into())),
        upstream.shed.as_ref().map(|it| ("shed", Value::Table(shed(it)))),
        upstream.idempotency.as_ref().map(|it| ("idempotency", Value::Table(idempotency(it)))),
        upstream.health.as_ref().map(|it| ("health", Value::Table(health(it)))),
        upstream.endpoint.as_ref().map(|it| ("endpoint", Value::Table(endpoint(it)))),
        (upstream.tls != ClientTls::default())
            .then(|| ("tls", Value::Table(client_tls(&upstream.tls)))),
        upstream.listen_tls.as_ref().map(|it| ("listen_tls", Value::Table(server_tls(it)))),
    ])
}

fn shed(shed: &ShedLimits) -> Table {
    let queue = (shed.queue != shed.limit).then(|| ("queue", shed.queue.into()));
    table([Some(("limit", shed.limit.into())), queue])
}

fn idempotency(idempotency: &IdempotencyRules) -> Table {
    let IdempotencyRules { store, scope, methods, ttl } = idempotency;
    let default = IdempotencyRules::new(KeyStore::Memory);
    let methods = (*methods != default.methods)
        .then(|| Value::list(methods.iter().map(|method| method.as_str().into())));
    table([
        Some(("store", text(store))),
        (*scope != default.scope).then(|| ("scope", text(scope))),
        methods.map(|methods| ("methods", methods)),
        (*ttl != default.ttl).then(|| ("ttl", duration(*ttl))),
    ])
}

fn health(health: &HealthCheck) -> Table {
    let default = HealthCheck::new(&health.path, health.every);
    table([
        Some(("path", health.path.as_str().into())),
        (health.every != HealthCheck::EVERY).then(|| ("every", duration(health.every))),
        (health.timeout != default.timeout).then(|| ("timeout", duration(health.timeout))),
    ])
}

/// The guards of a policy; what else it contains is the same for every endpoint.
fn endpoint(guards: &Policy) -> Table {
    let mut fields = policy(guards);
    let all = ["concurrency", "breaker"].map(|name| fields.remove(name));
    let mut table = Table::default();
    all.into_iter().flatten().for_each(|entry| table.set(entry));
    table
}

fn client_tls(tls: &ClientTls) -> Table {
    let [cert, key] = identity(tls.identity.as_ref());
    table([
        tls.ca.as_deref().map(|ca| ("ca", path(ca))),
        cert,
        key,
        tls.name.as_deref().map(|name| ("name", name.into())),
    ])
}

fn server_tls(tls: &ServerTls) -> Table {
    let [cert, key] = identity(Some(&tls.identity));
    table([cert, key, tls.client_ca.as_deref().map(|ca| ("client_ca", path(ca)))])
}

fn identity(identity: Option<&Identity>) -> [Option<(&'static str, Value)>; 2] {
    [identity.map(|it| ("cert", path(&it.cert))), identity.map(|it| ("key", path(&it.key)))]
}

fn text(value: &impl ToString) -> Value {
    value.to_string().into()
}

fn path(path: &Path) -> Value {
    path.display().to_string().into()
}

fn duration(duration: Duration) -> Value {
    text(&Span::from(duration))
}

fn count(count: usize) -> Value {
    Value::from(u32::try_from(count).unwrap_or(u32::MAX))
}
