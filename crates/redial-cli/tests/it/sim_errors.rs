//! Input errors of `redial sim`: each names what is wrong and where, before any work, with nothing on stdout.

use std::fs;

use redial_sim::scenario::BUILT_IN;

use crate::{redial, text};

const GOOD: &str = r#"title = "A backend that blinks"
duration = "6s"
policies = ["no-retry", "full"]

[clients]
arrivals = { constant = { rate = 500 } }

[backend]
service = "5ms"

[outage]
start = "2s"
duration = "200ms"

[policy.full]
attempts = 6
"#;

/// The error must contain all of these texts.
fn refused(args: &[&str], says: &[&str]) {
    let output = redial(args);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert!(error.starts_with("error:") || error.starts_with("redial: "), "{error}");
    assert!(says.iter().all(|part| error.contains(part)), "{args:?}: {error}");
}

fn sim(scenario: &str, more: &[&str], says: &[&str]) {
    refused(&[&["sim", scenario], more].concat(), says);
}

/// The file must be refused with all of these texts.
fn file(name: &str, content: &str, says: &[&str]) {
    let path = crate::unique(&format!("{name}.toml"));
    fs::write(&path, content).unwrap();
    let shown = path.to_str().unwrap();
    sim(shown, &[], &[says, &[&format!("redial: {shown}: ")]].concat());
    fs::remove_file(path).unwrap();
}

#[test]
fn an_unknown_scenario() {
    let known: Vec<&str> = BUILT_IN.iter().map(|scenario| scenario.name).collect();
    sim("thunder", &[], &[&["redial: thunder: ", "contention"], &known[..]].concat());
    sim("blp", &[], &["redial: blp: not a scenario; did you mean `blip`?"]);
    sim("contenton", &[], &["did you mean `contention`?"]);
    sim("thunder.toml", &[], &["redial: thunder.toml: ", "No such file"]);
    sim("/", &[], &["redial: /: "]);
    refused(&["sim"], &["`redial sim capacity-loss`", "`redial sim --list` lists them"]);
    refused(&["sim", "blip", "--list"], &["--list"]);
}

#[test]
fn an_invalid_file() {
    let with = |from: &str, to: &str| GOOD.replacen(from, to, 1);
    file(
        "key",
        &with("[outage]\n", "[outage]\nlength = 3\n"),
        &[":12:1\n   |\n12 | length = 3\n   | ^^^^^^\n", "outage: unknown field `length`"],
    );
    file("toml", &with("[outage]", "[outage"), &[":11:"]);
    file(
        "distribution",
        &with("service = \"5ms\"", "service = { normal = { mean = '1ms', sd = '2ms' } }"),
        &[":9:", "`sd` has to be at most `mean`"],
    );
    file(
        "servers",
        &with("service = \"5ms\"", "service = \"5ms\"\nservers = 0"),
        &[":10:11", "backend.servers: must be a whole number from 1"],
    );
    file("late", &with("start = \"2s\"", "start = \"20s\""), &[":12:9", "before the end"]);
    file("policies", &with("\"full\"]", "\"fool\"]"), &[":3:12", "\"fool\""]);
    file("many", &with("rate = 500", "rate = 1e99"), &[":6:", "at most 1e10"]);
    file("empty", "", &["missing field"]);
}

#[test]
fn an_invalid_parameter() {
    sim("blip", &["--set", "outage"], &["--set", "PATH=VALUE"]);
    sim("blip", &["--set", "=3"], &["--set", "PATH=VALUE"]);
    sim("blip", &["--set", "outage.durration=2s"], &["redial: blip: ", "durration", "`duration`"]);
    sim("blip", &["--set", "title.text=2"], &["title.text=2", "not a table"]);
    sim("blip", &["--set", "backend.servers=0"], &["backend.servers", "from 1"]);
    sim("blip", &["--set", "window=7s"], &["window", "at most the duration"]);
    sim("blip", &["--set", "backend.service={ exponential = '0s' }"], &["a mean above zero"]);
}

#[test]
fn more_than_can_be_simulated() {
    sim("blip-synchronised", &["--clients", "1000000000000"], &["1000000000000", "25000000"]);
    sim("blip", &["--clients", "1000000000000"], &["1000000000000", "1000000"]);
    sim("blip", &["--clients", "0"], &["--clients"]);
    sim("blip", &["--clients", "1", "--clients", "2"], &["--clients", "--sweep clients=A,B"]);
    sim("blip", &["--runs", "0"], &["--runs", "1..=1000000"]);
    sim("blip", &["--threads", "0"], &["--threads", "1..=1024"]);
    let million = ["--sweep", "rate=1..1000:1000", "--sweep", "outage=1ms..1s:1000"];
    sim("blip", &million, &["1000000 cells", "10000"]);
    sim("blip", &["--sweep", "rate=1..9:1000000"], &["1000000 values", "10000"]);
}

