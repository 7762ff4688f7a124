use redial_policy::{Format, Place};

use super::{check, finding, found, golden, ours, routed};

#[test]
fn rules_find_retries_of_client_errors() {
    check(ours("retry_on = [408, 425, 429, 503]"), "");
    check(ours("retry_on = [404, 503]"), "error retries-client-errors");
    check(ours("retry_on = [3, 14]"), "error retries-client-errors");
    let help = |format, policy| finding(found(format, policy), "retries-client-errors").help;
    assert_eq!(
        help(Format::Grpc, "retry_on = [5]"),
        "remove NOT_FOUND from `retryableStatusCodes`"
    );
    assert!(help(Format::Envoy, "retry_on = [409]").contains("(`retriable-4xx` is 409)"));
    check(ours("attempts = 1\nretry_on = [404]"), "");
    golden(
        ours("retry_on = [400, 402, 503]"),
        "retries-client-errors",
        "400, 402 will be retried: the server understood the request and rejected it, so every retry gets the same response",
        "remove 400, 402 from `retry_on`; of 4xx, only 408, 425 and 429 can succeed later",
    );
}

#[test]
fn rules_find_missing_keys() {
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
        "POST requests carry no idempotency key, so Redial will not retry them after timeout, 503: the server may have \
         processed the request, and the call fails",
        "send an idempotency key and write `key = true` in the route, or retry only failures before processing: connect, \
         refused, throttled",
    );
}

/// Proxies and libraries retry unsafe requests, so it is an error there. Requests whose method is unknown may all be reads.
#[test]
fn keys_in_other_systems() {
    let defaulted = |policy: &str| found(Format::Istio, &format!("deadline = '5s'\n{policy}"));
    let istio = |policy: &str| {
        let mut found = defaulted(policy);
        found.places.put("attempts", Place::default());
        found
    };
    check(istio(""), "warning unsafe-without-key");
    // Statuses of gRPC, which the mesh's default includes, do not occur in plain HTTP.
    check(istio("retry_on = ['connect', 'refused', 1, 14]"), "note unsafe-without-key");
    // The mesh's default.
    check(defaulted(""), "warning unsafe-without-key");
    let help = finding(defaulted(""), "unsafe-without-key").help;
    assert!(help.ends_with("so Istio makes two (`retries: {attempts: 0}` for none)"), "{help}");
    check(routed(istio(""), &[], false), "warning unsafe-without-key");
    check(routed(istio(""), &["GET"], false), "");
    check(routed(istio("retry_on = [500]"), &["POST"], false), "error retries-500-unsafe");
    // UNAVAILABLE in place of a response means that the request was not processed.
    check(found(Format::Grpc, "retry_on = [14]"), "");
    // What a format cannot express is a note: gRPC has no field for a key.
    let limited = "deadline = '5s'\nattempt_timeout = '1s'\nretry_on = [4]";
    check(found(Format::Grpc, limited), "note unsafe-without-key");
    golden(
        istio("retry_on = ['reset', 503]"),
        "unsafe-without-key",
        "requests of every method will be retried after reset, 503, and nothing shows that they carry an idempotency key: \
         the server may process them twice",
        "send an idempotency key, the same for every attempt, give these requests a route without retries, or retry only \
         failures before processing: connect-failure, refused-stream",
    );
}
