//! `redial explain` and `redial sim` with the configs of other systems.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Scratch, redial, text};

fn clean(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops/clean-configs").join(file)
}

fn explained(policy: &str) -> Value {
    let output = redial(&["explain", "--policy", policy, "--outcomes", "503", "--json"]);
    assert!(output.status.success(), "{policy}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// An example of each system that `redial check` reads, and how it is named there.
const SYSTEMS: [(&str, &str); 14] = [
    ("aws", "aws/config"),
    ("consul", "consul/router.json"),
    ("contour", "contour/proxy.yaml"),
    ("dotnet", "dotnet/appsettings.json"),
    ("envoy", "envoy/envoy.yaml"),
    ("envoy-gateway", "envoy-gateway/policy.yaml"),
    ("gateway-api", "gateway-api/gateway.yaml"),
    ("grpc", "grpc/grpc.json"),
    ("istio", "istio/istio.yaml"),
    ("linkerd", "linkerd/linkerd.yaml"),
    ("linkerd", "linkerd/profile.yaml"),
    ("resilience4j", "resilience4j/application.yml"),
    ("spring-gateway", "spring-gateway/application.yml"),
    ("traefik", "traefik/middleware.yaml"),
];

#[test]
fn every_system_that_check_reads_can_be_explained_and_simulated() {
    let read = redial_policy::Format::ALL.map(redial_policy::Format::name);
    let read = read.into_iter().filter(|format| *format != "redial");
    assert!(read.into_iter().all(|name| SYSTEMS.iter().any(|(system, _)| *system == name)));
    let mut simulated =
        vec!["sim".to_owned(), "blip".to_owned(), "--runs".to_owned(), "1".to_owned()];
    for (system, file) in SYSTEMS {
        let path = clean(file).to_str().unwrap().to_owned();
        assert_eq!(explained(&path)["format"], system, "{file}");
        simulated.extend(["--policy".to_owned(), path]);
    }
    let output = redial(&simulated.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let losses = text(&output.stderr);
    let loss =
        "istio.yaml: a config of istio; 2 fields are not the same; see `redial explain --policy ";
    assert!(losses.contains(loss), "{losses}");
    let loss = "profile.yaml: a config of linkerd; one field is not the same, simulated with 65535 attempts; see ";
    assert!(losses.contains(loss), "{losses}");
    assert_eq!(explained("web")["format"], Value::Null);
}

#[test]
fn what_is_not_the_same_there_is_listed() {
    let path = clean("istio/istio.yaml").to_str().unwrap().to_owned();
    let answer = explained(&path);
    assert_eq!(answer["losses"][0]["kind"], "approximated");
    let output = redial(&["explain", "--policy", &path]);
    let said = text(&output.stdout);
    assert!(
        said.contains("\nRead from a config of istio; not the same:\n  approximated  spec."),
        "{said}"
    );
    let path = clean("grpc/grpc.json").to_str().unwrap().to_owned();
    let of = |safety: &str| {
        let args = ["explain", "--policy", &path, "--outcomes", "reset", "--safety", safety];
        text(&redial(&args).stdout).to_owned()
    };
    let said = of("unsafe");
    assert_eq!(said.lines().nth(1).unwrap().split_whitespace().nth(3), Some("wait"), "{said}");
    assert!(said.ends_with("so --safety has no effect.\n") && said == of("idempotent"), "{said}");
}

const TWO: &str = r#"{"methodConfig": [
  {"name": [{"service": "shop.Cart"}], "retryPolicy": {"maxAttempts": 2, "initialBackoff": "0.1s", "maxBackoff": "1s",
    "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}},
  {"name": [{"service": "shop.Pay"}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s",
    "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}"#;

#[test]
fn one_of_several_policies_is_chosen_by_the_name_that_import_gives_it() {
    let scratch = Scratch::new("foreign");
    let path = scratch.file("service.json", TWO);
    let imported = redial(&["import", &path]);
    let names = text(&imported.stdout).lines().filter_map(|line| line.strip_prefix("[policy."));
    let names: Vec<&str> = names.filter_map(|line| line.split([']', '.']).next()).collect();
    let (first, last) = (names[0], names[names.len() - 1]);
    assert_ne!(first, last, "{names:?}");
    let several =
        format!("the file has several policies: choose one with {path}#NAME ({first}, {last})");
    for command in [&["explain"][..], &["sim", "blip"]] {
        let output = redial(&[command, &["--policy", &path]].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(&several), "{error}");
    }
    let attempts = |name: &str| explained(&format!("{path}#{name}"))["policy"]["attempts"].clone();
    assert_eq!((attempts(first), attempts(last)), (2.into(), 3.into()));
    let output = redial(&["explain", "--policy", &format!("{path}#none")]);
    let error = text(&output.stderr);
    assert!(
        error.contains(&format!("no policy `none` in the file, only {first}, {last}")),
        "{error}"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_shown() {
    let scratch = Scratch::new("foreign-wrong");
    for (name, content, says) in [
        ("broken.json", "{\"methodConfig\": [", "broken.json:1"),
        ("other.yaml", "a: 1\n", "no retry config found"),
        (
            "wrong.json",
            &TWO.replace("\"maxAttempts\": 2", "\"maxAttempts\": \"x\""),
            "wrong.json:2",
        ),
    ] {
        let path = scratch.file(name, content);
        let output = redial(&["explain", "--policy", &path]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {error}");
        assert!(
            error.contains("cannot read the config") && error.contains(says),
            "{name}: {error}"
        );
    }
}
