use std::time::Duration;

use redial_core::Policy;
use redial_core::admit::BreakerRule;
use redial_policy::file::{
    Address, File, HostHeader, IdempotencyRules, KeyScope, KeyStore, MissingKeys, ProxySettings,
    ShedLimits, Target, Upstream,
};
use redial_policy::{ConfigReading, Found, Inputs, SourceText};

fn read(text: &str) -> File {
    File::read(text).unwrap_or_else(|problem| panic!("{problem}\n{text}"))
}

#[test]
fn a_file_with_an_upstream_and_a_server() {
    let file = read(
        "[policy.payments]\nextends = 'payment-processor'\n[policy.once]\nattempts = 1\n\
         [upstream.stripe]\nto = 'https://api.stripe.com'\nlisten = '127.0.0.1:9001'\npolicy = 'payments'\n\
         keys = 'make'\n\
         [upstream.app]\nto = ['http://127.0.0.1:8000', 'http://[::1]:8001/']\nlisten = '0.0.0.0:8080'\n\
         policy = 'once'\nshed = { limit = 64, queue = 32 }\n\
         idempotency = { store = 'sqlite:keys.db', scope = 'X-User-Id', methods = ['post'] }\n\
         [[route]]\nupstream = 'stripe'\npath = '/v1/refunds/*'\npolicy = 'once'\n",
    );
    assert_eq!(file.proxy, ProxySettings::default());
    let [stripe, app] = &file.upstreams[..] else { panic!("{:?}", file.upstreams) };
    let target = Target::Http { tls: true, host: "api.stripe.com".to_owned(), port: 443 };
    assert_eq!(stripe.to, [target]);
    assert_eq!(stripe.listen, Some("localhost:9001".parse::<Address>().unwrap()));
    assert_eq!((stripe.keys, stripe.trust, stripe.buffer), (MissingKeys::Make, true, 65_536));
    assert_eq!(Some(&file.policy_of(stripe)), file.policy("payments"));
    assert_eq!(app.to[1], Target::Http { tls: false, host: "::1".to_owned(), port: 8001 });
    assert_eq!((app.trust, app.host), (false, HostHeader::Upstream));
    assert_eq!(app.shed, Some(ShedLimits { limit: 64, queue: 32 }));
    let idempotency = IdempotencyRules {
        store: KeyStore::Sqlite("keys.db".into()),
        scope: KeyScope::Header("x-user-id".to_owned()),
        methods: vec!["POST".to_owned()],
        ttl: Duration::from_secs(86_400),
    };
    assert_eq!(app.idempotency, Some(idempotency));
    assert_eq!(file.routes[0].upstream.as_deref(), Some("stripe"));
}

#[test]
fn upstreams_alone_are_a_file() {
    let file = read("[upstream.a]\nto = 'http://a'");
    assert!(file.policies.is_empty());
    let Upstream { listen, trust, endpoint, .. } = &file.upstreams[0];
    assert_eq!((listen, trust, endpoint), (&None, &true, &None));
    assert_eq!(file.policy_of(&file.upstreams[0]), Policy::standard());
    assert_eq!(file.to_toml(), "[upstream.a]\nto = \"http://a\"\n");
}

#[test]
fn a_target_prints_what_a_host_header_has() {
    for (url, authority, text) in [
        ("https://API.example.com:443/", "api.example.com", "https://api.example.com"),
        ("http://a:443", "a:443", "http://a:443"),
        ("http://[0:0::1]:80", "[::1]", "http://[::1]"),
        ("unix:/run/a.sock", "localhost", "unix:/run/a.sock"),
    ] {
        let target: Target = url.parse().unwrap();
        assert_eq!((target.authority().as_str(), target.to_string().as_str()), (authority, text));
    }
}

#[test]
fn several_endpoints_have_breakers_by_default() {
    let endpoint = |rest: &str, count| {
        let file = read(&format!("[upstream.a]\nto = 'http://a'\n{rest}"));
        file.upstreams[0].endpoint_policy(count)
    };
    let breaker = Some(&BreakerRule::default());
    let (one, two) = (endpoint("", 1), endpoint("", 2));
    assert_eq!((one.breaker(), two.breaker()), (None, breaker));
    assert_eq!(endpoint("endpoint = {}", 2).breaker(), None);
    let own = endpoint("endpoint = { concurrency = 9, breaker = { probes = 2 } }", 1);
    assert_eq!(own.breaker(), Some(&BreakerRule { probes: 2, ..BreakerRule::default() }));
    assert_eq!(own.concurrency(), Some(9));
    for policy in [one, two, own] {
        let limits = (policy.attempts(), policy.deadline(), policy.hedge(), policy.stall());
        assert_eq!(limits, (1, None, None, None));
    }
}

#[test]
fn listeners_on_other_addresses_are_different() {
    for listeners in [
        ["127.0.0.1:9001", "127.0.0.2:9001"],
        ["127.0.0.1:9001", "[::1]:9001"],
        ["0.0.0.0:9001", "[::1]:9001"],
        ["[::1]:9001", "0.0.0.0:9001"],
        ["127.0.0.1:0", "127.0.0.1:0"],
        ["unix:/a", "unix:/b"],
    ] {
        let [a, b] = listeners;
        read(&format!(
            "[upstream.a]\nto = 'http://10.0.0.1:9001'\nlisten = '{a}'\n\
             [upstream.b]\nto = 'http://example.com:9001'\nlisten = '{b}'"
        ));
    }
}

