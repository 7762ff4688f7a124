//! `redial sim --rate …`: a scenario without a file.

use redial_sim::Scenario;

use crate::sim::json;
use crate::{Scratch, redial, text};

const FLAGS: [&str; 9] =
    ["sim", "--rate", "2000/s", "--latency", "150ms", "--load", "0.7", "--outage", "2s"];

#[test]
fn the_number_of_servers_is_computed_and_shown() {
    let args = [&FLAGS[..], &["--clients", "20", "--runs", "1"]].concat();
    let report = json(&[&args[..], &["--json"]].concat());
    // 2000 × 0.15 ÷ 0.7 = 428.6
    assert_eq!(report["servers"], 429);
    let flags = "--rate 2000/s --latency 150ms --load 0.7 --outage 2s";
    assert_eq!(report["scenario"], flags);
    let policies = report["results"].as_array().unwrap().iter().map(|it| &it["policy"]);
    assert_eq!(policies.collect::<Vec<_>>(), ["one-attempt", "loop", "backoff", "standard"]);
    let output = redial(&args);
    let said = text(&output.stdout);
    assert!(said.starts_with("2000/s to 429 servers that take 150ms, down for 2s\n"), "{said}");
    assert!(said.contains("\n\nIn this setting ") && said.contains("the load is 0.70"), "{said}");
    let again = said.lines().last().unwrap();
    assert_eq!(again, format!("redial sim {flags} --clients 20 --seed 1 --runs 1"));
    let again = redial(&again.split(' ').skip(1).collect::<Vec<_>>());
    assert_eq!(again.stdout, output.stdout, "the command gets it again");
}

#[test]
fn the_load_and_the_outage_have_defaults_and_policies_can_be_named() {
    let report = json(&[
        "sim",
        "--rate",
        "30/1m",
        "--latency",
        "1s",
        "--policy",
        "web",
        "--runs",
        "1",
        "--json",
    ]);
    assert_eq!(report["scenario"], "--rate 30/1m --latency 1s --load 0.7 --outage 2s");
    assert_eq!((&report["servers"], &report["results"][0]["policy"]), (&1.into(), &"web".into()));
    let run = redial(&[&["sim", "run"], &FLAGS[1..], &["--policy", "web", "--runs", "1"]].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));
}

#[test]
fn the_scenario_can_be_written_to_a_file() {
    let shown = redial(&[&FLAGS[..], &["--show"]].concat());
    let shown = text(&shown.stdout);
    let scenario = Scenario::read(shown, &[]).unwrap();
    assert_eq!(scenario.clients.instances, 20);
    assert!((scenario.rate().unwrap() / scenario.backend.capacity() - 0.7).abs() < 1e-3);
    let scratch = Scratch::new("setting");
    let file = scratch.file("mine.toml", shown);
    let of = |args: &[&str]| json(&[args, &["--runs", "1", "--json"]].concat())["results"].clone();
    assert_eq!(of(&["sim", &file]), of(&FLAGS), "it is the same scenario");
}

#[test]
fn errors_name_the_flag() {
    for (args, says) in [
        (&["--rate", "0/s", "--latency", "1s"][..], &["'--rate <RATE>'", "above zero"][..]),
        (&["--rate", "fast", "--latency", "1s"], &["'--rate <RATE>'", "such as 10/s"]),
        (&["--rate", "4000000000/s", "--latency", "1s"], &["--rate", "at most 1000000000/s"]),
        (&["--rate", "5/s"], &["--latency <TIME>"]),
        (&["--latency", "5s"], &["--rate <RATE>"]),
        (&["--rate", "5/s", "--latency", "0s"], &["'--latency <TIME>'", "above zero"]),
        (&["--rate", "5/s", "--latency", "2h"], &["'--latency <TIME>'", "at most 1h"]),
        (&["--rate", "5/s", "--latency", "1s", "--load", "0"], &["--load", "above 0"]),
        (&["--rate", "5/s", "--latency", "1s", "--load", "101"], &["--load", "at most 100"]),
        (&["--rate", "5/s", "--latency", "1s", "--outage", "2d"], &["--outage", "at most 24h"]),
        (
            &["--rate", "1000000000/s", "--latency", "1h"],
            &["--rate, --latency and --load", "at most 1G"],
        ),
        (&["blip", "--rate", "5/s", "--latency", "1s"], &["--rate", "cannot be used with"]),
        (&["blip", "--load", "0.5"], &["--rate <RATE>"]),
        (&["--rate", "5/s", "--latency", "1s", "--bench"], &["--rate", "--bench"]),
        (&["--rate", "5/s", "--latency", "1s", "--sweep", "load=0.1,0.2"], &["--rate", "--sweep"]),
        (&["--rate", "5/s", "--latency", "1s", "--clients", "0"], &["--clients"]),
        (&["--rate", "5/s", "--latency", "1s", "--clients", "99000000"], &["--clients 99000000"]),
        (&["run"], &["<SCENARIO>"]),
    ] {
        let output = redial(&[&["sim"], args].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(says.iter().all(|part| error.contains(part)), "{args:?}: {error}");
    }
}
