//! `redial sim`.

use std::fs;

use redial_sim::scenario::BUILT_IN;
use serde_json::Value;

use crate::{redial, text};

pub(crate) fn json(args: &[&str]) -> Value {
    let mut output: Value = serde_json::from_slice(&redial(args).stdout).unwrap();
    assert!(output["wall_ms"].take().as_f64().unwrap() > 0.0);
    output
}

#[test]
fn the_scenarios_are_listed() {
    let output = redial(&["sim", "--list"]);
    assert!(output.status.success());
    let names = text(&output.stdout).lines().map(|line| line.split(' ').next().unwrap());
    let all = || BUILT_IN.iter().map(|scenario| scenario.name).chain(["contention"]);
    let first = "capacity-loss";
    let all = [first].into_iter().chain(all().filter(|name| *name != first));
    assert_eq!(names.collect::<Vec<_>>(), all.collect::<Vec<_>>());
    let titles = BUILT_IN.iter().map(|scenario| scenario.read(&[]).unwrap().title);
    titles.for_each(|title| assert!(text(&output.stdout).contains(&title), "{title}"));
}

#[test]
fn the_list_is_json_on_request() {
    let all: Value = serde_json::from_slice(&redial(&["sim", "--list", "--json"]).stdout).unwrap();
    assert_eq!(all.as_array().unwrap().len(), BUILT_IN.len() + 1);
    assert_eq!(all[0]["name"], "capacity-loss");
    assert_eq!((&all[1]["name"], &all[1]["policies"][0]), (&"blip".into(), &"no-retry".into()));
    assert!(all[0]["title"].is_string() && all[0]["teaches"].is_string());
}

#[test]
fn every_scenario_can_be_shown() {
    for scenario in BUILT_IN {
        let output = redial(&["sim", scenario.name, "--show"]);
        assert_eq!(text(&output.stdout), scenario.text);
    }
}

#[test]
fn a_scenario_prints_a_table_charts_and_its_lesson() {
    let output =
        redial(&["sim", "blip", "--runs", "3", "--policy", "full", "--policy", "no-retry"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(!said.contains('\u{1b}'), "no colours without a terminal");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("A backend that is down for 200 ms"));
    let words = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>().join(" ");
    let head = lines.iter().position(|line| line.starts_with("policy ")).unwrap();
    assert_eq!(words(head - 1), "ampli- peak time to goodput collapse");
    assert_eq!(
        words(head),
        "policy calls attempts fication success ratio recover lost p50 p99 (95\u{a0}%)"
            .replace('\u{a0}', " ")
    );
    assert!(lines[head + 1].starts_with("full ") && lines[head + 2].starts_with("no-retry "));
    let full = lines[head + 1];
    assert!(full.contains("100 %") && full.contains('±') && full.ends_with("0 % (0–56)"));
    assert_eq!(lines.iter().filter(|line| line.contains("2 s to 2.2 s")).count(), 2, "{said}");
    assert!(said.contains('▒') && said.contains('┄') && said.contains("━"));
    assert!(said.contains("\nClaimed: 540 / 4380"));
    assert!(said.contains("\n  full: ") && said.contains(" served a second at the peak, "));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let lesson = BUILT_IN[0].read(&[]).unwrap().teaches;
    assert!(words(said).contains(&words(&lesson)), "{said}");
    assert!(
        said.contains("Seed 1, means of 3 runs of each policy ± standard errors, exact engine:")
    );
    let again = lines[lines.len() - 1];
    assert_eq!(again, "redial sim blip --policy full --policy no-retry --seed 1 --runs 3");
    let second = redial(&again.split(' ').skip(1).collect::<Vec<_>>());
    assert_eq!(second.stdout, output.stdout, "the command gets it again");
}

#[test]
fn a_verdict_comes_first_and_every_policy_has_a_sentence() {
    let args = ["sim", "blip", "--runs", "1", "--policy", "no-retry", "--policy", "standard"];
    let verdict = "In this setting standard loses no call, with 1.03 attempts per call; it costs 3.3 % more load than \
                   no-retry, which loses 3.3 % of the calls.";
    let sentences = [
        "no-retry loses 3.3 % of the calls and makes 1.00 attempts per call.",
        "standard loses no call and makes 1.03 attempts per call.",
    ];
    let output = redial(&args);
    let said = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let (before, table) = said.split_once(" policy calls ").unwrap();
    assert!(before.contains(verdict), "{before}");
    assert!(sentences.iter().all(|sentence| table.contains(sentence)), "{table}");
    let report = json(&[&args[..], &["--json"]].concat());
    assert_eq!(report["verdict"], verdict);
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.iter().map(|it| &it["sentence"]).collect::<Vec<_>>(), sentences);
    assert_eq!(report["servers"], Value::Null, "unlimited");
    let page = redial(&[&args[..], &["--html", "-"]].concat());
    assert!(text(&page.stdout).contains(&format!("<p>{verdict}</p>")));
}

