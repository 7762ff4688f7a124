use std::collections::HashSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use redial_core::Draft;
use redial_core::fleet::Location;
use serde::Deserialize;

use super::size::size;
use super::{
    Address, ClientTls, Health, Idempotency, Identity, KeyStore, Proxy, ServerTls, Shed, Target,
    Upstream, address, check, guards_only, words,
};
use crate::file::File;
use crate::file::routes::{Names, methods};
use crate::file::setting::{boolean, duration as nanos, non_empty, whole};
use crate::source::{Problem, Span};
use crate::tree::Cursor;
use crate::tree::de::{Clamped, De};

/// The most upstreams.
const MOST_UPSTREAMS: usize = 1_000;
/// The most endpoints of an upstream.
const MOST_TARGETS: usize = 1_000;

const UPSTREAM: [&str; 14] = [
    "to",
    "listen",
    "policy",
    "keys",
    "buffer",
    "host",
    "trust",
    "attempts_header",
    "shed",
    "idempotency",
    "health",
    "endpoint",
    "tls",
    "listen_tls",
];

/// Reads `[proxy]` and `[upstream.NAME]` into a file whose policies are read already.
pub(in crate::file) fn read(top: &Cursor<'_>, file: &mut File) -> Result<(), Problem> {
    file.proxy = or(top, "proxy", Proxy::default(), proxy)?;
    if let Some(upstreams) = top.get("upstream") {
        let entries = upstreams.table()?.entries();
        if entries.is_empty() || entries.len() > MOST_UPSTREAMS {
            let message = format_args!("must have 1 to {MOST_UPSTREAMS} upstreams");
            return Err(upstreams.problem(message).help("one starts with [upstream.NAME]"));
        }
        let policies = Names::new(file.policies.iter().map(|named| named.name.as_str()));
        for (entry, (name, here)) in entries.iter().zip(upstreams.fields()) {
            // `[upstream]` without a name is a common mistake, and the value may contain a password.
            if here.node.table().is_none() {
                let help = "give the upstream a name: [upstream.NAME]";
                return Err(here.problem("must be a table").help(help).secret());
            }
            file.upstreams.push(upstream(name, entry.key_span, &here)?);
            if let Some(policy) = here.get("policy") {
                policies.policy(&policy)?;
            }
        }
    }
    check::check(top, file)
}

fn proxy(here: &Cursor<'_>) -> Result<Proxy, Problem> {
    here.deny_unknown(&["admin", "threads", "connections", "parked", "replay", "drain", "log"])?;
    let default = Proxy::default();
    let count = |here: &Cursor<'_>, most| whole(here, 1..=most).map(|number| number as usize);
    Ok(Proxy {
        admin: or(here, "admin", default.admin, admin)?,
        threads: or(here, "threads", default.threads, |here| count(here, 1024))?,
        connections: or(here, "connections", default.connections, |here| count(here, 1_000_000))?,
        parked: or(here, "parked", default.parked, |here| whole(here, 1..=1_000_000))?,
        replay: or(here, "replay", default.replay, |here| match size(here)? {
            0 => Err(here.must_be("above zero")),
            bytes => Ok(bytes),
        })?,
        drain: or(here, "drain", default.drain, duration)?,
        log: or(here, "log", default.log, |here| words::read(here, &words::LOG))?,
    })
}

fn admin(here: &Cursor<'_>) -> Result<Option<Address>, Problem> {
    if here.node.text() == Some("none") {
        return Ok(None);
    }
    let address: Address = parse(here)?;
    if address.is_local() {
        return Ok(Some(address));
    }
    let problem = here.must_be("on loopback, a Unix socket or \"none\"");
    Err(problem.help("the admin interface has no authentication; write \"127.0.0.1:9900\""))
}

