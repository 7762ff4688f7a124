use redial_policy::file::{Layer, Queue, Setting};
use redial_policy::rules::review;
use redial_policy::{Format, Found};

use super::{check, clients, finding, found, golden, ours, per_second, routed, windowed, within};

#[test]
fn rules_find_problems_of_budgets() {
    check(ours("budget = 'none'"), "warning no-budget");
    check(ours("budget = 'none'\n[breaker]"), "note no-budget");
    check(ours("attempts = 1\nbudget = 'none'"), "");
    golden(
        within(found(Format::DotNet, "budget = 'none'"), clients(200)),
        "no-budget",
        "no retry budget: when all calls fail, 200 clients send 4 times the normal load to a backend that cannot serve it once",
        "this format has no budget: add a circuit breaker, or retry in a layer that has one",
    );

    let fleet = |capacity| Setting { capacity: per_second(capacity), ..clients(200) };
    check(within(windowed(""), fleet(2000)), "");
    check(within(windowed(""), fleet(1999)), "warning floor-exceeds-share");
    // One in 30 s for each of 200 clients.
    check(within(ours(""), fleet(67)), "");
    check(within(ours(""), fleet(66)), "warning floor-exceeds-share");
    golden(
        within(windowed(""), fleet(1000)),
        "floor-exceeds-share",
        "a floor of 1/s for each of 200 clients adds up to 200/s, 20% of the capacity of 1000/s: the floor is granted even \
         when everything fails",
        "write `budget.window.floor = \"1/2s\"` or less",
    );
}

#[test]
fn rules_find_multipliers_above_the_target() {
    let target = |multiplier| Setting { multiplier: Some(multiplier), ..Setting::default() };
    let window = |ratio: f64| {
        found(Format::Redial, &format!("budget = {{ window = {{ ratio = {ratio} }} }}"))
    };
    check(window(0.5), "");
    check(window(0.51), "warning multiplier-above-target");
    // A slow destination pays for nothing, so only an explicit target counts: (10 + √(10² + 4·20)) ÷ (2·20) retries per call.
    check(ours(""), "");
    check(within(ours(""), target(1.59)), "");
    golden(
        within(ours(""), target(1.5)),
        "multiplier-above-target",
        "with the budget's cost of a retry, retries can multiply the load by 1.59, above the target of 1.5: at most 33.33% of \
         the traffic should be retries, and 36.92% can be",
        "let a retry cost at least 24 tokens",
    );
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
    // The attempts are a bound too.
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
        "with the budget's ratio, retries can multiply the load by 2, above the target of 1.5: at most 33.33% of the traffic \
         should be retries, and 50% can be",
        "write `budget.window.ratio = 0.5`",
    );
}

#[test]
fn rules_find_problems_of_breakers() {
    let window =
        |time: &str| windowed(&format!("breaker = {{ lookback = {{ time = '{time}' }} }}"));
    check(window("1s"), "");
    check(window("999ms"), "warning breaker-window-too-short");
    golden(
        window("900ms"),
        "breaker-window-too-short",
        "the breaker's window is 900ms, and an attempt may take 500ms: when attempts time out, the last one has left the \
         window before the next one ends",
        "write `breaker.lookback.time = \"1s\"` or more",
    );

    let seconds = "attempt_timeout = '1500ms'\nbreaker = { lookback = { time = '2s' } }\nretry_on = ['connect']";
    let help = finding(found(Format::Resilience4j, seconds), "breaker-window-too-short").help;
    assert_eq!(help, "set `slidingWindowSize` to 3 or more");
    // .NET refuses it by itself, and one finding is enough.
    let dotnet = "attempt_timeout = '2s'\nbreaker = { lookback = { time = '3s' } }\nretry_on = ['connect']\nbudget = { window = {} }";
    check(found(Format::DotNet, dotnet), "");

    // 30 retries, so that 40 attempts of calls with 4 have failed.
    let tokens = |calls: u32| {
        ours(&format!(
            "park = 'none'\nbudget = {{ tokens = {{ capacity = 300, cost = 10 }} }}\nbreaker = {{ lookback = {{ calls = {calls} }} }}"
        ))
    };
    check(tokens(80), "");
    check(tokens(82), "note breaker-after-budget");
    golden(
        tokens(100),
        "breaker-after-budget",
        "when all calls fail, a client's budget is used up after 40 failed attempts, and its breaker opens after 50",
        "use a window of at most 80 calls with the failure ratio of 0.5",
    );
    // 10% of 10 calls a second and 1/s for 10 s are 20 retries: 27 attempts.
    let calls = |calls| Setting { calls: per_second(calls), ..clients(10) };
    check(within(windowed("breaker = { lookback = { calls = 54 } }"), calls(100)), "");
    check(
        within(windowed("breaker = { lookback = { calls = 55 } }"), calls(100)),
        "note breaker-after-budget",
    );
    check(windowed("breaker = { lookback = { calls = 55 } }"), "");
    // 4·10·10·0.5 ÷ (4·0.5 + 0.5) = 80 attempts of the last 10 s.
    check(
        within(windowed("breaker = { lookback = { time = '10s' } }"), calls(100)),
        "note breaker-after-budget",
    );
    check(within(windowed("breaker = { lookback = { time = '3s' } }"), calls(100)), "");
    // The default budget has 10 retries, which is 14 attempts: fewer than the breaker needs. But then calls wait.
    check(ours("breaker = {}"), "");
    check(ours("park = 'none'\nbreaker = {}"), "note breaker-after-budget");
    check(ours("park = 'none'\nbreaker = { lookback = { calls = 28 } }"), "");
    // A window of time does not open below its minimum, whatever the rate.
    golden(
        ours("park = 'none'\nbreaker = { lookback = { time = '10s' } }"),
        "breaker-after-budget",
        "when all calls fail, a client's budget is used up after 14 failed attempts, and its breaker opens after 20",
        "let `breaker.minimum_calls` be at most 14: 20 calls are required now",
    );
    check(ours("park = 'none'\nbreaker = { lookback = { time = '10s' }, minimum_calls = 14 }"), "");
}