fn reading(text: &str) -> ConfigReading {
    let mut inputs = Inputs::new();
    inputs.add(SourceText::new("a.toml", text.into()).unwrap(), None).unwrap();
    inputs.read(None)
}

#[test]
fn an_upstream_without_a_policy_is_reviewed_with_the_default() {
    let text = "[setting]\nslo = '1s'\n[upstream.a]\nto = 'http://a.internal'";
    let reading = reading(text);
    let [Found { name, policy, routes, places, .. }] = &reading.found[..] else {
        panic!("{reading:?}")
    };
    assert_eq!((name.as_str(), policy), ("a", &Policy::standard()));
    assert_eq!(routes[0].host.as_deref(), Some("a.internal"));
    assert_eq!(&text[places.whole().span.range()], "a");
    let findings = redial_policy::rules::review(&reading.found);
    assert_eq!(findings[0].rule.name, "slower-than-slo");
}

/// Elsewhere, a route has the host of its upstream instead of its name.
#[test]
fn routes_of_upstreams_have_their_host_and_keys() {
    let text = "[policy.a]\n[upstream.u]\nto = 'http://one'\nkeys = 'make'\n\
                [upstream.v]\nto = ['http://one', 'http://two']\npolicy = 'a'\n\
                [[route]]\nupstream = 'u'\nmethods = ['POST']\npolicy = 'a'\n\
                [[route]]\nupstream = 'v'\nmethods = ['POST']\npolicy = 'a'\n";
    let routes = reading(text).found.swap_remove(0).routes;
    let hosts: Vec<_> = routes.iter().map(|route| (route.host.as_deref(), route.key)).collect();
    assert_eq!(hosts, [(Some("one"), true), (None, false)]);
    assert!(routes.iter().all(|route| route.upstream.is_none()));
}

#[test]
fn other_files_with_upstreams_are_not_ours() {
    let is_ours = |text: &str| {
        let mut inputs = Inputs::new();
        inputs.add(SourceText::new("a.toml", text.into()).unwrap(), None).unwrap() > 0
    };
    assert!(is_ours("[upstream.a]\nlisten = '127.0.0.1:1'"));
    assert!(is_ours("[upstream]\nto = 'http://a'"));
    assert!(is_ours("[polcy.a]\n[upstream.a]\nto = ['http://a']"));
    assert!(!is_ours("upstream = 'origin'\n[remote]"));
    assert!(!is_ours("[server]\n[upstream.a]\naddress = 'a'"));
    assert!(!is_ours("[server]\n[upstream.a]\nto = 'elsewhere'"));
}

#[test]
fn findings_depend_on_the_policies_of_the_methods() {
    let names = |text: &str| -> Vec<&str> {
        let findings = reading(text).findings.into_iter();
        findings.map(|finding| finding.rule.name).collect()
    };
    let store = "[upstream.a]\nto = 'http://a'\nidempotency = { store = 'memory' }\n";
    let once = "[policy.once]\nattempts = 1\n";
    let route = "[[route]]\npolicy = 'once'\n";
    assert_eq!(names(store), ["retries-below-idempotency"]);
    assert_eq!(names(&format!("{once}{store}{route}")), [""; 0]);
    let all = format!("{once}{store}{route}methods = ['POST', 'PATCH']");
    assert_eq!(names(&all), [""; 0]);
    let some = format!("{once}{store}{route}methods = ['POST']");
    assert_eq!(names(&some), ["retries-below-idempotency"]);
    let below = format!("{once}{store}{route}path = '/a'");
    assert_eq!(names(&below), ["retries-below-idempotency"]);
    let reads = "[policy.reads]\n[upstream.a]\nto = 'http://a'\npolicy = 'once'\n\
                 idempotency = { store = 'memory' }\n[[route]]\nmethods = ['GET']\npolicy = 'reads'\n";
    assert_eq!(names(&format!("{once}{reads}")), [""; 0]);

    let keys = "[upstream.a]\nto = 'http://a'\nkeys = 'make'\n";
    assert_eq!(names(keys), [""; 0]);
    assert_eq!(names(&format!("{keys}buffer = '0B'")), ["keys-without-retries"]);
    assert_eq!(names(&format!("{once}{keys}policy = 'once'")), ["keys-without-retries"]);
    let early = "[policy.early]\nretry_on = ['connect']\nhedge = 'none'\n";
    assert_eq!(names(&format!("{early}{keys}policy = 'early'")), ["keys-without-retries"]);
    assert_eq!(
        names(&format!(
            "{once}{keys}policy = 'once'\n[policy.b]\n[[route]]\npath = '/a'\npolicy = 'b'"
        )),
        [""; 0]
    );

    let base = "[policy.base]\n[policy.a]\nextends = 'base'\n[upstream.a]\nto = 'http://a'\n";
    assert_eq!(names(base), ["unused-policy"]);
    assert_eq!(names(&format!("{base}policy = 'a'")), [""; 0]);
    assert_eq!(names(&format!("{base}[setting]\nchain = ['a']")), [""; 0]);
}
