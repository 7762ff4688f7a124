//! Which rule says what, and when it says nothing.

use redial_core::{Policy, Rate};
use redial_policy::file::{Layer, Queue, Route, Setting};
use redial_policy::rules::{self, review};
use redial_policy::{Finding, Format, Found, Place, Places, Severity};

const SECOND: u64 = 1_000_000_000;

/// A policy that nothing can be said about, with these lines.
fn ours(lines: &str) -> Found {
    found(Format::Redial, &format!("attempt_timeout = \"500ms\"\n{lines}"))
}

fn found(format: Format, policy: &str) -> Found {
    Found {
        name: "payments".to_owned(),
        format,
        policy: toml::from_str::<Policy>(policy).unwrap(),
        places: Places::new(Place::default()),
        routes: Vec::new(),
        setting: Setting::default(),
        notes: Vec::new(),
    }
}

fn within(found: Found, setting: Setting) -> Found {
    Found { setting, ..found }
}

fn routed(found: Found, methods: &[&str], key: bool) -> Found {
    let methods = methods.iter().map(|method| (*method).to_owned()).collect();
    let route = Route { methods, key, policy: found.name.clone(), ..Route::default() };
    Found { routes: vec![route], ..found }
}

fn clients(clients: u32) -> Setting {
    Setting { clients: Some(clients), ..Setting::default() }
}

fn per_second(count: u32) -> Option<Rate> {
    Some(Rate::per_second(count))
}

/// `error no-jitter, note no-budget`
fn says(found: Found) -> String {
    let findings = review(&[found]);
    let said = findings.iter().map(|one| format!("{} {}", one.severity.name(), one.rule.name));
    said.collect::<Vec<_>>().join(", ")
}

#[track_caller]
fn check(found: Found, expected: &str) {
    assert_eq!(says(found), expected);
}

/// The only finding of this rule.
fn finding(found: Found, rule: &str) -> Finding {
    let mut findings = review(&[found]);
    findings.retain(|finding| finding.rule.name == rule);
    assert_eq!(findings.len(), 1, "{rule}");
    findings.remove(0)
}

#[track_caller]
fn golden(found: Found, rule: &str, message: &str, help: &str) {
    let finding = finding(found, rule);
    assert_eq!((finding.message.as_str(), finding.help.as_str()), (message, help));
}