#[test]
fn rules_find_attempts_that_are_cut_off() {
    let window = |ratio: &str, lines: &str| {
        ours(&format!("budget = {{ window = {{ ratio = {ratio} }} }}\n{lines}"))
    };
    check(window("0.1", ""), "");
    check(window("0.2", ""), "note timeouts-retried");
    check(window("0.2", "deadline = '500ms'"), "");
    check(window("0.2", "retry_on = ['connect', 503]"), "");
    check(found(Format::Redial, "budget = { window = { ratio = 0.2 } }"), "");
    let theirs =
        "attempt_timeout = '1s'\nbudget = { window = { ratio = 0.2 } }\nretry_on = ['timeout']";
    check(routed(found(Format::GatewayApi, theirs), &["GET"], false), "");
    golden(
        window("0.2", ""),
        "timeouts-retried",
        "attempts are given up after 500ms and repeated, and every call pays for that: a backend that is only slow gets 20% \
         more load, and works for callers that have left",
        "write `budget.tokens = { capacity = 200, cost = 20, timeout_cost = 40, throttled_cost = 20, opening = 20, bootstrap \
         = 40, bonus = 10, slowdown = 1.5, floor = \"1/30s\" }`, which only successes fill, or remove `attempt_timeout`",
    );
}

#[test]
fn rules_find_retries_in_several_layers() {
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
        "attempts multiply along the chain: 3 in `edge` × 3 in `mesh` × 3 in `payments` make up to 27 requests at its end \
         for one call at its top",
        "retry only in `payments`, the outermost layer with a budget: set attempts to 1 in `edge` and `mesh`, or \
         `refuse_nested = true` where Redial retries",
    );
    golden(
        within(ours("attempts = 3\nbudget = 'none'"), three.clone()),
        "layered-retries",
        "attempts multiply along the chain: 3 in `edge` × 3 in `mesh` × 3 in `payments` make up to 27 requests at its end \
         for one call at its top",
        "retry only in `edge`, the layer nearest to the user: set attempts to 1 in `mesh` and `payments`, or \
         `refuse_nested = true` where Redial retries",
    );

    // A chain within one file is one finding, at the innermost policy.
    let named =
        |name: &str| Found { name: name.to_owned(), ..within(ours("attempts = 2"), three.clone()) };
    let findings = review(&[named("payments"), named("edge"), named("mesh")]);
    assert_eq!(findings.len(), 1);
    assert!(findings[0].message.contains("make up to 8"), "{}", findings[0].message);
    assert!(findings[0].help.starts_with("retry only in `edge`"), "{}", findings[0].help);
}

#[test]
fn rules_take_the_surroundings_into_account() {
    check(within(ours("attempts = 4"), clients(7_058)), "");
    check(within(ours("attempts = 4"), clients(7_059)), "note sockets-held");
    // A call of 4 attempts of 500 ms takes up to 2.7 s: 10,456 of them in a second hold 28,232 connections.
    let rate = |calls| Setting { calls: per_second(calls), ..Setting::default() };
    check(within(ours("attempts = 4"), rate(10_456)), "");
    golden(
        within(ours("attempts = 4"), rate(10_457)),
        "sockets-held",
        "10457/s calls × 2700ms until the last wait and attempt are over need 28234 connections to one destination: one \
         address has 28232 ports, and a closed one stays in use for a minute",
        "reuse connections, or give the clients more addresses; a client that holds its connection during a backoff makes \
         it worse (Redial does not)",
    );
    let queue = |queue| Setting { queue: Some(queue), ..Setting::default() };
    check(within(ours(""), queue(Queue::Bounded(1_000_000))), "");
    check(within(ours(""), queue(Queue::Unbounded)), "warning unbounded-queue");
}
