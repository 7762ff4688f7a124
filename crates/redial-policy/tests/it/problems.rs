//! All problems of a file are reported at once, and misspelt names get a question.

use redial_policy::{ConfigReading, Inputs, SourceText};

fn read(name: &str, text: &str) -> ConfigReading {
    let mut inputs = Inputs::new();
    inputs.add(SourceText::new(name, text.as_bytes().to_vec()).unwrap(), None).unwrap();
    inputs.read(None)
}

#[track_caller]
fn problems(name: &str, text: &str, expected: &[&str]) {
    let reading = read(name, text);
    let messages: Vec<&str> = reading.problems.iter().map(|(_, it)| it.message.as_str()).collect();
    let is_same = messages.len() == expected.len()
        && messages.iter().zip(expected).all(|(message, start)| message.starts_with(start));
    assert!(is_same, "{messages:#?}");
}

#[test]
fn of_a_policy_file() {
    problems(
        "policy.toml",
        "[setting]\nslo = '2 parsecs'\n[policy.a]\natempts = 3\nattempt_timeout = 'fast'\n\
         backoff = { base = '5s', cap = '1s', jiter = 'full' }\n[policy.b]\nattempts = 'many'\natempts = 2\n\
         [[route]]\npath = 'x'\npolicy = 'a'\n[[route]]\npolicy = 'c'\n",
        &[
            "setting.slo: must be a duration",
            "policy.a: unknown field `atempts`",
            "policy.a.attempt_timeout: must be a duration",
            "policy.a.backoff.base: must be at most backoff.cap",
            "policy.a.backoff: unknown field `jiter`",
            "policy.b.attempts: must be a whole number",
            "policy.b: unknown field `atempts`",
            "route[0].path: must be a path",
            "route[1].policy: no policy `c`",
        ],
    );
}

#[test]
fn of_one_policy() {
    problems(
        "policy.toml",
        "retry_on = ['reset', 42, 'refused', 43]\nattempts = -1\nconcurrency = 5000000000\nbudget.window.ttl = '1ms'\n\
         budget.window.ratio = 2\nhedge.afer = '1s'\nbreaker = { probes = 0, open = 'x', lookback.calls = -1 }\n\
         rate = { rate = '5' }\nfleet = 'x'\nsetting.queue = 'endless'\nsetting.chain = [3, 'a', { attempts = 1 }]\n",
        &[
            "retry_on[1]: must be a status code",
            "retry_on[3]: must be a status code",
            "attempts: must be a whole number from 1",
            "concurrency: must be a whole number from 1",
            "budget.window.ttl: must be from 1s",
            "budget.window.ratio: must be above 0",
            "hedge: unknown field `afer`",
            "breaker.probes: must be from 1",
            "breaker.open: must be a duration",
            "breaker.lookback.calls: must be a whole number",
            "rate.rate: must be a rate",
            "no fleet `x` in this file",
            "setting.queue: must be",
            "setting.chain[0]: must be a name",
            "setting.chain[2]: missing field `name`",
        ],
    );
}

#[test]
fn of_a_sidecar() {
    problems(
        "redial.toml",
        "[proxy]\nthreads = 0\ndrain = 'x'\n[upstream.a]\nto = ['http://a', 'ftp://b', 'c']\nkeys = 'mke'\nshed = { queue = -1 }\n\
         tls = { cert = 'c' }\nhealth = { path = 'x', timeout = '9s' }\nendpoint = { concurrency = 0, breaker.open = 3 }\n\
         policy = 'p'\n[upstream.b]\nlisten = 'x'\n[[route]]\nupstream = 'c'\npolicy = 'q'\nmethods = ['', 'GET', 3]\n",
        &[
            "proxy.threads: ",
            "proxy.drain: ",
            "upstream.a.to[1]: ",
            "upstream.a.to[2]: ",
            "upstream.a.keys: ",
            "upstream.a.shed: missing field `limit`",
            "upstream.a.shed.queue: ",
            "upstream.a.tls: no target uses TLS",
            "upstream.a.tls: `cert` without `key`",
            "upstream.a.health.path: ",
            "upstream.a.health.timeout: must be at most `every`",
            "upstream.a.endpoint.concurrency: ",
            "upstream.a.endpoint.breaker.open: ",
            "upstream.a.policy: no policy `p`",
            "upstream.b: missing field `to`",
            "upstream.b.listen: ",
            "route[0].upstream: no upstream `c`",
            "route[0].policy: no policy `q`",
            "route[0].methods[0]: ",
            "route[0].methods[2]: ",
        ],
    );
}

