//! All problems of a file are reported at once, and misspelt names get a question.

use redial_policy::{Inputs, Reading, Source};

fn read(name: &str, text: &str) -> Reading {
    let mut inputs = Inputs::new();
    inputs.add(Source::new(name, text.as_bytes().to_vec()).unwrap(), None).unwrap();
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

/// A problem that only follows from another one is not reported.
#[test]
fn consequences_are_not_problems() {
    problems(
        "policy.toml",
        "[policy.a]\nextends = 'nothing'\nattempts = 0\n[policy.b]\nextends = 'a'\n[[route]]\npolicy = 'a'\n",
        &["policy.a.extends: ", "policy.a.attempts: "],
    );
    problems(
        "application.properties",
        "resilience4j.retry.instances.x.base-config=a\nresilience4j.retry.configs.a.base-config=a\n",
        &["resilience4j.retry.configs.a.base-config: inherits from itself"],
    );
}

#[test]
fn of_other_formats() {
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
        "istio.yaml",
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\nspec:\n  http:\n  \
         - route: [{destination: {host: a}}]\n    timeout: long\n    retries: {attempts: some, perTryTimeout: short}\n",
        &[
            "spec.http[0].timeout: ",
            "spec.http[0].retries.attempts: ",
            "spec.http[0].retries.perTryTimeout: ",
        ],
    );
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
fn misspelt_names() {
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
