use std::collections::BTreeSet;

use boon::{Compiler, SchemaIndex, Schemas};
use proptest::prelude::*;
use redial_policy::SCHEMA;
use redial_policy::file::File;
use serde_json::Value;

use crate::policies::files;

struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    fn new() -> Self {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.enable_format_assertions();
        compiler.add_resource("redial.json", serde_json::from_str(SCHEMA).unwrap()).unwrap();
        let index = compiler.compile("redial.json", &mut schemas).unwrap();
        Self { schemas, index }
    }

    fn accepts(&self, text: &str) -> bool {
        let value: toml::Value = toml::from_str(text).unwrap();
        self.schemas.validate(&serde_json::to_value(value).unwrap(), self.index).is_ok()
    }
}

#[test]
fn it_accepts_printed_files() {
    let schema = Schema::new();
    proptest!(ProptestConfig::with_cases(64), |(file in files())| {
        let text = file.to_toml();
        prop_assert!(schema.accepts(&text), "{}", text);
    });
}

/// Both accept the first texts, and refuse the others.
fn agree(good: &[impl AsRef<str>], bad: &[impl AsRef<str>]) {
    let schema = Schema::new();
    for good in good.iter().map(AsRef::as_ref) {
        assert!(File::read(good).is_ok(), "{good}: {:?}", File::read(good));
        assert!(schema.accepts(good), "{good}");
    }
    for bad in bad.iter().map(AsRef::as_ref) {
        assert!(File::read(bad).is_err(), "{bad}");
        assert!(!schema.accepts(bad), "{bad}");
    }
}

#[test]
fn it_agrees_with_the_reader() {
    let good = [
        "attempts = 1",
        "[policy.a]\nextends = 'web'\nbreaker = 'none'\nconcurrency = 'none'",
        "deadline = ' 1h 30m '",
        "deadline = '1.5s'",
        "budget.window.floor = '1/5s'",
        "budget.window.floor = '30 / 1m30s'",
        "budget = { tokens = {} }",
        "hint = { honour = { spread = 'none' } }",
        "[policy.a]\n[[route]]\npolicy = 'a'\npath = '/*'\nmethods = ['get']",
    ];
    let bad = [
        "attempts = 0",
        "attempts = 1000001",
        "attempts = 2.5",
        "attempts = '3'",
        "attempt = 3",
        "deadline = '5 s'",
        "deadline = '5'",
        "deadline = 5",
        "deadline = ''",
        "backoff = { base = 'none' }",
        "backoff = { growth = 'exponential' }",
        "backoff = { growth = { exponential = 0.5 } }",
        "backoff = { jitter = { around = 2 } }",
        "backoff = { jitter = { around = 0.1, added = '1s' } }",
        "backoff = { factor = 2 }",
        "hint = 'honour'",
        "hint = { honour = { too_long = 'wait' } }",
        "budget = 'window'",
        "budget = {}",
        "budget = { window = {}, tokens = {} }",
        "budget = { window = { floor = '1' } }",
        "budget = { throttling = { capacity = 2000, ratio = 0.1 } }",
        "budget = { inflight = { floor = -1 } }",
        "budget = { tokens = { slowdown = 0.5 } }",
        "budget = { tokens = { floor = 1 } }",
        "retry_on = ['permanent']",
        "retry_on = [42]",
        "retry_on = 503",
        "breaker = { probes = 0 }",
        "breaker = { failure_ratio = 0 }",
        "breaker = { lookback = 'calls' }",
        "breaker = true",
        "throttle = { k = 0.5 }",
        "concurrency = 0",
        "require_key = 'yes'",
        "[policy]",
        "[policy.a]\n[[route]]\nhost = 'x'",
        "[policy.a]\n[[route]]\npolicy = 'a'\npath = 'x'",
        "[policy.a]\n[[route]]\npolicy = 'a'\npath = '/a*b'",
        "[policy.a]\n[[route]]\npolicy = 'a'\nmethods = ['GET /']",
        "[[route]]\npolicy = 'a'",
        "[policy.a]\n[setting]\nslo = 'none'",
        "[policy.a]\n[setting]\nclients = 0",
        "[policy.a]\n[setting]\nqueue = 'endless'",
        "[policy.a]\n[setting]\nmultiplier = 0.5",
        "[policy.a]\n[setting]\nchain = [{ attempts = 3 }]",
        "[policy.a]\nattempts = 3\n[other]",
    ];
    agree(&good, &bad);
}

