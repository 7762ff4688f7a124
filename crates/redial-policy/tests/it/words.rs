//! The names that the rules use for the fields of other formats are the names that the readers of these formats read.

use redial_core::Draft;
use redial_policy::file::File;
use redial_policy::{Format, Found, Inputs, SCHEMA, SourceText};
use serde_json::Value;

/// A file with a config that has every field in [`Format::words`].
fn config(format: Format) -> (&'static str, &'static str) {
    match format {
        Format::Redial => ("x.toml", "attempts = 3"),
        Format::Envoy => (
            "x.yaml",
            // tidy-allow: the name in Envoy's API
            "routes: [{match: {prefix: /}, route: {cluster: c, timeout: 5s, retry_policy: {num_retries: 2, retry_on: reset, \
             per_try_timeout: 1s, retry_back_off: {base_interval: 0.1s, max_interval: 1s}, \
             rate_limited_retry_back_off: {reset_headers: [], max_interval: 60s}}}}, {match: {prefix: /h}, route: {cluster: c, \
             hedge_policy: {hedge_on_per_try_timeout: true}, retry_policy: {retry_on: reset, per_try_timeout: 1s}}}]\n\
             clusters: [{name: c, circuit_breakers: {thresholds: [{retry_budget: {}}]}}]",
        ),
        Format::Istio => (
            "x.yaml",
            "{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: a}, spec: {hosts: [a], http: \
             [{route: [{destination: {host: a}}], timeout: 5s, retries: {attempts: 2, perTryTimeout: 1s, retryOn: reset, \
             backoff: 50ms}}]}}\n---\n{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: a}, \
             spec: {host: a, trafficPolicy: {retryBudget: {percent: 10}}}}",
        ),
        Format::Linkerd => (
            "x.yaml",
            "{apiVersion: v1, kind: Service, metadata: {name: a, annotations: {retry.linkerd.io/http: 5xx, \
             retry.linkerd.io/limit: 2, retry.linkerd.io/timeout: 1s, timeout.linkerd.io/request: 5s}}}\n---\n\
             {apiVersion: linkerd.io/v1alpha2, kind: ServiceProfile, metadata: {name: b.c.svc.cluster.local}, \
             spec: {retryBudget: {ttl: 10s}, routes: [{name: r, isRetryable: true}]}}",
        ),
        Format::GatewayApi => (
            "x.yaml",
            "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: a}, spec: {rules: [{backendRefs: \
             [{name: a}], timeouts: {request: 5s, backendRequest: 1s}, retry: {attempts: 2, codes: [503], backoff: 50ms}}]}}\
             \n---\n{apiVersion: gateway.networking.x-k8s.io/v1alpha1, kind: XBackendTrafficPolicy, metadata: {name: a}, \
             spec: {targetRefs: [{name: a}], retryConstraint: {budget: {percent: 10}}}}",
        ),
        Format::Grpc => (
            "x.json",
            r#"{"methodConfig": [{"name": [{}], "timeout": "5s", "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.1s",
            "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}},
            {"name": [{"service": "a"}], "hedgingPolicy": {"maxAttempts": 2, "hedgingDelay": "1s"}}],
            "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}"#,
        ),
        Format::Resilience4j => (
            "x.yml",
            "resilience4j:\n  retry.instances.a: {eventConsumerBufferSize: 10, maxAttempts: 3, waitDuration: 1s, enableExponentialBackoff: true, \
             exponentialBackoffMultiplier: 2, exponentialMaxWaitDuration: 9s, enableRandomizedWait: true, \
             retryExceptions: java.io.IOException}\n  circuitbreaker.instances.a: {slidingWindowSize: 10, \
             slidingWindowType: TIME_BASED}\n  timelimiter.instances.a: {timeoutDuration: 1s}\n",
        ),
        Format::Aws => ("x.ini", "[default]\nretry_mode = standard\nmax_attempts = 3\n"),
        Format::DotNet => (
            "x.json",
            r#"{"A": {"Retry": {"MaxRetryAttempts": 3, "UseJitter": true, "Delay": "00:00:01", "MaxDelay": "00:00:05"},
            "AttemptTimeout": {"Timeout": "00:00:02"}, "TotalRequestTimeout": {"Timeout": "00:00:10"}}, "B": {"Hedging": {"MaxHedgedAttempts": 1, "Delay": "00:00:01"}}}"#,
        ),
        _ => config_of_others(format),
    }
}