#[test]
fn a_narrow_terminal_gets_fewer_columns() {
    let printed = |columns: &str| {
        let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
        let args = ["sim", "blip", "--runs", "3", "--policy", "full", "--policy", "standard"];
        let output = command.args(args).env("COLUMNS", columns).output().unwrap();
        text(&output.stdout).to_owned()
    };
    for columns in [60, 80, 100] {
        let said = printed(&columns.to_string());
        let charts = said.split("\nClaimed").next().unwrap();
        // The title is not wrapped.
        let widest = charts.lines().skip(1).map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns, "{widest} of {columns}\n{said}");
        assert!(said.contains("success") && said.contains("fication"), "{said}");
    }
    assert!(printed("80").contains("Columns that do not fit: ±"), "{}", printed("80"));
    assert!(!printed("200").contains("do not fit"));
}

#[test]
fn one_run_has_no_collapse_interval() {
    let output = redial(&["sim", "blip", "--runs", "1"]);
    assert!(!text(&output.stdout).contains("collapse"));
    assert!(text(&output.stdout).contains("one run of each policy"));
    let many = redial(&["sim", "blip"]);
    assert!(text(&many.stdout).contains("means of 20 runs"));
}

const NUMBERS: [&str; 17] = [
    "calls",
    "attempts",
    "amplification",
    "success",
    "peak_ratio",
    "recover_ms",
    "goodput_lost",
    "p50_ms",
    "p99_ms",
    "duplicates",
    "collapse",
    "completion_ms",
    "served_peak_ratio",
    "delay_sd_ms",
    "waiting_max",
    "retries",
    "smear_ms",
];