#[test]
fn it_agrees_on_hedges_and_fleets() {
    let good = [
        "hedge = { quantile = 0.95, multiple = 1.5 }",
        "hedge = { share = 0.5, overtaken = true }",
        "[policy.a]\nhedge = 'none'\nfleet = 'none'\nstall = 'none'\npark = 'none'",
        "[policy.a]\nfleet = 'x/y:1'\nbudget.window = {}\n[fleet.'x/y:1']\nredis = 'redis://[::1]:6379/0'",
    ];
    let bad = [
        "hedge = { after = '1s', quantile = 0.9 }",
        "hedge = { quantile = 1 }",
        "hedge = { quantile = 0.9, share = 0.5 }",
        "hedge = { share = 1 }",
        "hedge = 'off'",
        "stall = { most = 2 }",
        "stall = { timeouts = 0 }",
        "park = { most = 0 }",
        "park = { outage = 2 }",
        "hedge = { after = '1s', multiple = 0 }",
        "hedge = { after = '1s', most = 11 }",
        "[policy.a]\nfleet = 'x y'",
        "[policy.a]\n[fleet.x]",
        "[policy.a]\n[fleet.'x y']\nredis = 'redis://h'",
        "[policy.a]\n[fleet.x]\nredis = 'http://h'",
        "[policy.a]\n[fleet.x]\nredis = 'redis://:secret@h'",
        "[policy.a]\n[fleet.x]\nredis = 'redis://h'\nuser = 'u'",
        "[policy.a]\n[fleet.x]\nredis = 'redis://h'\npassword = 'secret'",
        "[policy.a]\n[fleet.x]\nredis = 'redis://h'\npassword = { env = 'A', file = 'b' }",
    ];
    agree(&good, &bad);
}

#[test]
fn it_agrees_on_upstreams() {
    let good = [
        "to = 'http://[::1]:8000/'\nlisten = '[::]:80'",
        "to = ['http://a', 'https://a']\nlisten = 'localhost:0'\nbuffer = '0B'",
        "to = 'unix:/run/a.sock'\nlisten = 'unix:/run/b.sock'\nendpoint = {}",
        "to = 'http://a_b.c.'\nidempotency = { store = 'rediss://h', methods = ['put'] }",
        "to = 'http://a'\nhealth = { path = '/a?b=c', every = '500ms' }",
    ];
    let bad = [
        "listen = '127.0.0.1:1'",
        "to = []",
        "to = 'a.example'",
        "to = 'ftp://a'",
        "to = 'HTTP://a'",
        "to = 'http://'",
        "to = 'http://a..b'",
        "to = 'http://a/v1'",
        "to = 'http://u:p@a'",
        "to = 'http://a:0'",
        "to = 'http://a:080'",
        "to = 'http://ä'",
        "to = 'unix:run/a.sock'",
        "to = ['http://a', 'http://a']",
        "to = 'http://a'\nlisten = '9001'",
        "to = 'http://a'\nlisten = ':9001'",
        "to = 'http://a'\nlisten = 'example.com:9001'",
        "to = 'http://a'\nlisten = 'http://127.0.0.1:9001'",
        "to = 'http://a'\nkeys = true",
        "to = 'http://a'\nbuffer = 65536",
        "to = 'http://a'\nbuffer = '64KB'",
        "to = 'http://a'\nhost = 'a'",
        "to = 'http://a'\nshed = { queue = 1 }",
        "to = 'http://a'\nshed = { limit = 0 }",
        "to = 'http://a'\nidempotency = {}",
        "to = 'http://a'\nidempotency = { store = 'redis:' }",
        "to = 'http://a'\nidempotency = { store = 'redis:A-B' }",
        "to = 'http://a'\nidempotency = { store = 'sqlite:' }",
        "to = 'http://a'\nidempotency = { store = 'redis://:pw@h' }",
        "to = 'http://a'\nidempotency = { store = 'memory', scope = 'user id' }",
        "to = 'http://a'\nidempotency = { store = 'memory', methods = [] }",
        "to = 'http://a'\nidempotency = { store = 'memory', ttl = '0s' }",
        "to = 'http://a'\nhealth = { path = 'healthz' }",
        "to = 'http://a'\nhealth = { path = '/a#b' }",
        "to = 'http://a'\nhealth = { every = '5s' }",
        "to = 'http://a'\nendpoint = { attempts = 2 }",
        "to = 'http://a'\nendpoint = { concurrency = 0 }",
        "to = 'https://a'\ntls = { cert = 'c' }",
        "to = 'https://a'\ntls = { name = 'a b' }",
        "to = 'http://a'\nlisten_tls = { cert = 'c' }",
        "to = 'http://a'\nlisten_tls = {}",
        "to = 'http://a'\n[upstream.'b.c']\nto = 'http://b'",
        "to = 'http://a'\n[upstream.1]\nto = 'http://b'",
        "to = 'http://a'\n[proxy]\nadmin = '0.0.0.0:9900'",
        "to = 'http://a'\n[proxy]\nthreads = 0",
        "to = 'http://a'\n[proxy]\nreplay = '0MiB'",
        "to = 'http://a'\n[proxy]\ndrain = '0s'",
        "to = 'http://a'\n[proxy]\nlog = 'xml'",
    ];
    let upstream = |rest: &&str| format!("[upstream.a]\n{rest}");
    let (good, bad) = (good.iter().map(upstream), bad.iter().map(upstream));
    let (mut good, mut bad): (Vec<_>, Vec<_>) = (good.collect(), bad.collect());
    good.push("[policy.a]\n[proxy]\nadmin = 'none'".to_owned());
    bad.extend(
        ["[upstream]", "[proxy]", "[proxy]\nthreads = 2", "[setting]\n[proxy]"].map(str::to_owned),
    );
    agree(&good, &bad);
}

