//! `redial sim --bench`.

use std::fs;

use crate::sim::json;
use crate::{redial, text};

/// Short, and a single cell of each kind is enough.
const SMALL: &str = r#"
title = "A second of errors"
duration = "12s"
policies = ["no-retry", "mine"]

[clients]
instances = 5
arrivals = { poisson = { rate = 100 } }

[backend]
servers = 5
service = { exponential = "10ms" }
queue = 50

[brownout]
start = "2s"
duration = "2s"
share = 0.3

[policy.mine]
attempts = 3
budget = "none"
backoff = { base = "10ms", cap = "50ms" }
"#;

fn with_file(look: impl Fn(&str)) {
    let path = crate::unique("small.toml");
    fs::write(&path, SMALL).unwrap();
    look(path.to_str().unwrap());
    fs::remove_file(path).unwrap();
}

#[test]
fn a_scenario_has_six_cells_and_two_comparators() {
    with_file(|file| {
        let args = ["sim", file, "--bench", "--policy", "mine", "--runs", "2", "--json"];
        let report = json(&args);
        let cells = report["cells"].as_array().unwrap();
        let families = cells.iter().map(|cell| cell["family"].as_str().unwrap());
        assert_eq!(families.filter(|family| *family == "timeout").count(), 3);
        assert_eq!(cells.len(), 6);
        for cell in cells {
            // The first policy is a single attempt, with the same seeds as the comparator.
            assert_eq!(cell["policies"][0]["policy"], "no-retry");
            assert_eq!(cell["policies"][0]["loss"], cell["one_attempt"]["loss"]);
            assert_eq!(cell["policies"][0]["above_one_attempt"], 0.0);
            assert_eq!(cell["policies"][1]["policy"], "mine");
            assert!(cell["oracle"]["policy"].is_string());
        }
        let medium = &cells[2];
        assert_eq!((&medium["deadline_ms"], &medium["timeout_ms"]), (&1000.0.into(), &().into()));
        assert_eq!(cells[3]["timeout_ms"], 200.0);
        let loss = |of: &serde_json::Value| of["loss"].as_f64().unwrap();
        assert!((0.2..0.4).contains(&loss(&medium["one_attempt"])), "{medium:#}");
        assert!(loss(&medium["policies"][1]) < 0.06, "three attempts of 30% each: {medium:#}");
        let names = report["policies"].as_array().unwrap().iter().map(|it| &it["policy"]);
        assert_eq!(names.len(), 3, "the oracle too");
        let mine = report["policies_timeout"].as_array().unwrap();
        let mine = mine.iter().find(|it| it["policy"] == "mine").unwrap();
        assert!(mine["attempts_per_call"].as_f64().unwrap() > 1.0, "{mine:#}");
        let bars = report["bars"].as_array().unwrap();
        let names = bars.iter().map(|bar| (bar["group"].as_str(), bar["what"].as_str()));
        let each = |group| (Some(group), Some("own collapses"));
        let groups = ["scenario, deadline", "scenario, timeout"].map(each);
        assert_eq!(names.collect::<Vec<_>>(), groups, "no peers, no outages");
        assert_eq!((&bars[0]["policy"], &bars[0]["limit"]), (&"mine".into(), &0.0.into()));
        assert_eq!((&bars[0]["bound"], &bars[0]["unit"]), (&"at most".into(), &"cells".into()));
        assert_eq!((&mine["suite"], &cells[0]["suite"]), (&"scenario".into(), &"scenario".into()));
        assert!(medium["policies"][0]["failure_ms"].is_number(), "{medium:#}");
        assert!(mine["open"].as_f64().unwrap() >= 1.0, "{mine:#}");
        assert_eq!(report["outages"], serde_json::json!([]));
        assert_eq!(json(&args), report, "the same seed gives the same result");
    });
}

#[test]
fn the_tables_name_every_policy_and_every_cell() {
    with_file(|file| {
        let args = ["sim", file, "--bench", "--policy", "mine", "--runs", "1", "--full", "--cells"];
        let output = redial(&args);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        for part in ["Only the deadline ends an attempt", "timeout of attempts", "All cells"] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(said.lines().filter(|line| line.starts_with("mine ")).count(), 6, "{said}");
        assert!(said.contains("What a default should keep: mine"), "{said}");
        assert_eq!(said.lines().filter(|line| line.starts_with(file)).count(), 6, "{said}");
        assert!(said.trim_end().ends_with("--bench --policy mine --seed 1 --runs 1"), "{said}");
        for (flag, start) in [("--svg", "<svg"), ("--html", "<!doctype html>")] {
            let args = ["sim", file, "--bench", "--policy", "mine", "--runs", "1", flag, "-"];
            assert!(text(&redial(&args).stdout).starts_with(start));
        }
    });
}

