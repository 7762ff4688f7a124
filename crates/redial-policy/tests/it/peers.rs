//! The simulator's peers and the readers have the same defaults: a minimal config of a system is read as the policy of its
//! peer. `retry_on` is left out, because all peers retry transient failures.

use redial_core::decide::RetryOn;
use redial_core::{Draft, Policy};
use redial_policy::{Format, Inputs, SourceText};
use redial_sim::peers::Peer;

fn check(name: &str, text: &str, format: Format, peer: &str, differs: fn(Draft) -> Draft) {
    let mut inputs = Inputs::new();
    inputs.add(SourceText::new(name, text.as_bytes().to_vec()).unwrap(), None).unwrap();
    let reading = inputs.read(Some(format));
    assert_eq!(reading.problems, [], "{text}");
    let [found] = reading.found.as_slice() else {
        panic!("{} configs in {text}", reading.found.len())
    };
    let plain = |policy: &Policy| policy.edit().retry_on(RetryOn::nothing());
    let peer = Peer::find(peer).unwrap().policy();
    let peer = differs(plain(&peer)).build().unwrap();
    assert_eq!(plain(&found.policy).build().unwrap(), peer, "{text}");
}

fn nothing(draft: Draft) -> Draft {
    draft
}

#[test]
fn peers_of_proxies_are_what_their_configs_import_as() {
    let envoy =
        "virtual_hosts:\n- routes: [{route: {cluster: a, retry_policy: {retry_on: 5xx}}}]\n";
    check("x.yaml", envoy, Format::Envoy, "envoy", nothing);
    let cluster = "clusters:\n- name: a\n  connect_timeout: 20s\n  circuit_breakers: {thresholds: [{retry_budget: {}}]}\n";
    check("x.yaml", &format!("{envoy}{cluster}"), Format::Envoy, "envoy-budget", nothing);
    let service = "{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: a}, \
                   spec: {hosts: [a], http: [{route: [{destination: {host: a}}]}]}}\n";
    check("x.yaml", service, Format::Istio, "istio", nothing);
    let rule = "{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: a}, \
                spec: {host: a, trafficPolicy: {retryBudget: {}}}}\n";
    let timeout = |draft: Draft| draft.connect_timeout(std::time::Duration::from_secs(10));
    let both = format!("{service}---\n{rule}");
    check("x.yaml", &both, Format::Istio, "istio-budget", timeout);
}

#[test]
fn the_peer_of_linkerd_is_what_its_config_imports_as() {
    let annotated = "{apiVersion: v1, kind: Service, metadata: {name: a, annotations: {retry.linkerd.io/http: 5xx}}}\n";
    check("x.yaml", annotated, Format::Linkerd, "linkerd", nothing);
    let profile = "{apiVersion: linkerd.io/v1alpha2, kind: ServiceProfile, metadata: {name: a.b.svc.cluster.local}, \
                   spec: {routes: [{name: r, condition: {method: GET}, isRetryable: true}]}}\n";
    // The peer has the attempts and waits of annotations; the reader has those of a profile.
    let unbounded = |draft: Draft| {
        let waits = redial_core::schedule::Backoff::constant(std::time::Duration::from_millis(1));
        let waits = waits.jitter(redial_core::schedule::Jitter::None);
        draft.attempts(1_000_000).backoff(waits).deadline(std::time::Duration::from_secs(10))
    };
    check("x.yaml", profile, Format::Linkerd, "linkerd-profile", unbounded);
}

#[test]
fn the_peer_of_the_gateway_api_is_what_its_config_imports_as() {
    let route = "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: a}, \
                 spec: {rules: [{backendRefs: [{name: a}], retry: {codes: [503]}}]}}\n";
    let budget = "{apiVersion: gateway.networking.x-k8s.io/v1alpha1, kind: XBackendTrafficPolicy, \
                  metadata: {name: a}, spec: {targetRefs: [{name: a}], retryConstraint: {budget: {}}}}\n";
    check("x.yaml", &format!("{route}---\n{budget}"), Format::GatewayApi, "gateway-api", nothing);
}

#[test]
fn peers_of_libraries_are_what_their_configs_import_as() {
    let resilience4j = "resilience4j.retry.instances.a.failAfterMaxAttempts = false\n";
    check("x.properties", resilience4j, Format::Resilience4j, "resilience4j", nothing);
    check("x.ini", "[default]\nretry_mode = standard\n", Format::Aws, "aws", nothing);
    check("x.json", r#"{"A": {"Retry": {"UseJitter": true}}}"#, Format::DotNet, "dotnet", nothing);
    let grpc = r#"{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s",
        "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]"#;
    check("x.json", &format!("{grpc}}}"), Format::Grpc, "grpc", nothing);
    let throttled =
        format!(r#"{grpc}, "retryThrottling": {{"maxTokens": 10, "tokenRatio": 0.1}}}}"#);
    check("x.json", &throttled, Format::Grpc, "grpc-throttled", nothing);
}