/// Files with every field.
const FULL: &[&str] = &[
    "extends = 'web'
     attempts = 3
     attempt_timeout = '1s'
     connect_timeout = '1s'
     deadline = '9s'
     backoff = { base = '1s', cap = '2s', growth = { exponential = 3 }, jitter = { around = 0.2 }, clip = true }
     hint = { honour = { cap = '1s', too_long = 'clip', spread = 0.2 } }
     budget = { window = { ratio = 0.2, floor = '2/s', ttl = '9s', deposit = 'success', bootstrap = 1 } }
     retry_on = [503]
     require_key = true
     refuse_nested = true
     breaker = { lookback = { calls = 9 }, failure_ratio = 0.4, slow_ratio = 0.4, slow_after = '1s', minimum_calls = 2, open = '1s', open_spread = 0.2, probes = 2 }
     throttle = { k = 3, window = '1s' }
     rate = { rate = '1/s', burst = 2 }
     concurrency = 3
     cooldown = { every = '1s', places = 3 }
     stall = { timeouts = 3, most = 0.2 }
     park = { outage = 0.2, most = 9 }",
    "backoff = { jitter = { added = '1s' } }
     budget = { tokens = { capacity = 9, cost = 2, timeout_cost = 3, throttled_cost = 4, opening = 1, bootstrap = 2, bonus = 1, slowdown = 2, floor = '1/5s' } }
     hedge = { share = 0.2, overtaken = true }
     breaker = { lookback = { time = '9s' } }",
    "budget = { throttling = { capacity = 9, ratio = 0.2 } }
     hedge = { after = '1s', multiple = 2, most = 2 }",
    "hedge = { quantile = 0.9 }
     backoff = { jitter = { normal = 0.2 } }",
    "[policy.a]
     fleet = 'f'
     budget = { window = {} }
     [fleet.f]
     redis = 'rediss://h'
     user = 'u'
     password = { file = '/x' }
     ca_file = '/ca'
     [fleet.a]
     redis = 'redis://h'
     password = { env = 'X' }",
    "budget = { inflight = { ratio = 0.3, floor = 2 } }
     setting = { slo = '2s', clients = 3, calls = '1/s', capacity = '2/s', multiplier = 2, synchronised = true, timer = '1ms', queue = 3, chain = [{ name = 'a', attempts = 3 }] }",
    "[policy.a]
     [[route]]
     host = 'h'
     path = '/'
     methods = ['GET']
     key = true
     policy = 'a'
     [setting]
     slo = '1s'",
    "[proxy]
     admin = '127.0.0.1:1'
     threads = 2
     connections = 1
     parked = 1
     replay = '1MiB'
     drain = '1s'
     log = 'json'
     [policy.a]
     [upstream.a]
     to = 'https://a'
     listen = '0.0.0.0:80'
     policy = 'a'
     keys = 'make'
     buffer = '1KiB'
     host = 'keep'
     trust = true
     attempts_header = true
     shed = { limit = 1, queue = 2 }
     idempotency = { store = 'memory', scope = 'X-User-Id', methods = ['PUT'], ttl = '1h' }
     health = { path = '/', every = '2s', timeout = '2s' }
     endpoint = { concurrency = 1, breaker = {} }
     tls = { ca = 'a', cert = 'b', key = 'c', name = 'd' }
     listen_tls = { cert = 'a', key = 'b', client_ca = 'c' }
     [[route]]
     upstream = 'a'
     policy = 'a'",
];