#[test]
fn names_are_unique_and_stable() {
    let mut names: Vec<&str> = rules::ALL.iter().map(|rule| rule.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    let kebab = |name: &str| {
        name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    assert!(names.iter().all(|name| kebab(name)));
}

#[test]
fn presets_are_clean() {
    for preset in redial_core::Preset::ALL {
        check(Found { policy: preset.into(), ..ours("") }, "");
    }
}

#[test]
fn decides() {
    check(ours("retry_on = [408, 425, 429, 503]"), "");
    check(ours("retry_on = [404, 503]"), "error retries-client-errors");
    check(ours("retry_on = [3, 14]"), "error retries-client-errors");
    check(ours("attempts = 1\nretry_on = [404]"), "");
    golden(
        ours("retry_on = [400, 402, 503]"),
        "retries-client-errors",
        "400, 402 will be repeated: the server understood the request and refused it, so every retry gets the same answer",
        "take 400, 402 out of `retry_on`; of 4xx only 408, 425 and 429 can pass",
    );
}

#[test]
fn keys() {
    check(routed(ours(""), &["POST"], false), "warning unsafe-without-key");
    check(routed(ours(""), &["POST"], true), "");
    check(routed(ours(""), &["GET", "PUT", "DELETE"], false), "");
    check(routed(ours("require_key = true"), &["PUT"], false), "warning unsafe-without-key");
    check(routed(ours(""), &[], false), "");
    check(routed(ours("retry_on = ['connect', 'refused', 'throttled']"), &["POST"], false), "");
    check(
        routed(ours("retry_on = ['connect', 500]"), &["PATCH"], false),
        "warning retries-500-unsafe",
    );
    check(routed(ours("retry_on = ['connect', 500]"), &["PATCH"], true), "");
    golden(
        routed(ours("retry_on = ['timeout', 503]"), &["POST"], false),
        "unsafe-without-key",
        "POST requests carry no idempotency key, so Redial will not repeat them after timeout, 503: the server may have \
         done the work, and the call fails once",
        "send an idempotency key and say `key = true` in the route, or repeat only what was not processed: connect, \
         refused, throttled",
    );
}

/// Proxies and libraries repeat what they are told to, so it is an error there, and so is not to know.
#[test]
fn keys_where_nothing_minds_them() {
    let istio = |policy: &str| found(Format::Istio, &format!("deadline = '5s'\n{policy}"));
    check(istio(""), "error unsafe-without-key");
    check(routed(istio(""), &[], false), "error unsafe-without-key");
    check(routed(istio(""), &["GET"], false), "");
    check(routed(istio("retry_on = [500]"), &["POST"], false), "error retries-500-unsafe");
    // UNAVAILABLE in place of a response means that the server has not begun.
    check(found(Format::Grpc, "retry_on = [14]"), "");
    check(found(Format::Grpc, "retry_on = [4]"), "error unsafe-without-key");
    golden(
        istio("retry_on = ['reset', 503]"),
        "unsafe-without-key",
        "requests of every method will be repeated after reset, 503, and nothing says that they carry an idempotency key: \
         the server may have done the work, and then does it twice",
        "send a key that the server knows, the same for every attempt, give these requests a route without retries, or \
         repeat only what was not processed: connect, refused, throttled",
    );
}

#[test]
fn jitter() {
    let none = || ours("backoff = { jitter = 'none' }");
    check(none(), "error no-jitter");
    check(within(none(), clients(1)), "note no-jitter");
    check(within(none(), clients(500)), "error no-jitter");
    check(ours("backoff = { jitter = { around = 0.0 } }"), "error no-jitter");
    check(
        ours("backoff = { jitter = 'decorrelated', base = '1s', cap = '1s' }"),
        "error no-jitter",
    );
    let spread = Setting { synchronised: Some(false), ..Setting::default() };
    check(within(none(), spread), "warning no-jitter");
    golden(
        within(none(), clients(500)),
        "no-jitter",
        "every caller waits exactly 100ms before its first retry: 500 clients that fail together come back together",
        "write `backoff.jitter = \"full\"`",
    );

    let synchronised = Setting { synchronised: Some(true), ..Setting::default() };
    for jitter in ["'equal'", "{ around = 0.2 }", "{ added = '10ms' }"] {
        let partial = || ours(&format!("backoff = {{ jitter = {jitter} }}"));
        check(partial(), "");
        check(within(partial(), clients(99)), "");
        check(within(partial(), clients(100)), "warning partial-jitter");
        check(within(partial(), synchronised.clone()), "warning partial-jitter");
    }
    for jitter in ["'full'", "'decorrelated'", "{ around = 1.0 }"] {
        check(within(ours(&format!("backoff = {{ jitter = {jitter} }}")), clients(500)), "");
    }
    golden(
        within(ours("backoff = { jitter = 'equal' }"), clients(500)),
        "partial-jitter",
        "the first retry waits 50ms to 100ms: 500 clients that fail together all come back within 50ms",
        "write `backoff.jitter = \"full\"` or \"decorrelated\"",
    );
}

#[test]
fn caps() {
    check(ours("attempts = 5"), "");
    check(ours("attempts = 6"), "warning too-many-attempts");
    check(ours("attempts = 1000\ndeadline = 'none'"), "error too-many-attempts");
    golden(
        found(Format::Envoy, "attempts = 11"),
        "too-many-attempts",
        "a call makes up to 11 attempts: when everything fails, that multiplies the load by 11",
        "set `num_retries` to 3, which is 4 attempts",
    );

    let capped = |base: &str, cap: &str, deadline: &str| {
        ours(&format!("deadline = '{deadline}'\nbackoff = {{ base = '{base}', cap = '{cap}' }}"))
    };
    check(capped("30s", "60s", "1h"), "");
    check(capped("30s", "61s", "1h"), "warning delay-uncapped");
    check(capped("100ms", "2h", "none"), "note delay-uncapped");
    check(capped("1h", "366d", "none"), "error delay-uncapped");
    golden(
        capped("30s", "2m", "1h"),
        "delay-uncapped",
        "a long delay cap: a caller can wait 2m for one retry",
        "write `backoff.cap = \"20s\"`",
    );
}

#[test]
fn timers() {
    let ticks = |ms: u64| Setting { timer: Some(ms * 1_000_000), ..Setting::default() };
    let base = |base: &str| ours(&format!("backoff = {{ base = '{base}' }}"));
    check(base("1ms"), "");
    check(base("999us"), "warning base-below-timer");
    check(within(base("10ms"), ticks(15)), "warning base-below-timer");
    check(within(base("15ms"), ticks(15)), "");
    golden(
        within(base("10ms"), ticks(15)),
        "base-below-timer",
        "the first wait is at most 10ms, and the timer ticks every 15ms: the draws all become the same tick",
        "write `backoff.base = \"150ms\"`",
    );
}

#[test]
fn hints() {
    check(ours("hint = 'ignore'"), "warning hint-ignored");
    check(ours("hint = 'ignore'\nretry_on = ['connect', 'timeout']"), "");
    check(routed(found(Format::Istio, "hint = 'ignore'"), &["GET"], false), "note hint-ignored");
    check(ours("hint = { honour = { cap = '10m' } }"), "");
    check(ours("deadline = 'none'\nhint = { honour = { cap = '10m' } }"), "warning hint-uncapped");
    golden(
        ours("hint = 'ignore'\nretry_on = [429]"),
        "hint-ignored",
        "429 will be repeated after the policy's own wait, whatever its Retry-After says: a server that asks for 45s and \
         hears from the caller within 100ms may ban it",
        "write `hint.honour.cap = \"60s\"`",
    );
}

#[test]
fn time() {
    let slo = |slo| Setting { slo: Some(slo), ..Setting::default() };
    let quick =
        || ours("attempt_timeout = '150ms'".replace("attempt_timeout", "connect_timeout").as_str());
    // 4 × 500 ms + 100 + 200 + 400 ms.
    check(within(quick(), slo(30 * SECOND)), "");
    check(within(quick(), slo(9 * SECOND)), "note slower-than-slo");
    check(within(quick(), slo(8 * SECOND)), "error slower-than-slo");
    golden(
        within(quick(), slo(2 * SECOND)),
        "slower-than-slo",
        "a call of 4 attempts takes 2700ms at worst, and the user is promised 2s: a third of that is 666ms",
        "write `deadline = \"666ms\"`, or make fewer attempts",
    );
    golden(
        within(found(Format::Grpc, "deadline = 'none'\nretry_on = [14]"), slo(2 * SECOND)),
        "slower-than-slo",
        "a call of 4 attempts can take for ever, and the user is promised 2s: a third of that is 666ms",
        "set `timeout` to 666ms, or make fewer attempts",
    );

    check(
        found(Format::Redial, "attempt_timeout = '10s'"),
        "warning attempt-timeout-not-below-deadline",
    );
    check(found(Format::Redial, "attempt_timeout = '9999ms'"), "");
    check(found(Format::Redial, "deadline = 'none'"), "warning no-timeout");
    check(found(Format::Redial, "attempts = 1\ndeadline = 'none'"), "warning no-timeout");
    check(found(Format::Redial, "deadline = 'none'\nattempt_timeout = '1s'"), "");
}

#[test]
fn delays() {
    let waits = |jitter: &str, deadline: &str| {
        ours(&format!(
            "deadline = '{deadline}'\nbackoff = {{ base = '1s', cap = '60s', jitter = '{jitter}' }}"
        ))
    };
    // Waits of 1, 2 and 4 s: 3.5 s on average with full jitter.
    check(waits("full", "3501ms"), "");
    check(waits("full", "3500ms"), "warning delays-do-not-fit");
    check(waits("equal", "5251ms"), "");
    golden(
        waits("full", "3s"),
        "delays-do-not-fit",
        "of 4 attempts only 3 can happen: the waits alone are on average longer than the deadline of 3s",
        "write `attempts = 3`, or shorten the waits",
    );
    golden(
        waits("equal", "3s"),
        "delays-do-not-fit",
        "of 4 attempts only 3 can happen: the waits alone are always longer than the deadline of 3s",
        "write `attempts = 3`, or shorten the waits",
    );
}

#[test]
fn budgets() {
    check(ours("budget = 'none'"), "warning no-budget");
    check(ours("budget = 'none'\n[breaker]"), "note no-budget");
    check(ours("attempts = 1\nbudget = 'none'"), "");
    golden(
        within(found(Format::DotNet, "budget = 'none'"), clients(200)),
        "no-budget",
        "no retry budget: when everything fails, 200 clients send 4 times as much to a backend that cannot serve it once",
        "this format has no budget: add a circuit breaker, or retry in a layer that has one",
    );

    let fleet = |capacity| Setting { capacity: per_second(capacity), ..clients(200) };
    check(within(ours(""), fleet(2000)), "");
    check(within(ours(""), fleet(1999)), "warning floor-exceeds-share");
    golden(
        within(ours(""), fleet(1000)),
        "floor-exceeds-share",
        "a floor of 1/s for each of 200 clients is 200/s together, 20% of the capacity of 1000/s: the floor is granted when \
         nothing else is",
        "write `budget.window.floor = \"1/2s\"` or less",
    );
}

#[test]
fn multipliers() {
    let target = |multiplier| Setting { multiplier: Some(multiplier), ..Setting::default() };
    let window = |ratio: f64| ours(&format!("budget = {{ window = {{ ratio = {ratio} }} }}"));
    check(window(0.5), "");
    check(window(0.51), "warning multiplier-above-target");
    check(within(window(0.1), target(1.1)), "");
    check(within(window(0.2), target(1.1)), "warning multiplier-above-target");
    // 1000 calls a second of 1000 clients with a floor of 1/s each: the floor doubles the load.
    let many = Setting { calls: per_second(1000), ..clients(1000) };
    check(within(window(0.1), many), "warning multiplier-above-target");
    check(ours("budget = { tokens = { capacity = 500, cost = 5 } }"), "");
    check(
        ours("budget = { tokens = { capacity = 500, cost = 3 } }"),
        "warning multiplier-above-target",
    );
    check(ours("budget = { throttling = { capacity = 10, ratio = 0.1 } }"), "");
    check(
        ours("budget = { throttling = { capacity = 10, ratio = 1.0 } }"),
        "warning multiplier-above-target",
    );
    check(ours("budget = { inflight = { ratio = 0.2 } }"), "");
    // Attempts bound it too.
    check(
        within(
            ours("attempts = 2\nbudget = { throttling = { capacity = 10, ratio = 100.0 } }"),
            target(2.0),
        ),
        "",
    );
    check(within(ours("budget = 'none'"), target(4.0)), "warning no-budget");
    check(
        within(ours("budget = 'none'"), target(3.9)),
        "warning multiplier-above-target, warning no-budget",
    );
    golden(
        window(1.0),
        "multiplier-above-target",
        "with the budget's ratio, retries may multiply the load by 2, and the target is 1.5: 33.33% of the traffic may be \
         retries, and 50% can be",
        "write `budget.window.ratio = 0.5`, or lower the floor",
    );
}

#[test]
fn breakers() {
    let window = |time: &str| ours(&format!("breaker = {{ lookback = {{ time = '{time}' }} }}"));
    check(window("1s"), "");
    check(window("999ms"), "warning breaker-window-too-short");
    golden(
        window("900ms"),
        "breaker-window-too-short",
        "the breaker looks back on 900ms, and an attempt may take 500ms: when attempts time out, it has forgotten the \
         last one before the next is over",
        "write `breaker.lookback.time = \"1s\"` or more",
    );

    // 30 retries, so that 40 attempts of calls with 4 have failed.
    let tokens = |calls: u32| {
        ours(&format!(
            "budget = {{ tokens = {{ capacity = 300, cost = 10 }} }}\nbreaker = {{ lookback = {{ calls = {calls} }} }}"
        ))
    };
    check(tokens(80), "");
    check(tokens(82), "note breaker-after-budget");
    golden(
        tokens(100),
        "breaker-after-budget",
        "when everything fails, the budget of a client is dry after 40 failed attempts, and its breaker opens after 50",
        "look back on 80 calls, with a failure ratio of 0.5, or fewer",
    );
    // 10% of 10 calls a second and 1/s for 10 s are 20 retries: 27 attempts.
    let calls = |calls| Setting { calls: per_second(calls), ..clients(10) };
    check(within(ours("breaker = { lookback = { calls = 54 } }"), calls(100)), "");
    check(
        within(ours("breaker = { lookback = { calls = 55 } }"), calls(100)),
        "note breaker-after-budget",
    );
    check(ours("breaker = { lookback = { calls = 55 } }"), "");
    // 4·10·10·0.5 ÷ (4·0.5 + 0.5) = 80 attempts of the last 10 s.
    check(
        within(ours("breaker = { lookback = { time = '10s' } }"), calls(100)),
        "note breaker-after-budget",
    );
    check(within(ours("breaker = { lookback = { time = '3s' } }"), calls(100)), "");
}

#[test]
fn layers() {
    let layer = |name: &str, attempts| Layer { name: name.to_owned(), attempts };
    let chain = |layers: &[(&str, Option<u32>)]| Setting {
        chain: layers.iter().map(|(name, attempts)| layer(name, *attempts)).collect(),
        ..Setting::default()
    };
    let three = chain(&[("edge", Some(3)), ("mesh", Some(3)), ("payments", None)]);
    check(within(ours("attempts = 3"), three.clone()), "warning layered-retries");
    check(
        within(
            ours("attempts = 3\nrefuse_nested = true"),
            chain(&[("edge", Some(3)), ("payments", None)]),
        ),
        "",
    );
    check(within(ours(""), chain(&[("edge", None), ("payments", None)])), "");
    check(within(ours(""), chain(&[("edge", Some(3)), ("mesh", Some(3))])), "");
    golden(
        within(ours("attempts = 3"), three.clone()),
        "layered-retries",
        "attempts multiply along the chain: 3 in `edge` × 3 in `mesh` × 3 in `payments` make 27 at the end of it for one \
         request from the top",
        "retry in `payments` only, the outermost with a budget: attempts = 1 in `edge` and `mesh`, or `refuse_nested = true` \
         where Redial retries",
    );
    golden(
        within(ours("attempts = 3\nbudget = 'none'"), three.clone()),
        "layered-retries",
        "attempts multiply along the chain: 3 in `edge` × 3 in `mesh` × 3 in `payments` make 27 at the end of it for one \
         request from the top",
        "retry in `edge` only, the one nearest to the user: attempts = 1 in `mesh` and `payments`, or `refuse_nested = \
         true` where Redial retries",
    );

    // A chain within one file is one finding, at the innermost policy.
    let named =
        |name: &str| Found { name: name.to_owned(), ..within(ours("attempts = 2"), three.clone()) };
    let findings = review(&[named("payments"), named("edge"), named("mesh")]);
    assert_eq!(findings.len(), 1);
    assert!(findings[0].message.contains("make 8"), "{}", findings[0].message);
    assert!(findings[0].help.starts_with("retry in `edge` only"), "{}", findings[0].help);
}

#[test]
fn surroundings() {
    check(within(ours("attempts = 4"), clients(7_058)), "");
    check(within(ours("attempts = 4"), clients(7_059)), "note sockets-held");
    let queue = |queue| Setting { queue: Some(queue), ..Setting::default() };
    check(within(ours(""), queue(Queue::Bounded(1_000_000))), "");
    check(within(ours(""), queue(Queue::Unbounded)), "warning unbounded-queue");
}

#[test]
fn a_rule_says_as_much_as_its_severity_at_most_unless_it_says_so() {
    let soft = finding(within(ours("backoff = { jitter = 'none' }"), clients(1)), "no-jitter");
    assert_eq!((soft.rule.severity, soft.severity), (Severity::Error, Severity::Note));
    let hard = finding(ours("attempts = 100000"), "too-many-attempts");
    assert_eq!((hard.rule.severity, hard.severity), (Severity::Warning, Severity::Error));
}
