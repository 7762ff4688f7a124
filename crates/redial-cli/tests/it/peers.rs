use redial_core::Policy;
use redial_sim::peers::Peer;
use serde_json::Value;

use super::{redial, text};

fn json(args: &[&str]) -> Value {
    let output = redial(args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_peer_can_be_explained() {
    for peer in Peer::all() {
        let name = format!("peer:{}", peer.name);
        let args = ["explain", "--policy", &name, "--outcomes", "503,200", "--runs", "1", "--json"];
        let answer = json(&args);
        let policy: Policy = serde_json::from_value(answer["policy"].clone()).unwrap();
        assert_eq!(policy, peer.policy(), "{name}");
        assert_eq!(answer["steps"][1]["verdict"], "done", "{name}");
    }
}

#[test]
fn a_peer_is_shown_with_its_differences() {
    let said = |name: &str| {
        let output =
            redial(&["explain", "--policy", name, "--outcomes", "500", "--safety", "unsafe"]);
        text(&output.stdout).to_owned()
    };
    let finagle = said("peer:finagle");
    assert!(finagle.contains("Differences from it: its first wait is exactly 5 ms"));
    assert!(finagle.contains("unsafe: "), "it asks whether repeating is safe: {finagle}");
    let istio = said("peer:istio");
    assert!(istio.contains("\n   1        3  500      stop     attempts"), "{istio}");
    assert!(istio.contains("--safety has no effect"));
    assert!(!said("standard").contains("Differences"));
}

#[test]
fn an_unknown_peer_is_exit_2_and_the_nearest_is_named() {
    for (name, said) in [
        ("peer:finagel", "unknown peer; did you mean `peer:finagle`? Known peers: finagle, grpc"),
        ("peer:istio-budgte", "did you mean `peer:istio-budget`?"),
        ("peer:hystrix", "unknown peer. Known peers: finagle, grpc"),
        ("peer:", "unknown peer. Known peers: finagle, grpc"),
    ] {
        for command in [&["explain"][..], &["sim", "contention"]] {
            let output = redial(&[command, &["--policy", name]].concat());
            assert_eq!(output.status.code(), Some(2), "{name}");
            assert!(output.stdout.is_empty(), "nothing on stdout but the answer");
            assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
        }
    }
}

#[test]
fn peers_are_listed_with_their_differences() {
    let output = redial(&["presets", "--peers"]);
    let listed = text(&output.stdout);
    assert!(listed.lines().all(|line| line.chars().count() <= 100), "{listed}");
    let names = listed.lines().filter(|line| !line.starts_with(' '));
    let names: Vec<_> = names.map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names, Peer::all().map(|peer| peer.name).collect::<Vec<_>>());
    let words: Vec<_> = listed.split_whitespace().collect();
    let words = words.join(" ");
    for text in Peer::all().flat_map(|peer| [Some(peer.about), peer.differs]).flatten() {
        assert!(words.contains(text), "{text}");
    }
}

#[test]
fn peers_are_listed_for_programs() {
    let listed = json(&["presets", "--peers", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), Peer::all().count());
    for (entry, peer) in listed.as_array().unwrap().iter().zip(Peer::all()) {
        assert_eq!(entry["name"], peer.name);
        assert_eq!(entry["about"], peer.about);
        assert_eq!(entry["differs"].as_str(), peer.differs);
        assert_eq!(entry["checks_safety"], peer.checks_safety);
        let policy: Policy = serde_json::from_value(entry["policy"].clone()).unwrap();
        assert_eq!(policy, peer.policy());
    }
    assert_eq!(listed[0]["worst_case"]["elapsed_ms"], Value::Null, "nothing bounds an attempt");
    assert_eq!(redial(&["presets", "--peers", "web"]).status.code(), Some(2));
}