/// The names of fields in a value, at any depth.
fn fields(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                names.insert(name.clone());
                fields(value, names);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| fields(value, names)),
        _ => {}
    }
}

/// The names of fields that a schema describes.
fn described(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::Object(properties)) = object.get("properties") {
                names.extend(properties.keys().cloned());
            }
            object.values().for_each(|value| described(value, names));
        }
        Value::Array(list) => list.iter().for_each(|value| described(value, names)),
        _ => {}
    }
}

#[test]
fn it_describes_exactly_the_fields_of_a_file() {
    let (schema, mut used) = (Schema::new(), BTreeSet::new());
    for text in FULL {
        assert!(File::read(text).is_ok(), "{text}: {:?}", File::read(text));
        assert!(schema.accepts(text), "{text}");
        let printed = File::read(text).unwrap().to_toml();
        for text in [*text, printed.as_str()] {
            let value: toml::Value = toml::from_str(text).unwrap();
            fields(&serde_json::to_value(value).unwrap(), &mut used);
        }
    }
    used.retain(|name| !["a", "f"].contains(&name.as_str()));
    let mut known = BTreeSet::new();
    described(&serde_json::from_str(SCHEMA).unwrap(), &mut known);
    assert_eq!(used, known);
}

/// A field at the schema's default is the same as an absent field.
#[test]
fn its_defaults_are_those_of_the_policy() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for (path, empty, pointer) in [
        ("", "attempts = 4", "/$defs/policy"),
        ("backoff.", "backoff = {}", "/$defs/backoff"),
        ("hint.honour.", "hint = { honour = {} }", "/$defs/hint/anyOf/1/properties/honour"),
        ("budget.window.", "budget.window = {}", "/$defs/budget/anyOf/1/properties/window"),
        ("budget.tokens.", "budget.tokens = {}", "/$defs/budget/anyOf/2/properties/tokens"),
        ("budget.inflight.", "budget.inflight = {}", "/$defs/budget/anyOf/4/properties/inflight"),
        ("breaker.", "breaker = {}", "/$defs/breaker"),
        ("throttle.", "throttle = {}", "/$defs/throttle"),
        ("stall.", "stall = {}", "/$defs/stall"),
        ("park.", "park = {}", "/$defs/park"),
        ("cooldown.every = '1s'\ncooldown.", "cooldown.every = '1s'", "/$defs/cooldown"),
        ("hedge.after = '1s'\nhedge.", "hedge.after = '1s'", "/$defs/hedge"),
        ("policy.a = {}\nproxy.", "policy.a = {}", "/$defs/proxy"),
        (
            "upstream.a.to = 'http://a'\nupstream.a.",
            "upstream.a.to = 'http://a'",
            "/$defs/upstream",
        ),
        (
            "upstream.a.to = 'http://a'\nupstream.a.health.path = '/'\nupstream.a.health.",
            "upstream.a.to = 'http://a'\nupstream.a.health.path = '/'",
            "/$defs/health",
        ),
        (
            "upstream.a.to = 'http://a'\nupstream.a.idempotency.store = 'memory'\nupstream.a.idempotency.",
            "upstream.a.to = 'http://a'\nupstream.a.idempotency.store = 'memory'",
            "/$defs/idempotency",
        ),
    ] {
        let properties = schema.pointer(pointer).unwrap()["properties"].as_object().unwrap();
        let mut text = String::new();
        for (name, property) in properties.iter() {
            let Some(default) = property.get("default") else { continue };
            let default = toml::Value::try_from(default).unwrap();
            let path = if text.is_empty() { path } else { path.rsplit('\n').next().unwrap() };
            text += &format!("{path}{name} = {default}\n");
        }
        assert_eq!(File::read(&text), File::read(empty), "{text}");
        assert!(text.lines().count() > 0);
    }
}