fn upstream(name: &str, name_span: Span, here: &Cursor<'_>) -> Result<Upstream, Problem> {
    here.deny_unknown(&UPSTREAM)?;
    let to = targets(&required(here, "to", "the URL that requests go to")?)?;
    let tls = or(here, "tls", ClientTls::default(), |here| client_tls(here, &to))?;
    let new = Upstream::new(name, to);
    let new = new.map_err(|invalid| Problem { span: Some(name_span), ..invalid })?;
    let listen = optional(here, "listen", parse::<Address>)?;
    let is_local = listen.as_ref().is_none_or(Address::is_local);
    Ok(Upstream {
        policy: optional(here, "policy", non_empty)?,
        keys: or(here, "keys", new.keys, |here| words::read(here, &words::KEYS))?,
        buffer: or(here, "buffer", new.buffer, size)?,
        host: or(here, "host", new.host, |here| words::read(here, &words::HOST))?,
        trust: or(here, "trust", is_local, boolean)?,
        attempts_header: or(here, "attempts_header", new.attempts_header, boolean)?,
        shed: optional(here, "shed", shed)?,
        idempotency: optional(here, "idempotency", idempotency)?,
        health: optional(here, "health", health)?,
        endpoint: optional(here, "endpoint", endpoint)?,
        tls,
        listen_tls: optional(here, "listen_tls", server_tls)?,
        listen,
        ..new
    })
}

fn targets(here: &Cursor<'_>) -> Result<Vec<Target>, Problem> {
    if here.node.text().is_some() {
        return Ok(vec![parse(here)?]);
    }
    let list = here.node.list().ok_or_else(|| here.must_be("a URL, or a list of URLs"))?;
    if list.is_empty() || list.len() > MOST_TARGETS {
        let message = format_args!("must have 1 to {MOST_TARGETS} URLs, but has {}", list.len());
        return Err(here.problem(message));
    }
    let (mut targets, mut known) = (Vec::new(), HashSet::new());
    for here in here.items() {
        let target: Target = parse(&here)?;
        if !known.insert(target.clone()) {
            let message = format_args!("{target} is in the list already");
            return Err(here.problem(message).help("remove one of them"));
        }
        targets.push(target);
    }
    Ok(targets)
}

fn shed(here: &Cursor<'_>) -> Result<Shed, Problem> {
    here.deny_unknown(&["limit", "queue"])?;
    let limit = required(here, "limit", "the most requests in progress")?;
    let limit = whole(&limit, 1..=1_000_000)?;
    Ok(Shed { limit, queue: or(here, "queue", limit, |here| whole(here, 0..=1_000_000))? })
}

fn idempotency(here: &Cursor<'_>) -> Result<Idempotency, Problem> {
    here.deny_unknown(&["store", "methods", "ttl"])?;
    let store = required(here, "store", "\"memory\", \"sqlite:FILE\" or \"redis:VARIABLE\"")?;
    let store = key_store(&store)?;
    let default = Idempotency::new(store);
    let methods = or(here, "methods", default.methods, |here| match methods(here)? {
        none if none.is_empty() => Err(here.problem("must have at least one method")),
        methods => Ok(methods),
    })?;
    Ok(Idempotency { methods, ttl: or(here, "ttl", default.ttl, duration)?, ..default })
}

fn key_store(here: &Cursor<'_>) -> Result<KeyStore, Problem> {
    let text = here.text()?;
    if text.starts_with("redis://") || text.starts_with("rediss://") {
        let location =
            Location { redis: text.to_owned(), user: None, password: None, ca_file: None };
        if text.contains('@') {
            let help = "put the URL into an environment variable, and write \"redis:VARIABLE\"";
            return Err(here
                .problem("must be a URL without user and password")
                .help(help)
                .secret());
        }
        let invalid = |invalid: redial_core::Invalid| here.must_be(invalid.allowed()).secret();
        return location.check().map(|()| KeyStore::Redis(location.redis)).map_err(invalid);
    }
    let is_start = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    match text.split_once(':') {
        None if text == "memory" => Ok(KeyStore::Memory),
        Some(("sqlite", file)) if is_file(file) => Ok(KeyStore::Sqlite(file.into())),
        Some(("redis", name))
            if name.bytes().all(|byte| is_start(byte) || byte.is_ascii_digit())
                && name.bytes().next().is_some_and(is_start) =>
        {
            Ok(KeyStore::RedisFromEnv(name.to_owned()))
        }
        _ => {
            let all = "\"memory\", \"sqlite:FILE\", \"redis://host:port/database\", or \"redis:VARIABLE\" for \
                       an environment variable with the URL";
            Err(here.problem(format_args!("must be {all}")).secret())
        }
    }
}

