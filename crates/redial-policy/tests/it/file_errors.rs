use redial_policy::file::File;

/// The message about an invalid file, and the text that it points at.
fn check(text: &str, message: &str, at: &str) {
    let problem = File::read(text).expect_err(text);
    assert_eq!(problem.to_string(), message, "{text}");
    let span = problem.span.map(|span| &text[span.range()]);
    assert_eq!(span.unwrap_or(""), at, "{message}");
}

#[test]
fn hedges_and_fleets() {
    for (text, message, at) in [
        ("hedge = {}", "hedge: needs `after`, `quantile` or `share`", "{}"),
        (
            "hedge = { after = '1s', quantile = 0.9 }",
            "hedge: has more than one of `after`, `quantile` and `share`: keep one",
            "{ after = '1s', quantile = 0.9 }",
        ),
        (
            "extends = 'standard'\nhedge = { after = '1s', share = 0.5 }",
            "hedge: has more than one of `after`, `quantile` and `share`: keep one",
            "{ after = '1s', share = 0.5 }",
        ),
        ("stall = 'off'", "stall: must be a table, or \"none\", but is \"off\"", "'off'"),
        ("hedge.quantile = 95", "hedge.quantile: must be above 0 and below 1, but is 95", "95"),
        (
            "[policy.a]\nfleet = 'shp'\nbudget.window = {}\n[fleet.shop]\nredis = 'redis://h'",
            "no fleet `shp` in this file; did you mean `shop`?",
            "'shp'",
        ),
        (
            "fleet = 'eu/shop'\nbudget.window = {}",
            "no fleet `eu/shop` in this file; say where its ledger is: [fleet.\"eu/shop\"] with redis = \"redis://…\", beside \
             [policy.NAME]",
            "'eu/shop'",
        ),
        (
            "fleet = 'shop'\nbudget.window = {}",
            "no fleet `shop` in this file; say where its ledger is: [fleet.shop] with redis = \"redis://…\", beside \
             [policy.NAME]",
            "'shop'",
        ),
        (
            "[policy.a]\nfleet = 'x'\nbudget = 'none'\n[fleet.x]\nredis = 'redis://h'",
            "policy.a.fleet: a fleet shares a window budget, but this one is none; add budget = { window = {} }",
            "'x'",
        ),
        (
            "[policy.a]\nextends = 'web'\nfleet = 'x'\n[fleet.x]\nredis = 'redis://h'",
            "policy.a.fleet: a fleet shares a window budget, but this one is a budget that retries earn; add budget = \
             { window = {} }",
            "'x'",
        ),
        (
            "[policy.a]\n[fleet.x]\nredis = 'redis://u:pw@h'",
            "fleet.x.redis: must be an address without user and password: write user = \"…\" and password = { file = \
             \"…\" } or { env = \"…\" }, but is redis://…@h",
            "'redis://u:pw@h'",
        ),
        (
            "[policy.a]\n[fleet.x]\nredis = 'redis://h'\npassword = 'pw'",
            "fleet.x.password: must be { file = \"…\" } or { env = \"…\" }",
            "'pw'",
        ),
        ("[policy.a]\n[fleet.x]\nuser = 'u'", "fleet.x: missing field `redis`", "[fleet.x]"),
    ] {
        check(text, message, at);
    }
}

#[test]
fn invalid_values_list_what_is_allowed() {
    for (text, message, at) in [
        ("attempts = -1", "attempts: must be a whole number from 1 to 1000000, but is -1", "-1"),
        ("attempts = 0", "attempts: must be from 1 to 1000000, but is 0", "0"),
        ("attempts = 2.5", "attempts: must be a whole number, but is 2.5", "2.5"),
        ("attempts = 'x'", "attempts: must be a whole number, but is \"x\"", "'x'"),
        (
            "budget.window.bootstrap = 5000000000",
            "budget.window.bootstrap: must be a whole number from 0 to 4294967295, but is 5000000000",
            "5000000000",
        ),
        (
            "deadline = 5",
            "deadline: must be a duration such as \"150ms\", or \"none\", but is 5",
            "5",
        ),
        ("deadline = '0s'", "deadline: must be above zero and at most 366 days, but is 0s", "'0s'"),
        ("backoff = 3", "backoff: must be a table, but is 3", "3"),
        ("require_key = 'yes'", "require_key: must be true or false, but is \"yes\"", "'yes'"),
        ("throttle = { k = nan }", "throttle.k: must be from 1 to 1000, but is NaN", "nan"),
        ("rate = { rate = '5/s' }", "rate: missing field `burst`", "{ rate = '5/s' }"),
        (
            "rate = { rate = '5', burst = 1 }",
            "rate.rate: must be a rate such as 10/s or 1/30s: a whole number, a slash and a duration, but is \"5\"",
            "'5'",
        ),
        (
            "[policy.a.backoff]\nbase = '5s'",
            "policy.a.backoff.base: must be at most backoff.cap, which is 2s, but is 5s",
            "'5s'",
        ),
        // The policy is invalid, not the one that it extends.
        (
            "[policy.a]\nextends = 'web'\nbackoff.cap = '1ms'",
            "policy.a.backoff.base: must be at most backoff.cap, which is 1ms, but is 500ms",
            "backoff",
        ),
        (
            "retry_on = 'connect'",
            "retry_on: must be a list of classes and status codes such as [\"connect\", \"timeout\", 503], but is \"connect\"",
            "'connect'",
        ),
        (
            "retry_on = ['reset', 42]",
            "retry_on[1]: must be a status code (1 to 16 for gRPC, 100 to 599 for HTTP) or one of connect, refused, reset, timeout, throttled, overloaded, server-error, transient, but is 42",
            "42",
        ),
    ] {
        check(text, message, at);
    }
}