/// A problem that only follows from another one is not reported.
#[test]
fn consequences_are_not_problems() {
    problems(
        "policy.toml",
        "[policy.a]\nextends = 'nothing'\nattempts = 0\n[policy.b]\nextends = 'a'\n[[route]]\npolicy = 'a'\n",
        &["policy.a.extends: ", "policy.a.attempts: "],
    );
    // The default cap is below this base, but the cap was meant to be another one.
    problems(
        "policy.toml",
        "backoff = { base = '5s', cap = 'x' }\nhedge = { after = 'x' }\n",
        &["backoff.cap: ", "hedge.after: "],
    );
    problems(
        "policy.toml",
        "rate = { rate = '5/s', brust = 1 }\n",
        &["rate: unknown field `brust`"],
    );
    problems(
        "policy.toml",
        "[policy.a]\nbackoff.cap = 3\nsetting.slo = 3\n[policy.b]\nextends = 'a'\nbackoff.base = '5s'\nsetting.queue = 1\n\
         [policy.c]\nextends = 'c'\n[policy.d]\nextends = 'e'\n[policy.e]\nextends = 'd'\nattempts = 0\n",
        &[
            "policy.a.backoff.cap: ",
            "policy.a.setting.slo: ",
            "policy.c.extends: a policy cannot extend itself",
            "policy.d.extends: cycle: d → e → d",
            "policy.e.attempts: ",
        ],
    );
    problems(
        "application.properties",
        "resilience4j.retry.instances.x.base-config=a\nresilience4j.retry.configs.a.base-config=a\n",
        &["resilience4j.retry.configs.a.base-config: inherits from itself"],
    );
}

#[test]
fn of_meshes() {
    problems(
        "istio.yaml",
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\nspec:\n  http:\n  \
         - route: [{destination: {host: a}}]\n    timeout: long\n    retries: {attempts: some, perTryTimeout: short}\n",
        &[
            "spec.http[0].timeout: ",
            "spec.http[0].retries.attempts: ",
            "spec.http[0].retries.perTryTimeout: ",
        ],
    );
    problems(
        "rule.yaml",
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: a}\nspec: {host: a, trafficPolicy: {\
         connectionPool: {tcp: {connectTimeout: 0s}, http: {http2MaxRequests: many}}, retryBudget: {percent: 101}}}\n",
        &[
            "spec.trafficPolicy.connectionPool.tcp.connectTimeout: ",
            "spec.trafficPolicy.connectionPool.http.http2MaxRequests: ",
            "spec.trafficPolicy.retryBudget.percent: ",
        ],
    );
    problems(
        "envoy.yaml",
        "clusters: [{name: c, connect_timeout: soon, circuit_breakers: {thresholds: [{max_requests: x, retry_budget: \
         {budget_percent: {value: 200}}}]}}]\nroutes: [{match: {prefix: /}, route: {cluster: c, timeout: 1m, retry_policy: \
         {retry_on: retriable-status-codes, retriable_status_codes: [200, 503, x], retry_back_off: \
         {max_interval: 1}}}}]\n",
        &[
            "clusters[0].connect_timeout: ",
            "clusters[0].circuit_breakers.thresholds[0].max_requests: ",
            "clusters[0].circuit_breakers.thresholds[0].retry_budget.budget_percent.value: ",
            "routes[0].route.timeout: ",
            "routes[0].route.retry_policy.retriable_status_codes[0]: ",
            "routes[0].route.retry_policy.retriable_status_codes[2]: ",
            "routes[0].route.retry_policy.retry_back_off: Envoy requires base_interval",
            "routes[0].route.retry_policy.retry_back_off.max_interval: ",
        ],
    );
    let text = "{timeout: 1m, retry_policy: {retry_on: 5xx, num_retries: -1}}"; // tidy-allow: the name in Envoy's API
    problems("envoy.yaml", text, &["timeout: ", "retry_policy.num_retries: "]); // tidy-allow: the name in Envoy's API
    problems(
        "linkerd.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: a, annotations: {retry.linkerd.io/limit: x, \
         retry.linkerd.io/timeout: y}}\n",
        &[
            "metadata.annotations.retry.linkerd.io/limit: ",
            "metadata.annotations.retry.linkerd.io/timeout: ",
        ],
    );
}