#[test]
fn json_has_the_documented_fields() {
    let blip = json(&["sim", "blip", "--json", "--runs", "2", "--seed", "9"]);
    assert_eq!(
        (&blip["scenario"], &blip["seed"], &blip["runs"], &blip["engine"]),
        (&"blip".into(), &9.into(), &2.into(), &"exact".into())
    );
    let results = blip["results"].as_array().unwrap();
    let names: Vec<_> = results.iter().map(|result| result["policy"].as_str().unwrap()).collect();
    let jitters = ["none", "equal", "full", "decorrelated", "normal"];
    let policies = [&["no-retry"], &jitters[..], &["standard", "standard-0.1"]].concat();
    assert_eq!(names, policies);
    for result in results {
        for name in NUMBERS {
            assert!(result[name].is_f64(), "{name}: {result}");
            assert!(result[format!("{name}_sd")].is_f64(), "{name}_sd");
        }
        assert!(result["collapse_low"].as_f64() <= result["collapse_high"].as_f64());
        assert!(result["events"].as_u64() > Some(0));
        assert_eq!(result.get("series"), None, "only on request");
        assert_eq!(result.get("runs"), None, "all were made");
    }
    let events = results.iter().map(|result| result["events"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(blip["events"], events);
    let at_once = json(&["sim", "blip-synchronised", "--json", "--runs", "1"]);
    assert_eq!(at_once["results"][0]["recover_ms"], Value::Null);
    assert_eq!(at_once["results"][0]["recover_ms_sd"], Value::Null);
}

#[test]
fn json_has_series_on_request() {
    let args = ["sim", "blip", "--json", "--series", "--runs", "2", "--policy", "full"];
    let series = &json(&args)["results"][0]["series"];
    assert_eq!(series["window_ms"], 50.0);
    for row in ["calls", "attempts", "retries", "served", "succeeded", "failed"] {
        assert!(series[row].as_array().unwrap().len() >= 119, "{row}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_threads() {
    let bytes = |threads: &str, seed: &str| {
        let args = [
            "sim",
            "blip",
            "--json",
            "--series",
            "--runs",
            "5",
            "--seed",
            seed,
            "--threads",
            threads,
        ];
        let output = text(&redial(&args).stdout).to_owned();
        let (before, _) = output.rsplit_once("\"wall_ms\"").unwrap();
        before.to_owned()
    };
    let one = bytes("1", "4");
    assert_eq!(one, bytes("2", "4"));
    assert_eq!(one, bytes("7", "4"));
    assert_ne!(one, bytes("2", "5"));
}

#[test]
fn parameters_can_be_set() {
    let calls = |more: &[&str]| {
        let args =
            [&["sim", "blip", "--json", "--runs", "1", "--policy", "no-retry"], more].concat();
        json(&args)["results"][0].clone()
    };
    let half = calls(&["--set", "clients.arrivals.constant.rate=250"]);
    assert!((1490.0..=1510.0).contains(&half["calls"].as_f64().unwrap()), "{half}");
    let longer = calls(&["--set", "outage.duration=1200ms"]);
    let success = longer["success"].as_f64().unwrap();
    assert!((success - 0.8).abs() < 0.01, "a fifth of the time: {success}");
    let args = ["sim", "blip-synchronised", "--json", "--runs", "1", "--clients", "77"];
    assert_eq!(json(&args)["results"][0]["calls"], 77.0);
}

#[test]
fn a_scenario_and_a_policy_can_be_files_and_names_are_escaped() {
    let folder = crate::unique("storm");
    fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (mine, policy) = (path("mine.toml"), path("<script>alert(1).toml"));
    fs::write(
        &mine,
        BUILT_IN[0]
            .text
            .replace("[policy.full]", "[policy.'<script>x']")
            .replace("\"full\", ", "\"<script>x\", "),
    )
    .unwrap();
    fs::write(&policy, "attempts = 2\n").unwrap();
    let own = json(&["sim", &mine, "--json", "--runs", "1"]);
    assert_eq!(
        (&own["scenario"], &own["results"][3]["policy"]),
        (&mine.as_str().into(), &"<script>x".into())
    );
    let (page, figure) = (path("page.html"), path("figure.svg"));
    let base = [
        "sim",
        &mine,
        "--runs",
        "2",
        "--policy",
        &policy,
        "--policy",
        "<script>x",
        "--policy",
        "peer:envoy",
    ];
    for (flag, file) in [("--html", &page), ("--svg", &figure)] {
        let output = redial(&[&base[..], &[flag, file]].concat());
        assert!(output.status.success() && output.stdout.is_empty());
        assert_eq!(text(&output.stderr), format!("wrote {file}\n"));
        let written = fs::read_to_string(file).unwrap();
        assert!(!written.contains("<script") && written.contains("&lt;script&gt;"));
        assert!(written.contains("peer:envoy"));
        let piped = redial(&[&base[..], &[flag, "-"]].concat());
        assert_eq!(text(&piped.stdout), written);
    }
    let separate = [&page, &figure].map(|file| fs::read_to_string(file).unwrap());
    let both = redial(&[&base[..], &["--html", &page, "--svg", &figure]].concat());
    assert_eq!(text(&both.stderr), format!("wrote {figure}\nwrote {page}\n"));
    assert_eq!([&page, &figure].map(|file| fs::read_to_string(file).unwrap()), separate);
    let page = fs::read_to_string(&page).unwrap();
    assert!(
        page.starts_with("<!doctype html>") && page.contains("<svg ") && page.contains("[outage]")
    );
    assert!(page.contains("redial sim ") && page.contains("attempts = 2"));
    let nowhere = redial(&["sim", "blip", "--svg", &path("no/such/folder.svg")]);
    assert_eq!(nowhere.status.code(), Some(1), "the input was fine");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn contention_prints_a_table_and_a_conclusion() {
    let output = redial(&["sim", "contention", "--runs", "20"]);
    assert!(output.status.success());
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    let words = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>();
    assert_eq!(words(0), ["clients", "none", "exponential", "equal", "full", "decorrelated"]);
    assert_eq!(words(1)[..5], ["1", "writes", "1.0", "±", "0.0"]);
    assert_eq!(words(3)[..2], ["10", "writes"]);
    assert_eq!(words(5)[..2], ["100", "writes"]);
    assert_eq!(words(6)[0], "ms");
    let lesson = "With 100 clients, full sends 0.33 times the writes of none and takes 2.";
    assert!(text(&output.stdout).contains(lesson));
    let alone = redial(&["sim", "contention", "--clients", "1"]);
    assert!(text(&alone.stdout).contains("No client lost a race"));
    let single = redial(&["sim", "contention", "--clients", "10", "--policy", "web"]);
    assert!(text(&single.stdout).contains("With 10 clients, web has the fewest writes"));
}

#[test]
fn json_is_the_same_for_any_number_of_threads() {
    let args = ["sim", "contention", "--json", "--runs", "9", "--seed", "5", "--threads"];
    let one = json(&[&args[..], &["1"]].concat());
    assert_eq!(one, json(&[&args[..], &["2"]].concat()));
    assert_eq!((&one["scenario"], &one["engine"]), (&"contention".into(), &"exact".into()));
    assert_eq!((&one["seed"], &one["runs"]), (&5.into(), &9.into()));
    let results = one["results"].as_array().unwrap();
    assert_eq!(results.len(), 15);
    let last = &results[14];
    assert_eq!((&last["policy"], &last["clients"]), (&"decorrelated".into(), &100.into()));
    for field in ["attempts", "attempts_sd", "completion_ms", "completion_ms_sd"] {
        assert!(last[field].as_f64().unwrap() > 0.0, "{field}: {last}");
    }
    // Four steps in every cycle.
    let writes: f64 = results.iter().map(|case| case["attempts"].as_f64().unwrap()).sum();
    assert!((one["events"].as_f64().unwrap() - 4.0 * 9.0 * writes).abs() < 0.5);
}

#[test]
fn a_policy_is_a_preset_or_a_file_and_only_its_waits_matter() {
    let folder = crate::unique("sim");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("mine.toml");
    fs::write(&file, "attempts = 2\ndeadline = '1s'\n").unwrap();
    let file = file.to_str().unwrap();
    let base = ["sim", "contention", "--json", "--clients", "10", "--runs", "5"];
    let both = json(&[&base[..], &["--policy", file, "--policy", "standard"]].concat());
    let (mine, standard) = (&both["results"][0], &both["results"][1]);
    assert_eq!((&mine["policy"], &standard["policy"]), (&file.into(), &"standard".into()));
    assert_eq!(mine["completion_ms"], standard["completion_ms"]);

    fs::remove_dir_all(folder).unwrap();
}
