//! Strategies for the sidecar's tables.

use std::net::SocketAddr;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use redial_core::Policy;
use redial_core::admit::budget::Budget;
use redial_policy::file::{
    AccessLog, Address, ClientTls, HealthCheck, HostHeader, IdempotencyRules, Identity, KeyScope,
    KeyStore, MissingKeys, ProxySettings, ServerTls, ShedLimits, Target, Upstream,
};

use crate::policies::{breakers, counts, durations};

/// The most bytes of a buffer, and the least of all of them.
const BUFFER: u64 = 1 << 20;

/// `[proxy]` and upstreams whose listeners differ, and to which no target leads.
pub(crate) fn sidecars() -> BoxedStrategy<(ProxySettings, Vec<Upstream>)> {
    let upstreams = vec((options(), guards(), tls()), 1..4);
    let upstreams = upstreams.prop_map(|all| {
        let all = all.into_iter().zip(1..);
        all.map(|((options, guards, tls), number)| upstream(number, options, guards, tls)).collect()
    });
    (proxies(), upstreams).boxed()
}

fn proxies() -> impl Strategy<Value = ProxySettings> {
    let log = select(vec![AccessLog::Text, AccessLog::Json, AccessLog::None]);
    let admin = select(vec!["127.0.0.1:9900", "[::1]:9999", "unix:/run/admin.sock", "127.0.0.1:0"]);
    let admin = option::of(admin.prop_map(|address| address.parse().unwrap()));
    let rest = (prop_oneof![Just(64 << 20), BUFFER..=1 << 40], times(), log);
    let counts = (1..=1024_usize, 1..=1_000_000_usize, 1..=1_000_000_u32);
    let some = (admin, counts, rest);
    let some = some.prop_map(|(admin, (threads, connections, parked), (replay, drain, log))| {
        ProxySettings { admin, threads, connections, parked, replay, drain, log }
    });
    prop_oneof![Just(ProxySettings::default()), some]
}

fn times() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(Duration::from_secs(30)), durations().prop_map(Duration::from)]
}

type Options = (Vec<Target>, u8, (bool, bool, bool, bool), u64);

fn options() -> impl Strategy<Value = Options> {
    let host =
        select(vec!["a", "api.example.com", "x_y.z.", "10.0.0.1", "127.0.0.1", "2001:db8::1"]);
    let port = prop_oneof![Just(80), Just(443), 1..=9000_u16];
    let http = (any::<bool>(), host, port);
    let http = http.prop_map(|(tls, host, port)| Target::Http { tls, host: host.to_owned(), port });
    let unix = "/[a-z \"ö]{1,9}".prop_map(|path| Target::Unix(path.into()));
    let targets = vec(prop_oneof![4 => http, 1 => unix], 1..4).prop_map(|mut targets| {
        let mut seen = std::collections::HashSet::new();
        targets.retain(|target| seen.insert(target.clone()));
        targets
    });
    let size =
        prop_oneof![Just(64 << 10), Just(0), (0..=1024_u64).prop_map(|kib| kib << 10), 0..=BUFFER];
    (targets, 0..5_u8, any::<(bool, bool, bool, bool)>(), size)
}

type Guards = (Option<ShedLimits>, Option<IdempotencyRules>, Option<HealthCheck>, Option<Policy>);