#[test]
fn of_libraries() {
    problems(
        "grpc.json",
        r#"{"methodConfig": [{"name": [{}], "timeout": "soon", "retryPolicy": {"maxAttempts": 1, "initialBackoff": "now",
        "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}"#,
        &[
            "methodConfig[0].timeout: ",
            "methodConfig[0].retryPolicy.maxAttempts: ",
            "methodConfig[0].retryPolicy.initialBackoff: ",
        ],
    );
    problems(
        "application.yml",
        "resilience4j:\n  retry:\n    configs.default: {waitDuration: soon}\n    instances:\n      a: {maxAttempts: 0}\n      \
         b: {maxAttempts: x, waitDuration: 1s, enableExponentialBackoff: maybe, exponentialBackoffMultiplier: 5000}\n  \
         circuitbreaker.instances.a: {slidingWindowType: x, failureRateThreshold: 0}\n",
        &[
            "resilience4j.retry.configs.default.waitDuration: ",
            "resilience4j.retry.instances.a.maxAttempts: ",
            "resilience4j.retry.instances.b.maxAttempts: ",
            "resilience4j.retry.instances.b.enableExponentialBackoff: ",
            "not a valid policy: backoff.growth.exponential is 5000",
            "resilience4j.circuitbreaker.instances.a.slidingWindowType: ",
            "resilience4j.circuitbreaker.instances.a.failureRateThreshold: ",
        ],
    );
    problems(
        "appsettings.json",
        r#"{"A": {"Retry": {"MaxRetryAttempts": 0, "BackoffType": "Wild", "Delay": "x"}, "AttemptTimeout": {"Timeout": "1s"},
        "CircuitBreaker": {"FailureRatio": 2, "BreakDuration": "y"}}}"#,
        &[
            "A.Retry.MaxRetryAttempts: ",
            "A.Retry.BackoffType: ",
            "A.Retry.Delay: ",
            "A.AttemptTimeout.Timeout: ",
            "A.CircuitBreaker.FailureRatio: ",
            "A.CircuitBreaker.BreakDuration: ",
        ],
    );
    problems(
        "config",
        "[default]\nretry_mode = fast\nmax_attempts = 0\n",
        &["default.retry_mode: ", "default.max_attempts: "],
    );
}

/// Also where each round of reading finds one problem, and each has a long message.
#[test]
fn many_problems_of_one_value_are_bounded() {
    let codes = "42, ".repeat(1_900);
    let policies: String =
        (0..100).map(|i| format!("[policy.p{i}]\nretry_on = [{codes}]\n")).collect();
    let envoy = format!(
        "{{retry_policy: {{retry_on: retriable-status-codes, retriable_status_codes: [{}]}}}}",
        "x, ".repeat(100_000)
    );
    for (name, text) in [("policy.toml", policies), ("envoy.yaml", envoy)] {
        let reading = read(name, &text);
        assert_eq!(reading.problems.len(), 1_001, "{name}");
        assert!(reading.problems[1_000].1.message.ends_with(" more problems"), "{name}");
    }
}

