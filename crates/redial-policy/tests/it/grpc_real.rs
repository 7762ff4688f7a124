//! gRPC's C++ core, in the Python package, is asked which service configs it accepts.
//!
//! `cargo xtask test` installs it and sets `REDIAL_TEST_GRPC`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use redial_policy::{Format, Inputs, SourceText};

/// Makes a call on a channel with each service config of a list, and prints why the channel was refused. Nothing listens on
/// the port, and nothing is retried.
const ASK: &str = r#"
import grpc, json, sys

def refused(config):
    options = [("grpc.service_config", config), ("grpc.enable_retries", 0)]
    with grpc.insecure_channel("127.0.0.1:1", options=options) as channel:
        try:
            channel.unary_unary("/a.B/C")(b"", timeout=30)
        except grpc.RpcError as error:
            return error.details() if error.code() == grpc.StatusCode.INVALID_ARGUMENT else None

print(json.dumps([refused(config) for config in json.load(sys.stdin)]))
"#;

/// Why gRPC refuses each config, if it does.
fn ask(configs: &[String]) -> Vec<Option<String>> {
    let folder = std::env::var_os("REDIAL_TEST_GRPC").unwrap_or_else(|| {
        panic!("REDIAL_TEST_GRPC is not set: run `cargo xtask test`, which installs gRPC")
    });
    let mut python = Command::new("python3")
        .args(["-c", ASK])
        .env("PYTHONPATH", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let configs = serde_json::to_vec(configs).unwrap();
    python.stdin.take().unwrap().write_all(&configs).unwrap();
    let output = python.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Why we say that gRPC refuses a config: a problem, or a finding.
fn ours(config: &str) -> Option<String> {
    let mut inputs = Inputs::new();
    let source = SourceText::new("x.json", config.as_bytes().to_vec()).unwrap();
    if let Err((_, problem)) = inputs.add(source, Some(Format::Grpc)) {
        return Some(problem.to_string());
    }
    let reading = inputs.read(Some(Format::Grpc));
    let problem = reading.problems.first().map(|(_, problem)| problem.to_string());
    let refused = reading.findings.iter().find(|one| one.rule.name == "refused-at-start");
    let found = problem.is_some() || !reading.found.is_empty();
    assert!(found, "not read as a retry config: {config}");
    problem.or_else(|| refused.map(|finding| finding.message.clone()))
}

/// A retry policy with these fields in place of its own; `null` removes one.
fn with(fields: &str) -> String {
    let mut policy = serde_json::json!({
        "maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    });
    let fields: serde_json::Value = serde_json::from_str(fields).unwrap();
    for (name, value) in fields.as_object().unwrap() {
        policy[name] = value.clone();
    }
    policy.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    method(&policy.to_string())
}

fn method(policy: &str) -> String {
    format!(r#"{{"methodConfig": [{{"name": [{{}}], "retryPolicy": {policy}}}]}}"#)
}

#[test]
fn what_grpc_refuses_is_refused() {
    let refused = [
        (method("5"), "methodConfig[0].retryPolicy: must be a table, but is 5"),
        (method("[]"), "methodConfig[0].retryPolicy: must be a table, but is a list"),
        (
            with(r#"{"initialBackoff": null, "maxBackoff": null}"#),
            "methodConfig[0].retryPolicy: missing fields `initialBackoff`, `maxBackoff`",
        ),
        (
            with(r#"{"initialBackoff": "1e-1s"}"#),
            "initialBackoff: must be digits, at most nine of them after a dot, and `s`, but is \"1e-1s\"",
        ),
        (with(r#"{"initialBackoff": "0.1"}"#), "initialBackoff: must end in `s`, but is \"0.1\""),
        (with(r#"{"initialBackoff": 1}"#), "initialBackoff: must be text, but is 1"),
        (with(r#"{"initialBackoff": "s"}"#), "initialBackoff: must have digits before `s`"),
        (with(r#"{"initialBackoff": "1.s"}"#), "initialBackoff: must be digits, at most nine"),
        (
            with(r#"{"initialBackoff": "0.0000000001s"}"#),
            "initialBackoff: must be digits, at most nine",
        ),
        (with(r#"{"initialBackoff": "0s"}"#), "initialBackoff: must be above 0s"),
        (
            with(r#"{"initialBackoff": "0.0009s"}"#),
            "initialBackoff: clients of the C++ core cut it",
        ),
        (
            with(r#"{"initialBackoff": "0.001s", "maxBackoff": "0.0009s"}"#),
            "maxBackoff: clients of",
        ),
        (
            with(r#"{"maxBackoff": "315576000001s"}"#),
            "maxBackoff: must be at most 315576000000s, but is \"315576000001s\"",
        ),
        (with(r#"{"backoffMultiplier": 0}"#), "backoffMultiplier: must be above 0, but is 0"),
        (with(r#"{"maxAttempts": 1}"#), "maxAttempts: must be at least 2, but is 1"),
        (with(r#"{"retryableStatusCodes": []}"#), "retryableStatusCodes: must not be empty"),
        (
            with(r#"{"retryableStatusCodes": [14]}"#),
            "retryableStatusCodes[0]: is not a name in upper case",
        ),
        (
            with(r#"{"retryableStatusCodes": ["INTERNAL", "unavailable"]}"#),
            "retryableStatusCodes[1]: is not a name in upper case",
        ),
        (
            r#"{"retryThrottling": {}}"#.to_owned(),
            "retryThrottling: missing fields `maxTokens`, `tokenRatio`",
        ),
        (
            r#"{"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.0001}}"#.to_owned(),
            "retryThrottling.tokenRatio: must be at least 0.001",
        ),
    ];
    let configs = refused.iter().map(|(config, _)| config.clone()).collect::<Vec<_>>();
    for (theirs, (config, expected)) in ask(&configs).iter().zip(&refused) {
        assert!(theirs.as_ref().is_some_and(|why| why.contains("service config")), "{config}");
        let ours =
            ours(config).unwrap_or_else(|| panic!("accepted here, but {theirs:?}: {config}"));
        assert!(ours.contains(expected), "{ours}\n{expected}\n{theirs:?}");
    }
}

#[test]
fn what_grpc_accepts_is_accepted() {
    let accepted = [
        with("{}"),
        with(r#"{"maxBackoff": "315576000000s"}"#),
        with(r#"{"initialBackoff": "0.001000001s"}"#),
        with(r#"{"initialBackoff": "5s"}"#),
        with(r#"{"backoffMultiplier": 0.5}"#),
        with(r#"{"backoffMultiplier": 2000}"#),
        with(r#"{"maxAttempts": 9}"#),
        with(r#"{"maxAttempts": "3", "backoffMultiplier": "1.5"}"#),
        r#"{"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}"#.to_owned(),
    ];
    for (theirs, config) in ask(&accepted).iter().zip(&accepted) {
        assert_eq!((theirs, ours(config)), (&None, None), "{config}");
    }
}