fn guards() -> impl Strategy<Value = Guards> {
    let shed = (counts(), 0..=1_000_000_u32).prop_map(|(limit, queue)| ShedLimits { limit, queue });
    let store = prop_oneof![
        Just(KeyStore::Memory),
        "[a-z/ .\"ö:]{1,9}".prop_map(|path| KeyStore::Sqlite(path.into())),
        Just(KeyStore::Redis("rediss://redis.internal:6379/0".to_owned())),
        "[A-Z_][A-Z0-9_]{0,9}".prop_map(KeyStore::RedisFromEnv),
    ];
    let methods = subsequence(vec!["POST", "PATCH", "PUT", "M-SEARCH"], 1..=4);
    let scope = prop_oneof![Just(KeyScope::Credentials), "x-[a-z]{1,9}".prop_map(KeyScope::Header)];
    let parts = (store, scope, methods, times());
    let idempotency = parts.prop_map(|(store, scope, methods, ttl)| IdempotencyRules {
        store,
        scope,
        methods: methods.into_iter().map(str::to_owned).collect(),
        ttl,
    });
    let health = ("/[!-\"$-~]{0,9}", times(), times()).prop_map(|(path, one, other)| HealthCheck {
        path,
        every: one.max(other),
        timeout: one.min(other),
    });
    let endpoint = (option::of(counts()), option::of(breakers())).prop_map(|(most, breaker)| {
        let draft = Policy::draft()
            .attempts(1)
            .without_deadline()
            .without_hedge()
            .without_stall()
            .without_park();
        let draft =
            most.into_iter().fold(draft.budget(Budget::None), |it, most| it.concurrency(most));
        breaker.into_iter().fold(draft, |it, rule| it.breaker(rule)).build().unwrap()
    });
    (option::of(shed), option::of(idempotency), option::of(health), option::of(endpoint))
}

fn tls() -> impl Strategy<Value = (ClientTls, Option<ServerTls>)> {
    let file = || "[a-z/ .\"ö:]{1,9}";
    let identity =
        || (file(), file()).prop_map(|(cert, key)| Identity { cert: cert.into(), key: key.into() });
    let client =
        (option::of(file()), option::of(identity()), option::of("[a-z]{1,9}\\.[a-z]{1,9}"));
    let client = client.prop_map(|(ca, identity, name)| ClientTls {
        ca: ca.map(Into::into),
        identity,
        name,
    });
    let server = (identity(), option::of(file()));
    let server =
        server.prop_map(|(identity, ca)| ServerTls { identity, client_ca: ca.map(Into::into) });
    (client, option::of(server))
}

fn upstream(
    number: u16,
    options: Options,
    guards: Guards,
    tls: (ClientTls, Option<ServerTls>),
) -> Upstream {
    let (to, listen, (make, keep, trust, attempts_header), buffer) = options;
    let port = 10_000 + number;
    let listen = match listen {
        0 => None,
        1 => Some(Address::Unix(format!("/run/{number}.sock").into())),
        2 => Some(Address::Tcp(SocketAddr::from(([127, 0, 0, 1], port)))),
        3 => Some(Address::Tcp(SocketAddr::from(([0_u16; 8], port)))),
        _ => Some(Address::Tcp(SocketAddr::from(([0; 4], 0)))),
    };
    let has_tls = to.iter().any(Target::is_tls);
    let (shed, idempotency, health, endpoint) = guards;
    Upstream {
        listen,
        keys: if make { MissingKeys::Make } else { MissingKeys::Leave },
        buffer,
        host: if keep { HostHeader::Keep } else { HostHeader::Upstream },
        trust,
        attempts_header,
        shed,
        idempotency,
        health,
        endpoint,
        tls: if has_tls { tls.0 } else { ClientTls::default() },
        listen_tls: tls.1,
        ..Upstream::new(&format!("a-{number}_B"), to).unwrap()
    }
}

#[test]
fn names_make_variables() {
    let targets = || vec!["https://api.stripe.com".parse().unwrap()];
    let variable = |name: &str| Upstream::new(name, targets()).unwrap().variable();
    assert_eq!(variable("stripe"), "STRIPE_URL");
    assert_eq!(variable("Card-vault_2"), "CARD_VAULT_2_URL");
    let long = "a".repeat(65);
    for name in ["", "2a", "_a", "a.b", "ä", "a b", &long] {
        assert!(Upstream::new(name, targets()).is_err(), "{name}");
    }
    assert!(Upstream::new("a", Vec::new()).is_err());
}