/// The names that the questions about misspelt ones suggest.
#[track_caller]
fn meant(name: &str, text: &str, expected: &[&str]) {
    let mut findings = read(name, text).findings;
    findings.sort_by_key(|finding| finding.place);
    let helps = findings.iter().filter(|it| it.rule.name == "unknown-field").map(|it| &it.help);
    let helps: Vec<&str> = helps.map(String::as_str).collect();
    let expected: Vec<String> = expected.iter().map(|it| format!("did you mean `{it}`?")).collect();
    assert_eq!(helps, expected);
}

#[test]
fn a_misspelt_name_is_reported() {
    let istio = |spec: &str, kind: &str| {
        format!(
            "apiVersion: networking.istio.io/v1\nkind: {kind}\nmetadata: {{name: a, labels: {{retires: x}}}}\nspec: {spec}\n"
        )
    };
    let route = "{http: [{route: [{destination: {host: a}}], retires: {attempts: 2}, timeot: 2s, rewrite: {uri: /}}]}";
    meant("i.yaml", &istio(route, "VirtualService"), &["retries", "timeout"]);
    let rule = "{host: a, trafficPolicy: {retryBuget: {percnt: 10}, conectionPool: {http: {http1MaxPendingRequest: 1}}}}";
    let names = ["retryBudget", "percent", "connectionPool", "http1MaxPendingRequests"];
    meant("i.yaml", &istio(rule, "DestinationRule"), &names);
    let grpc = r#"{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.1s",
        "maxBackof": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}, "timout": "1s"}]}"#;
    meant("g.json", grpc, &["maxBackoff", "timeout"]);
    let envoy = "clusters: [{name: c, circuit_breakers: {thresholds: [{retry_buget: {}}]}}]\nroutes: [{match: {prefix: /}, \
                 route: {cluster: c, retry_polcy: {retry_on: 5xx}}}]\n";
    meant("e.yaml", envoy, &["retry_budget", "retry_policy"]);
    let linkerd = "apiVersion: v1\nkind: Service\nmetadata: {name: a, annotations: {retry.linkerd.io/http: 5xx, \
                   retry.linkerd.io/limt: 2}}\n";
    meant("l.yaml", linkerd, &["retry.linkerd.io/limit"]);
    meant("config", "[default]\nretry_mode = standard\nmax_atempts = 3\n", &["max_attempts"]);
    let gateway = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: a}\nspec: {rules: [{backendRefs: \
                   [{name: a}], timeouts: {backendReqest: 1s}, retry: {atempts: 2}}]}\n";
    meant("h.yaml", gateway, &["backendRequest", "attempts"]);
    let spring = "resilience4j:\n  rety.instances.a: {maxAttempts: 3}\n  timelimter.instances.a: {timeoutDuration: 1s}\n";
    meant("a.yml", spring, &["retry", "timelimiter"]);
    let dotnet = r#"{"A": {"Retry": {"MaxRetryAttempts": 3, "MaxDely": "00:00:05"}, "AttemptTimeot": {"Timeout": "00:00:02"}}}"#;
    meant("s.json", dotnet, &["MaxDelay", "AttemptTimeout"]);
}

/// The same route has the same findings, whether its rule sets nothing or is not there.
#[test]
fn an_istio_route_with_and_without_a_rule() {
    let route = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\nspec: {http: [{route: \
                 [{destination: {host: a}}], timeout: 2s, retries: {attempts: 2, perTryTimeout: 500ms, retryOn: reset}}]}\n";
    let rule = "---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: a}\nspec: {host: a}\n";
    let verdict = |text: &str| {
        let findings = redial_policy::rules::review(&read("i.yaml", text).found);
        findings.into_iter().map(|it| (it.rule.name, it.severity)).collect::<Vec<_>>()
    };
    assert_eq!(verdict(route), verdict(&format!("{route}{rule}")));
    assert!(!verdict(route).is_empty());
}

