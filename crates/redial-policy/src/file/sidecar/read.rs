use std::collections::HashSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use redial_core::Draft;
use redial_core::fleet::Location;

use super::size::size;
use super::{
    Address, ClientTls, HealthCheck, IdempotencyRules, Identity, KeyScope, KeyStore, ProxySettings,
    ServerTls, ShedLimits, Target, Upstream, address, check, guards_only, words,
};
use crate::file::File;
use crate::file::routes::{Names, methods};
use crate::file::setting::{boolean, duration as span, non_empty, whole};
use crate::source::{Problem, Problems, TextSpan};
use crate::tree::de::{self, Wrong};
use crate::tree::{Cursor, Table, Value};

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
pub(in crate::file) fn read(
    top: &Cursor<'_>,
    policies: &Names<'_>,
    file: &mut File,
    problems: &Problems,
) {
    let own = Problems::default();
    file.proxy = top.get("proxy").map_or_else(ProxySettings::default, |here| proxy(&here, &own));
    let has_proxy = own.is_empty();
    problems.extend(own.into_list());
    if let Some(upstreams) = top.get("upstream") {
        let entries = problems.ok(upstreams.table()).map_or(&[][..], Table::entries);
        if upstreams.node.table().is_some() && !(1..=MOST_UPSTREAMS).contains(&entries.len()) {
            let message = format_args!("must have 1 to {MOST_UPSTREAMS} upstreams");
            let help = "one starts with [upstream.NAME]";
            return problems.add(upstreams.problem(message).help(help));
        }
        for (entry, (name, here)) in entries.iter().zip(upstreams.fields()) {
            // `[upstream]` without a name is a common mistake, and the value may contain a password.
            if here.node.table().is_none() {
                let help = "give the upstream a name: [upstream.NAME]";
                problems.add(here.problem("must be a table").help(help).secret());
                continue;
            }
            file.upstreams.extend(upstream(name, entry.key_span, &here, problems));
            here.read("policy", problems, |here| policies.policy(here));
        }
    }
    if has_proxy {
        check::check(top, file, problems);
    }
}