#[test]
fn an_unknown_policy() {
    let says =
        ["--policy standrad", "full, none, normal, no-retry", "payment-processor", "No such file"];
    sim("blip", &["--policy", "standrad"], &says);
    sim(
        "blip",
        &["--policy", "peer:envyo"],
        &["--policy peer:envyo", "did you mean `peer:envoy`?"],
    );
    let path = crate::unique("bad-policy.toml");
    fs::write(&path, "[backoff]\nbase = '0s'\n").unwrap();
    let shown = path.to_str().unwrap();
    for scenario in ["blip", "contention"] {
        let says = [shown, ":2:8", "backoff.base: must be above zero"];
        sim(scenario, &["--policy", shown], &says);
    }
    fs::remove_file(path).unwrap();
}

#[test]
fn conflicting_flags_are_refused() {
    sim("blip", &["--json", "--svg", "-"], &["--svg"]);
    sim("blip", &["--html", "-", "--svg", "-"], &["--html", "cannot be both"]);
    sim("blip", &["--series"], &["--json"]);
    sim("blip", &["--metric", "success"], &["--sweep"]);
    sim("blip", &["--engine", "fast"], &["auto, exact, cohort, scale"]);
}

#[test]
fn contention_rejects_unsupported_flags() {
    let sim = |more: &[&str], says: &[&str]| sim("contention", more, says);
    sim(&["--clients", "1000000000000"], &["--clients", "1..=10000"]);
    sim(&["--clients", "0"], &["--clients"]);
    sim(&["--runs", "0"], &["--runs", "1..=1000000"]);
    sim(&["--policy", "standrad"], &["standrad", "payment-processor", "No such file"]);
    sim(&["--policy", "/"], &["cannot read the file", "directory"]);
    sim(&["--set", "a=1"], &["--set", "not supported"]);
    sim(&["--html", "-"], &["--html", "not supported"]);
    sim(&["--sweep", "load=1,2"], &["--sweep", "not supported"]);
    sim(&["--show"], &["--show", "not supported"]);
}

#[test]
fn an_error_quotes_the_argument_without_control_characters() {
    sim("blip", &["--clients", "1000000000000"], &["with --clients 1000000000000: "]);
    sim("blip", &["--set", "title=\"x"], &["--set: ", "does not end"]);
    let output = redial(&["sim", "blip", "--policy", "\u{1b}[31mred", "--set", "outage=1s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!text(&output.stderr).contains('\u{1b}') && text(&output.stderr).contains("[31mred"));
    // Errors of the TOML parser have several lines.
    let output = redial(&["sim", "blip", "--policy", "/dev/null/\u{7}", "--set", "title.x=1"]);
    assert!(text(&output.stderr).lines().all(|line| !line.contains('\u{7}')));
}

#[test]
fn too_many_calls_for_the_exact_engine() {
    let many = ["--policy", "full", "--set", "rate=1e9", "--set", "duration=1h"];
    sim(
        "blip",
        &[&many[..], &["--engine", "exact"]].concat(),
        &["redial: blip: full: 3.6T calls", "at most 2G", "omit --engine exact"],
    );
    let closed = "clients.arrivals={closed={callers=10,think=\"1us\"}}";
    sim(
        "blip",
        &["--policy", "full", "--set", closed, "--set", "backend.service=0s"],
        &["blip: full: a scale model 1:50 needs at least 50 callers", "a shorter duration"],
    );
}

#[test]
fn policy_files_with_names() {
    let path = crate::unique("named.toml");
    let shown = path.to_str().unwrap();
    let write = |content: &str| fs::write(&path, content).unwrap();
    let policy = |name: &str| {
        let args = ["sim", "blip", "--runs", "1", "--json", "--policy", name, "--policy", name];
        crate::sim::json(&args)["results"].clone()
    };
    write("");
    sim("blip", &["--policy", shown], &[shown, "empty file"]);
    write("[policy.one]\nattempts = 1\n");
    let alone = policy(shown);
    assert_eq!((&alone[0]["amplification"], alone.as_array().unwrap().len()), (&1.0.into(), 1));
    write("[policy.one]\nattempts = 1\n[policy.two]\nattempts = 2\n");
    let (one, two, three) =
        (format!("{shown}#one"), format!("{shown}#two"), format!("{shown}#three"));
    assert_eq!(policy(&one)[0]["amplification"], 1.0);
    assert!(policy(&two)[0]["amplification"].as_f64() > Some(1.01));
    sim("blip", &["--policy", shown], &["several policies", "#NAME", "one, two"]);
    sim("blip", &["--policy", &three], &["no [policy.three] in the file, only one, two"]);
    write(&"# long\n".repeat(200_000));
    sim("blip", &["--policy", shown], &["larger than 1 MB"]);
    sim(shown, &[], &["larger than 1 MB"]);
    fs::remove_file(&path).unwrap();
    let output = redial(&["sim", "blip", "--policy", shown]);
    assert!(!text(&output.stderr).contains("preset") && text(&output.stderr).contains("No such"));
}