/// A text whose only field is misspelt is no config of any system.
#[test]
fn an_unrecognised_file_gets_a_question() {
    let check = |name: &str, text: &str, expected: &str| {
        let source = SourceText::new(name, text.as_bytes().to_vec()).unwrap();
        assert_eq!(Inputs::new().add(source.clone(), None).unwrap(), 0, "{text}");
        let problem = Inputs::nothing_found(&source);
        let help = problem.help.unwrap();
        assert!(help.starts_with(expected), "{text}: {help}");
        problem.span.map(|span| text[span.range()].to_owned())
    };
    let is_at = |key: &str| Some(key.to_owned());
    assert_eq!(check("retry.toml", "attempt = 3\n", "did you mean `attempts`? "), is_at("attempt"));
    assert_eq!(check("<stdin>", "attempt = 3\n", "did you mean `attempts`? "), is_at("attempt"));
    let dotnet = r#"{"Http": {"Retry": {"MaxRetryAttempt": 3}}}"#;
    let expected = "did you mean `MaxRetryAttempts`? ";
    assert_eq!(check("appsettings.json", dotnet, expected), is_at("\"MaxRetryAttempt\""));
    let grpc = r#"{"methodConfigs": [], "retryThrotling": {"maxTokens": 10}}"#;
    assert_eq!(
        check("s.json", grpc, "did you mean `retryThrottling`? "),
        is_at("\"retryThrotling\"")
    );
    for other in ["requests: 3\n", "name: a\nkind: b\n", "{\"retrieve\": 1}"] {
        assert_eq!(check("x.yaml", other, "known formats: redial, "), None);
    }
}

#[test]
fn a_retry_policy_of_envoy_at_the_wrong_level_is_reported() {
    let retry = "retry_policy: {retry_on: 5xx}";
    let misplaced = [
        format!("routes: [{{match: {{prefix: /}}, {retry}, route: {{cluster: c}}}}]\n"),
        format!("virtual_hosts: [{{domains: ['*'], routes: []}}]\n{retry}\n"),
        format!("clusters: [{{name: c, circuit_breakers: {{}}, {retry}}}]\n"),
    ];
    for text in &misplaced {
        let reading = read("envoy.yaml", text);
        let rules: Vec<_> = reading.findings.iter().map(|it| it.rule.name).collect();
        assert_eq!((rules, reading.found.len()), (vec!["refused-at-start"], 0), "{text}");
    }
    let placed = format!(
        "virtual_hosts: [{{domains: ['*'], {retry}, routes: [{{match: {{prefix: /}}, route: {{cluster: c, {retry}}}}}]}}]\n"
    );
    assert_eq!(read("envoy.yaml", &placed).findings, []);
}

/// Only the system's own part of a document is searched for misspelt names.
#[test]
fn names_of_other_programs_are_not_misspelt() {
    let spring = "spring.config.import: a.yml\nmanagement: {health: {circuitbreakers: {enabled: true}}}\n\
                  resilience4j.retry.instances: {config: {maxAttempts: 2}, retries: {maxAttempts: 2}}\n";
    meant("application.yml", spring, &[]);
    let dotnet =
        r#"{"CircuitBreakers": {"MaxDelays": 1}, "A": {"Retry": {"MaxRetryAttempts": 3}}}"#;
    meant("appsettings.json", dotnet, &[]);
    let istio = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a, annotations: {retires: x}}\n\
                 spec: {http: [{match: [{headers: {retires: {exact: x}}}], route: [{destination: {host: a}}]}]}\nstatus: {timeot: 1}\n";
    meant("i.yaml", istio, &[]);
    let envoy = "overload_manager: {actions: [{triggers: [{name: x, threshold: {value: 0.9}}]}]}\nstatic_resources: {clusters: \
                 [{name: c, circuit_breakers: {}}]}\n";
    meant("e.yaml", envoy, &[]);
}