fn proxy(here: &Cursor<'_>, problems: &Problems) -> ProxySettings {
    let known = ["admin", "threads", "connections", "parked", "replay", "drain", "log"];
    here.deny_unknown(&known, problems);
    let default = ProxySettings::default();
    let count = |name, most| here.read(name, problems, |here| whole(here, 1..=most));
    let replay = here.read("replay", problems, |here| match size(here)? {
        0 => Err(here.must_be("above zero")),
        bytes => Ok(bytes),
    });
    let log = here.read("log", problems, |here| words::read(here, &words::LOG));
    ProxySettings {
        admin: here.read("admin", problems, admin).unwrap_or(default.admin),
        threads: count("threads", 1024).map_or(default.threads, |count| count as usize),
        connections: count("connections", 1_000_000)
            .map_or(default.connections, |count| count as usize),
        parked: count("parked", 1_000_000).unwrap_or(default.parked),
        replay: replay.unwrap_or(default.replay),
        drain: here.read("drain", problems, duration).unwrap_or(default.drain),
        log: log.unwrap_or(default.log),
    }
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

fn upstream(
    name: &str,
    name_span: TextSpan,
    here: &Cursor<'_>,
    problems: &Problems,
) -> Option<Upstream> {
    here.deny_unknown(&UPSTREAM, problems);
    let to = required(here, "to", "the URL that requests go to", problems);
    let to = to.map(|to| targets(&to, problems));
    let tls = here.get("tls").map(|here| client_tls(&here, to.as_deref(), problems));
    // The name is checked even if there is no target.
    let to = to.filter(|to| !to.is_empty()).unwrap_or_else(|| vec![Target::Unix(PathBuf::new())]);
    let new = Upstream::new(name, to);
    let new = problems.ok(new.map_err(|invalid| Problem { span: Some(name_span), ..invalid }));
    let listen = here.read("listen", problems, parse::<Address>);
    let is_local = listen.as_ref().is_none_or(Address::is_local);
    let policy = here.read("policy", problems, non_empty);
    let keys = here.read("keys", problems, |here| words::read(here, &words::KEYS));
    let buffer = here.read("buffer", problems, size);
    let host = here.read("host", problems, |here| words::read(here, &words::HOST));
    let trust = here.read("trust", problems, boolean);
    let attempts_header = here.read("attempts_header", problems, boolean);
    let shed = here.get("shed").and_then(|here| shed(&here, problems));
    let idempotency = here.get("idempotency").and_then(|here| idempotency(&here, problems));
    let health = here.get("health").and_then(|here| health(&here, problems));
    let endpoint = here.get("endpoint").and_then(|here| endpoint(&here, problems));
    let listen_tls = here.get("listen_tls").and_then(|here| server_tls(&here, problems));
    let new = new?;
    Some(Upstream {
        policy,
        keys: keys.unwrap_or(new.keys),
        buffer: buffer.unwrap_or(new.buffer),
        host: host.unwrap_or(new.host),
        trust: trust.unwrap_or(is_local),
        attempts_header: attempts_header.unwrap_or(new.attempts_header),
        shed,
        idempotency,
        health,
        endpoint,
        tls: tls.unwrap_or_default(),
        listen_tls,
        listen,
        ..new
    })
}

/// The targets without those that have a problem.
fn targets(here: &Cursor<'_>, problems: &Problems) -> Vec<Target> {
    if here.node.text().is_some() {
        return problems.ok(parse(here)).into_iter().collect();
    }
    match here.node.list().map(<[_]>::len) {
        Some(1..=MOST_TARGETS) => {}
        Some(count) => {
            let message = format_args!("must have 1 to {MOST_TARGETS} URLs, but has {count}");
            problems.add(here.problem(message));
            return Vec::new();
        }
        None => problems.add(here.must_be("a URL, or a list of URLs")),
    }
    let (mut targets, mut known) = (Vec::new(), HashSet::new());
    for here in here.items() {
        let Some(target) = problems.ok(parse::<Target>(&here)) else { continue };
        if !known.insert(target.clone()) {
            let message = format_args!("{target} is in the list already");
            problems.add(here.problem(message).help("remove one of them"));
        }
        targets.push(target);
    }
    targets
}

fn shed(here: &Cursor<'_>, problems: &Problems) -> Option<ShedLimits> {
    here.deny_unknown(&["limit", "queue"], problems);
    let queue = here.read("queue", problems, |here| whole(here, 0..=1_000_000));
    let limit = required(here, "limit", "the most requests in progress", problems)?;
    let limit = problems.ok(whole(&limit, 1..=1_000_000))?;
    Some(ShedLimits { limit, queue: queue.unwrap_or(limit) })
}

fn idempotency(here: &Cursor<'_>, problems: &Problems) -> Option<IdempotencyRules> {
    here.deny_unknown(&["store", "scope", "methods", "ttl"], problems);
    let what = "\"memory\", \"sqlite:FILE\" or \"redis:VARIABLE\"";
    let store = required(here, "store", what, problems);
    let store = store.and_then(|here| problems.ok(key_store(&here)));
    let named = here.get("methods").map(|here| {
        if here.node.list().is_some_and(<[_]>::is_empty) {
            problems.add(here.problem("must have at least one method"));
        }
        methods(&here, problems)
    });
    let ttl = here.read("ttl", problems, duration);
    let scope = here.read("scope", problems, key_scope);
    let default = IdempotencyRules::new(store?);
    let methods = named.unwrap_or(default.methods);
    let (scope, ttl) = (scope.unwrap_or_default(), ttl.unwrap_or(default.ttl));
    Some(IdempotencyRules { scope, methods, ttl, ..default })
}

fn key_scope(here: &Cursor<'_>) -> Result<KeyScope, Problem> {
    match here.text()? {
        "credentials" => Ok(KeyScope::Credentials),
        "certificate" => Ok(KeyScope::Certificate),
        name if is_header(name) => Ok(KeyScope::Header(name.to_ascii_lowercase())),
        _ => Err(here.problem("must be credentials, certificate, or the name of a header")),
    }
}

/// Whether this is the name of a header: a token (RFC 9110, 5.6.2).
fn is_header(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_allowed)
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

fn health(here: &Cursor<'_>, problems: &Problems) -> Option<HealthCheck> {
    here.deny_unknown(&["path", "every", "timeout"], problems);
    let every = here.read("every", problems, duration).unwrap_or(HealthCheck::EVERY);
    let timeout = here.read("timeout", problems, duration);
    let path =
        required(here, "path", "the path of a request that a healthy endpoint answers", problems);
    let is_path = |text: &str| {
        text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
    };
    let path = path.and_then(|path| {
        let text = problems.ok(path.text())?;
        if !is_path(text) {
            problems.add(path.must_be("a path such as \"/healthz\""));
        }
        Some(text)
    });
    if timeout.is_some_and(|timeout| timeout > every) {
        let here = here.get("timeout").unwrap_or_else(|| here.clone());
        problems.add(here.must_be("at most `every`, the time between two checks"));
    }
    let default = HealthCheck::new(path?, every);
    Some(HealthCheck { timeout: timeout.unwrap_or(default.timeout), ..default })
}

fn endpoint(here: &Cursor<'_>, problems: &Problems) -> Option<redial_core::Policy> {
    let known = ["concurrency", "breaker"];
    here.deny_unknown(&known, problems);
    let mut node = here.node.clone();
    if let Value::Table(table) = &mut node.value {
        table.retain(&known);
    }
    de::read(here, &mut node, problems, |draft: Draft, node| {
        draft.clone().build().map(|_| guards_only(draft)).map_err(|invalid| {
            let here = here.at_node(node);
            let written = here.nearest(invalid.field()).unwrap_or(here);
            Wrong { problem: Some(written.must_be(invalid.allowed())), at: Some(written.node) }
        })
    })
}

fn client_tls(here: &Cursor<'_>, to: Option<&[Target]>, problems: &Problems) -> ClientTls {
    here.deny_unknown(&["ca", "cert", "key", "name"], problems);
    if to.is_some_and(|to| !to.is_empty() && !to.iter().any(Target::is_tls)) {
        let help = "write https:// in `to`; TLS towards callers is `listen_tls`";
        problems.add(here.problem("no target uses TLS").help(help));
    }
    let name = here.read("name", problems, |here| {
        let name = here.text()?;
        let must_be = || here.must_be("the name of a host, such as \"api.internal\"");
        if address::is_host(name) { Ok(name.to_ascii_lowercase()) } else { Err(must_be()) }
    });
    ClientTls { ca: here.read("ca", problems, file), identity: identity(here, problems), name }
}

fn server_tls(here: &Cursor<'_>, problems: &Problems) -> Option<ServerTls> {
    here.deny_unknown(&["cert", "key", "client_ca"], problems);
    let client_ca = here.read("client_ca", problems, file);
    if here.first(&["cert", "key"]).is_none() && here.node.table().is_some() {
        let problem = here.problem("missing fields `cert` and `key`");
        problems.add(problem.help("name the files (PEM) of both"));
    }
    Some(ServerTls { identity: identity(here, problems)?, client_ca })
}

fn identity(here: &Cursor<'_>, problems: &Problems) -> Option<Identity> {
    let (cert, key) = (here.get("cert"), here.get("key"));
    if cert.is_some() != key.is_some() {
        let (message, help) = if cert.is_some() {
            ("`cert` without `key`", "name the file (PEM) of its private key")
        } else {
            ("`key` without `cert`", "name the file (PEM) of its certificate")
        };
        problems.add(here.problem(message).help(help));
    }
    let [cert, key] = [cert, key].map(|here| problems.ok(file(&here?)));
    Some(Identity { cert: cert?, key: key? })
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
    span(here).map(Duration::from)
}

fn required<'a>(
    here: &Cursor<'a>,
    name: &str,
    what: &str,
    problems: &Problems,
) -> Option<Cursor<'a>> {
    let missing =
        || here.problem(format_args!("missing field `{name}`")).help(format!("write {what}"));
    here.table().ok()?;
    problems.ok(here.get(name).ok_or_else(missing))
}