#[test]
fn ten_lines_say_which_policy_is_best() {
    let lines_of = |args: &[&str]| {
        let output = redial(&[&["sim"], args, &["--bench", "--runs", "1"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    with_file(|file| {
        let lines = lines_of(&[file, "--policy", "mine"]);
        let head = lines.iter().position(|line| line.starts_with("policy ")).unwrap();
        let verdict = lines[..head].join(" ");
        let best = "In 6 cells mine comes closest to the best policy for each (";
        assert!(verdict.starts_with(best), "{verdict}");
        let rest: Vec<&str> = lines[head + 1..].iter().map(String::as_str).collect();
        let footer = "6 cells, seed 1, one run of each policy; --full has the tables:";
        assert!(matches!(rest[..], [mine, one, last, _]
            if mine.starts_with("mine ") && one.starts_with("no-retry ") && last == footer));
        let report = json(&["sim", file, "--bench", "--policy", "mine", "--runs", "1", "--json"]);
        assert_eq!(report["verdicts"], serde_json::json!([verdict]));
        let all = lines_of(&[file]);
        assert_eq!(all.len(), 10, "with all presets and peers: {all:#?}");
    });
    let suites =
        ["--random", "1", "--high-traffic", "1", "--policy", "standard", "--policy", "web"];
    let both = lines_of(&suites);
    assert!(both.len() <= 10, "{both:#?}");
    assert!(both[0].starts_with("In 2 random cells "), "{both:#?}");
    assert!(both.iter().any(|line| line.starts_with("In 2 high-traffic cells ")), "{both:#?}");
}

#[test]
fn random_scenarios_follow_from_the_seed() {
    let of = |seed: &str| {
        let args = ["sim", "--bench", "--random", "2", "--high-traffic", "1", "--runs", "1"];
        json(&[&args[..], &["--policy", "standard", "--seed", seed, "--json"]].concat())
    };
    let report = of("7");
    let cells = report["cells"].as_array().unwrap();
    let suites: Vec<_> = cells.iter().map(|cell| cell["suite"].as_str().unwrap()).collect();
    assert_eq!(suites, [["random"; 4].as_slice(), &["high traffic"; 2]].concat());
    let rows = report["policies_deadline"].as_array().unwrap();
    let rows: Vec<_> = rows.iter().map(|row| (&row["suite"], &row["cells"])).collect();
    assert_eq!(rows.len(), 6, "the oracle too");
    assert_eq!(
        (rows[0], rows[3]),
        ((&"random".into(), &2.into()), (&"high traffic".into(), &1.into()))
    );
    let bars = report["bars"].as_array().unwrap();
    let bar = |what: &str| bars.iter().find(|bar| bar["what"] == what).unwrap();
    for (outage, what, limit) in [
        (0, "attempts per call, 503, 10 clients", Some(1.01)),
        (8, "attempts per call, hanging, 100,000 clients", None),
        (15, "success, blip", Some(0.999)),
    ] {
        let (outage, bar) = (&report["outages"][outage], bar(what));
        assert_eq!((&outage["what"], &bar["group"]), (&what.into(), &"outage".into()));
        assert_eq!((&bar["value"], &bar["limit"]), (&outage["values"]["standard"], &limit.into()));
        assert_eq!(bar["kept"].is_null(), limit.is_none(), "{bar:#}");
    }
    assert_eq!(report["outages"][0]["values"]["no-retry"], 1.0);
    assert_eq!(report, of("7"));
    assert_ne!(report["cells"][0]["scenario"], of("8")["cells"][0]["scenario"]);
}

#[test]
fn impossible_requests_are_refused() {
    for (args, says) in [
        (&["sim", "--bench", "--set", "rate=5"][..], "needs the name of one scenario"),
        (&["sim", "blip", "--bench", "--random", "3"][..], "--random"),
        (&["sim", "blip", "--bench", "--high-traffic", "3"][..], "--high-traffic"),
        (&["sim", "--random", "3"][..], "--bench"),
        (&["sim", "blip", "--full"][..], "--bench"),
        (&["sim", "--high-traffic", "3"][..], "--bench"),
        (&["sim", "blip", "--bench", "--sweep", "load=0.1,0.2"][..], "--sweep"),
        (&["sim", "--bench", "--policy", "nonsense"][..], "nonsense"),
        (&["sim", "nowhere", "--bench"][..], "nowhere"),
    ] {
        let output = redial(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
}