#[test]
fn choices_list_the_alternatives() {
    for (text, message, at) in [
        (
            "backoff = { growth = 'expo' }",
            "backoff.growth: must be one of exponential, linear, constant, but is `expo`",
            "'expo'",
        ),
        (
            "backoff.growth = 'exponential'",
            "backoff.growth: `exponential` needs a value: write { exponential = … }",
            "'exponential'",
        ),
        (
            "backoff = { jitter = { full = 1 } }",
            "backoff.jitter: `full` has no value: write \"full\"",
            "{ full = 1 }",
        ),
        (
            "budget = { windo = {} }",
            "budget: must be one of none, window, tokens, throttling, inflight, but is `windo`; did you mean `window`?",
            "windo",
        ),
        (
            "budget = { window = {}, tokens = {} }",
            "budget: must have one of none, window, tokens, throttling, inflight, but has 2",
            "{ window = {}, tokens = {} }",
        ),
        ("hint = 3", "hint: must be one of ignore, honour, but is 3", "3"),
    ] {
        check(text, message, at);
    }
}

#[test]
fn unknown_names_get_a_suggestion() {
    for (text, message, at) in [
        ("attempt = 3", "unknown field `attempt`; did you mean `attempts`?", "attempt"),
        ("extend = 'web'", "unknown field `extend`; did you mean `extends`?", "extend"),
        (
            "[policy.a]\nhint.honour.capp = '1s'",
            "policy.a.hint.honour: unknown field `capp`; did you mean `cap`?",
            "capp",
        ),
        ("[policy.a]\n[rout]", "unknown field `rout`; did you mean `route`?", "rout"),
        (
            "[policy.a]\nextends = 'paymnet-processor'",
            "policy.a.extends: no policy `paymnet-processor` in this file, and no such preset; did you mean `payment-processor`?",
            "'paymnet-processor'",
        ),
        (
            "[policy.a]\nextends = 'x'",
            "policy.a.extends: no policy `x` in this file, and no such preset; use another policy of this file, or a preset: standard, standard-0.1, fraud-score, payment-processor, web, control-plane, player",
            "'x'",
        ),
        (
            "[policy.a]\nextends = 'b'\n[policy.b]\nextends = 'a'",
            "policy.a.extends: cycle: a → b → a; let one of these extend a preset, or nothing",
            "'b'",
        ),
        ("[policy.a]\nextends = 'a'", "policy.a.extends: a policy cannot extend itself", "'a'"),
        ("", "empty file: a policy starts with [policy.NAME]", ""),
        ("[policy]", "no policy: one starts with [policy.NAME]", ""),
        (
            "[policy]\nattempts = 3",
            "policy.attempts: must be a table, but is 3; give the policy a name: write attempts = … below [policy.NAME]",
            "3",
        ),
        ("[policy.'']", "policy: a name must have 1 to 255 bytes and no control characters", "''"),
    ] {
        check(text, message, at);
    }
}

#[test]
fn routes_and_settings_are_checked_too() {
    for (text, message, at) in [
        (
            "[[route]]\npolicy = 'alpa'",
            "route[0].policy: no policy `alpa` in this file; did you mean `alpha`?",
            "'alpa'",
        ),
        (
            "[[route]]\npolicy = 'web'",
            "route[0].policy: no policy `web` in this file; to use the preset, add [policy.web] with extends = \"web\"",
            "'web'",
        ),
        (
            "[[route]]\nhost = 'x'",
            "route[0]: missing field `policy`; name the policy that these requests use",
            "[[route]]",
        ),
        (
            "[[route]]\npolicy = 'alpha'\npath = '/a/*/b'",
            "route[0].path: must be a path such as \"/charges/1\", or a prefix such as \"/charges/*\", but is \"/a/*/b\"",
            "'/a/*/b'",
        ),
        (
            "[[route]]\npolicy = 'alpha'\nmethods = ['GET /']",
            "route[0].methods[0]: must be an HTTP method such as \"GET\", but is \"GET /\"",
            "'GET /'",
        ),
        (
            "[setting]\nslo = 3",
            "setting.slo: must be a duration above zero, such as \"150ms\", but is 3",
            "3",
        ),
        ("[setting]\nclients = 0", "setting.clients: must be at least 1, but is 0", "0"),
        (
            "[setting]\nclients = '3'",
            "setting.clients: must be a whole number, but is \"3\"",
            "'3'",
        ),
        (
            "[setting]\nqueue = 'endless'",
            "setting.queue: must be how many can wait, or \"unbounded\", but is \"endless\"",
            "'endless'",
        ),
        (
            "[setting]\nchain = ['a', 3]",
            "setting.chain[1]: must be a name, or { name = …, attempts = … }, but is 3",
            "3",
        ),
        (
            "[setting]\ncapcity = '3/s'",
            "setting: unknown field `capcity`; did you mean `capacity`?",
            "capcity",
        ),
    ] {
        check(&format!("[policy.alpha]\n{text}"), message, at);
    }
}