/// Of systems whose configs are only read.
fn config_of_others(format: Format) -> (&'static str, &'static str) {
    match format {
        Format::EnvoyGateway => (
            "x.yaml",
            // tidy-allow: names in its API
            "spec: {retry: {numRetries: 3, perRetry: {timeout: 1s, backOff: {baseInterval: 100ms, maxInterval: 2s}}, \
             retryOn: {triggers: [connect-failure]}}, timeout: {http: {requestTimeout: 5s}}, \
             circuitBreaker: {maxParallelRetries: 10}}\napiVersion: gateway.envoyproxy.io/v1alpha1\n\
             kind: BackendTrafficPolicy\nmetadata: {name: a}\n",
        ),
        Format::Contour => (
            "x.yaml",
            "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {name: a}\nspec:\n  routes:\n  - services: \
             [{name: a}]\n    timeoutPolicy: {response: 5s}\n    \
             retryPolicy: {count: 3, perTryTimeout: 1s, retryOn: [reset]}\n",
        ),
        Format::Consul => (
            "x.json",
            // tidy-allow: names in its API
            r#"{"Routes": [{"Destination": {"Service": "a", "NumRetries": 3,
            "RequestTimeout": "5s", "RetryOn": ["reset"]}}], "Kind": "service-router", "Name": "a"}"#,
        ),
        Format::Traefik => (
            "x.yaml",
            "apiVersion: traefik.io/v1alpha1\nkind: Middleware\nmetadata: {name: a}\nspec:\n  retry: {attempts: 3, \
             initialInterval: 100ms, status: '502-504'}\n",
        ),
        Format::SpringGateway => (
            "application.yml",
            "spring.cloud.gateway:\n  routes:\n  - id: a\n    filters:\n    - name: Retry\n      args: {retries: 3, \
             statuses: BAD_GATEWAY, backoff: {firstBackoff: 100ms, maxBackoff: 2s}}\n",
        ),
        _ => panic!("no config of {format:?}"),
    }
}

/// Whether the place of the field at `path` is the value of `word`, or contains it.
fn is_read(found: &Found, text: &str, path: &str, word: &str) -> bool {
    let place = found.places.of(path);
    let name = word.rsplit(['.', '/']).next().unwrap();
    let before = text[..place.span.start as usize].trim_end_matches([' ', ':', '=', '"']);
    place != found.places.whole()
        && (before.ends_with(name) || text[place.span.range()].contains(name))
}

#[test]
fn every_word_is_the_name_of_its_field() {
    for format in Format::ALL {
        let (name, text) = config(format);
        let mut inputs = Inputs::new();
        inputs.add(SourceText::new(name, text.into()).unwrap(), None).unwrap();
        let reading = inputs.read(Some(format));
        assert_eq!(reading.problems, [], "{format:?}");
        assert_eq!(reading.findings.iter().find(|it| it.rule.name == "unknown-field"), None);
        for (path, word) in format.words() {
            let is_read = reading.found.iter().any(|found| is_read(found, text, path, word));
            assert!(is_read, "{format:?} does not read `{word}` as {path}");
        }
    }
}

#[test]
fn every_format_has_a_word_for_attempts() {
    let others = Format::ALL.into_iter().filter(|format| *format != Format::Redial);
    for format in others {
        assert!(format.words().iter().any(|(path, _)| *path == "attempts"), "{format:?}");
    }
}

#[test]
fn every_path_is_a_field_of_a_policy() {
    for (path, _) in Format::ALL.into_iter().flat_map(Format::words) {
        if let Err(problem) = File::read(&format!("{path} = 'x'")) {
            assert!(!problem.message.contains("unknown field"), "{path}: {problem}");
        }
    }
}

/// The names in a message about an unknown field.
fn known_fields() -> Vec<String> {
    let problem = File::read("unheard-of-name = 1").unwrap_err();
    let help = problem.help.unwrap();
    let names = help.strip_prefix("known fields: ").unwrap().split(", ");
    names.map(str::to_owned).collect()
}

#[test]
fn the_fields_are_those_of_the_engine() {
    let message = toml::from_str::<Draft>("unheard-of-name = 1").unwrap_err().to_string();
    let (_, list) = message.split_once("expected one of").unwrap();
    let mut engine: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    engine.extend(["extends", "setting"]);
    assert_eq!(known_fields(), engine);
}

#[test]
fn the_fields_are_those_of_the_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let properties = schema.pointer("/$defs/policy/properties").unwrap().as_object().unwrap();
    let mut fields = known_fields();
    fields.sort_unstable();
    assert!(fields.iter().eq(properties.keys()), "{fields:?}");
}