fn health(here: &Cursor<'_>) -> Result<Health, Problem> {
    here.deny_unknown(&["path", "every", "timeout"])?;
    let path = required(here, "path", "the path of a request that a healthy endpoint answers")?;
    let is_path = |text: &str| {
        text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
    };
    if !is_path(path.text()?) {
        return Err(path.must_be("a path such as \"/healthz\""));
    }
    let default = Health::new(path.text()?, or(here, "every", Health::EVERY, duration)?);
    let timeout = or(here, "timeout", default.timeout, duration)?;
    if timeout > default.every {
        let here = here.get("timeout").unwrap_or_else(|| here.clone());
        return Err(here.must_be("at most `every`, the time between two checks"));
    }
    Ok(Health { timeout, ..default })
}

fn endpoint(here: &Cursor<'_>) -> Result<redial_core::Policy, Problem> {
    here.deny_unknown(&["concurrency", "breaker"])?;
    let clamped = Clamped::default();
    let draft = Draft::deserialize(De::new(here.clone(), &clamped)).map_err(Problem::from)?;
    draft.clone().build().map_err(|invalid| {
        let path: Vec<&str> = invalid.field().split('.').collect();
        let written = (1..=path.len()).rev().find_map(|length| here.at(&path[..length]));
        written.unwrap_or_else(|| here.clone()).must_be(invalid.allowed())
    })?;
    clamped.into_inner().map_or_else(|| Ok(guards_only(draft)), Err)
}

fn client_tls(here: &Cursor<'_>, to: &[Target]) -> Result<ClientTls, Problem> {
    here.deny_unknown(&["ca", "cert", "key", "name"])?;
    if !to.iter().any(Target::is_tls) {
        let help = "write https:// in `to`; TLS towards callers is `listen_tls`";
        return Err(here.problem("no target uses TLS").help(help));
    }
    let name = optional(here, "name", |here| {
        let name = here.text()?;
        let must_be = || here.must_be("the name of a host, such as \"api.internal\"");
        if address::is_host(name) { Ok(name.to_ascii_lowercase()) } else { Err(must_be()) }
    })?;
    Ok(ClientTls { ca: optional(here, "ca", file)?, identity: identity(here)?, name })
}

fn server_tls(here: &Cursor<'_>) -> Result<ServerTls, Problem> {
    here.deny_unknown(&["cert", "key", "client_ca"])?;
    let identity = identity(here)?.ok_or_else(|| {
        here.problem("missing fields `cert` and `key`").help("name the files (PEM) of both")
    })?;
    Ok(ServerTls { identity, client_ca: optional(here, "client_ca", file)? })
}

fn identity(here: &Cursor<'_>) -> Result<Option<Identity>, Problem> {
    match (optional(here, "cert", file)?, optional(here, "key", file)?) {
        (Some(cert), Some(key)) => Ok(Some(Identity { cert, key })),
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err(here.problem("`cert` without `key`").help("name the file (PEM) of its private key"))
        }
        (None, Some(_)) => {
            Err(here.problem("`key` without `cert`").help("name the file (PEM) of its certificate"))
        }
    }
}

fn file(here: &Cursor<'_>) -> Result<PathBuf, Problem> {
    match here.text()? {
        path if is_file(path) => Ok(path.into()),
        // A key that is pasted instead of its file must not be printed.
        _ => Err(here.problem("must be the path of a file (PEM)").secret()),
    }
}

fn is_file(path: &str) -> bool {
    !path.is_empty() && path.len() <= 4096 && !path.contains(char::is_control)
}

/// A value that has a parser of its own.
fn parse<T: FromStr<Err = Problem>>(here: &Cursor<'_>) -> Result<T, Problem> {
    here.text()?.parse().map_err(|Problem { message, help, is_secret, .. }| Problem {
        help,
        is_secret,
        ..here.problem(message)
    })
}

fn duration(here: &Cursor<'_>) -> Result<Duration, Problem> {
    nanos(here).map(Duration::from_nanos)
}

fn required<'a>(here: &Cursor<'a>, name: &str, what: &str) -> Result<Cursor<'a>, Problem> {
    let missing =
        || here.problem(format_args!("missing field `{name}`")).help(format!("write {what}"));
    here.get(name).ok_or_else(missing)
}

fn optional<'a, T>(
    here: &Cursor<'a>,
    name: &str,
    read: impl FnOnce(&Cursor<'a>) -> Result<T, Problem>,
) -> Result<Option<T>, Problem> {
    here.get(name).map(|here| read(&here)).transpose()
}

fn or<'a, T>(
    here: &Cursor<'a>,
    name: &str,
    default: T,
    read: impl FnOnce(&Cursor<'a>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    optional(here, name, read).map(|value| value.unwrap_or(default))
}
