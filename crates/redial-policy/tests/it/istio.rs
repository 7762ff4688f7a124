//! What Istio refuses is an error. Its validation is in Go and cannot be installed here: the cases are those of
//! `validateHTTPRetry` and `ValidateDuration` in `pkg/config/validation` of istio/istio.

use redial_core::Policy;
use redial_policy::rules::review;
use redial_policy::{Finding, Format, Inputs, Severity, SourceText};
use redial_sim::explain::{Question, explain};

/// The findings about a route with these fields, and its policy.
fn read(fields: &str) -> (Vec<Finding>, Policy) {
    let text = format!(
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {{name: a}}\nspec:\n  hosts: [a]\n  http:\n  \
         - route: [{{destination: {{host: a}}}}]\n    {fields}\n"
    );
    let mut inputs = Inputs::new();
    inputs.add(SourceText::new("x.yaml", text.clone().into_bytes()).unwrap(), None).unwrap();
    let mut reading = inputs.read(Some(Format::Istio));
    assert_eq!(reading.problems, [], "{text}");
    let mut findings = reading.findings;
    findings.extend(review(&reading.found));
    (findings, reading.found.remove(0).policy)
}

/// The fields in which Istio finds an error.
#[track_caller]
fn check(fields: &str, expected: &[&str]) {
    let (findings, _) = read(fields);
    let rules = ["refused-at-start", "unknown-retry-on"];
    let refused = findings.iter().filter(|finding| rules.contains(&finding.rule.name));
    let errors: Vec<&str> = refused
        .inspect(|finding| {
            assert_eq!(finding.severity, Severity::Error, "{finding:?}");
            assert!(finding.message.contains("Istio reject"), "{}", finding.message);
        })
        .map(|finding| finding.message.strip_prefix("spec.http[0].").unwrap())
        .map(|message| message.split(": ").next().unwrap())
        .collect();
    assert_eq!(errors, expected, "{fields}\n{findings:?}");
}

#[test]
fn fields_without_retries_are_refused() {
    check("retries: {attempts: 0}", &[]);
    check("retries: {attempts: 0, retryOn: ''}", &[]);
    for field in [
        "perTryTimeout: 2s",
        "retryOn: 5xx",
        "backoff: 10ms",
        "retryRemoteLocalities: true",
        "retryIgnorePreviousHosts: false",
    ] {
        let name = field.split(':').next().unwrap();
        let path = format!("retries.{name}");
        check(&format!("retries: {{attempts: 0, {field}}}"), &[&path]);
        check(&format!("retries: {{{field}}}"), &[&path]);
        check(&format!("retries: {{attempts: 1, {field}}}"), &[]);
    }
}

#[test]
fn durations_are_whole_milliseconds() {
    for (duration, refused) in [
        ("1ms", false),
        ("1.5s", false),
        ("0s", true),
        ("0.5ms", true),
        ("1500us", true),
        ("1.0001s", true),
    ] {
        let refused = |path| if refused { vec![path] } else { Vec::new() };
        check(&format!("timeout: {duration}"), &refused("timeout"));
        let try_timeout = format!("retries: {{attempts: 1, perTryTimeout: {duration}}}");
        check(&try_timeout, &refused("retries.perTryTimeout"));
        let backoff = format!("retries: {{attempts: 1, backoff: {duration}}}");
        check(&backoff, &refused("retries.backoff"));
    }
}

#[test]
fn words_are_known_and_not_padded() {
    let on = |words: &str| format!("retries: {{attempts: 1, retryOn: '{words}'}}");
    check(&on("5xx,reset,503,cancelled"), &[]);
    for words in ["5xx, reset", " 5xx", "5xx ", "5xx,,reset", "5xx,"] {
        check(&on(words), &["retries.retryOn"]);
    }
    for words in ["5XX", "gateway-eror", "600", "509", "99", "-1"] {
        check(&on(words), &["retries.retryOn"]);
    }
}

/// The timeout of the call is enough for a single attempt, and Istio refuses one for the attempt.
#[test]
fn without_retries_no_timeout_per_try_is_advised() {
    for fields in ["retries: {attempts: 0}", "retries: {attempts: 0, retryOn: 5xx}"] {
        let (findings, policy) = read(fields);
        assert_eq!(policy.attempts(), 1);
        let advice: Vec<_> = findings.iter().map(|finding| finding.help.as_str()).collect();
        assert!(advice.contains(&"set `timeout` to 2s"), "{advice:?}");
        assert!(advice.iter().all(|help| !help.contains("perTryTimeout")), "{advice:?}");
    }
}

/// The mesh's default lists `cancelled`: a server's answer, not the end of our own caller.
#[test]
fn a_cancellation_by_the_server_is_retried() {
    let attempts = |fields: &str, outcome: &str| {
        let (_, policy) = read(fields);
        let question = Question { script: outcome.parse().unwrap(), ..Question::default() };
        explain(&policy, &question).steps.len()
    };
    assert_eq!(attempts("timeout: 5s", "grpc:1"), 3);
    assert_eq!(attempts("timeout: 5s", "cancelled"), 1, "by the caller");
    assert_eq!(attempts("retries: {attempts: 1, retryOn: cancelled}", "CANCELLED"), 2);
    assert_eq!(attempts("retries: {attempts: 1, retryOn: unavailable}", "CANCELLED"), 1);
}
