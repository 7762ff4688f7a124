//! The output of `redial demo`, not its speed.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use serde_json::Value;

use crate::{redial, text};

/// The number of lines for a second of the run.
fn seconds(stdout: &str) -> usize {
    stdout.lines().filter(|line| line.contains(" s  ") && line.contains('(')).count()
}

#[test]
fn help_has_examples() {
    let output = redial(&["demo", "--help"]);
    let help = text(&output.stdout);
    let parts = ["Examples:", "--seconds", "--seed", "--json", "every setting is like that"];
    assert!(parts.iter().all(|part| help.contains(part)), "{help}");
    let output = redial(&["demo", "--seconds", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("2..=600"));
}

#[test]
fn json_has_measured_and_predicted_figures() {
    let output = redial(&["demo", "--seconds", "2", "--seed", "7", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["seed"], 7);
    assert_eq!(told["capacity_per_second"], 500.0);
    assert_eq!(told["outage_ms"], serde_json::json!([600, 1100]));
    let results = told["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for (result, name) in results.iter().zip(["naive", "redial standard"]) {
        assert_eq!(result["policy"], name);
        assert_eq!(result["predicted"]["runs"], 20);
        plausible(&result["predicted"]);
        let predicted = |name: &str| result["predicted"][name].as_f64().unwrap();
        assert!(predicted("attempts") > predicted("calls"), "{result}");
        // A machine that is too slow is reported, and its figures are there too.
        plausible(&result["measured"]);
        if let Some(why) = result["warning"].as_str() {
            assert!(why.contains("the generator was the limit"), "{why}");
        }
    }
}

/// Each caller calls every 3/4 s, so that two seconds have some 800 calls unless they take long.
fn plausible(figures: &Value) {
    let number = |name: &str| figures[name].as_f64().unwrap();
    assert!((200.0..1_200.0).contains(&number("calls")), "{figures}");
    // Redial may hold back up to half of the calls.
    assert!(number("attempts") > number("calls") / 2.0, "{figures}");
    assert!((0.0..=1.0).contains(&number("success")), "{figures}");
    assert!(number("peak_ratio") > 1.0, "{figures}");
}

/// A rule of the default policy that the naive loop inherited would save it.
#[test]
fn the_naive_loop_of_the_demo_collapses_and_the_default_policy_does_not() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../redial-live/src/demo.toml");
    let output = redial(&["sim", file, "--runs", "3", "--json"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let collapse = |place: usize| told["results"][place]["collapse"].as_f64().unwrap();
    assert_eq!([collapse(0), collapse(1)], [1.0, 0.0], "{told}");
}

#[test]
fn without_a_terminal_there_are_plain_lines_and_an_interrupt_ends_them_with_a_summary() {
    let command = &mut crate::program(env!("CARGO_BIN_EXE_redial"));
    let mut child =
        command.args(["demo", "--seconds", "600"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut stdout = String::new();
    while seconds(&stdout) == 0 {
        assert!(reader.read_line(&mut stdout).unwrap() > 0, "{stdout}");
    }
    let kill = crate::program("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    reader.read_to_string(&mut stdout).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "as for `redial sim`");
    assert!(!stdout.contains('\x1b'), "{stdout}");
    let row = stdout.lines().find(|line| line.starts_with("redial standard")).unwrap();
    assert!(row.contains('%'), "{stdout}");
    let predicted = stdout.lines().filter(|line| line.trim_start().starts_with("predicted"));
    assert_eq!(predicted.filter(|line| line.contains('%')).count(), 2, "{stdout}");
    assert!(stdout.contains("Interrupted after"), "{stdout}");
}

/// What a terminal of this size shows.
fn at_terminal(rows: usize, columns: usize) -> String {
    let line = format!(
        "stty rows {rows} cols {columns}; {} demo --seconds 2",
        env!("CARGO_BIN_EXE_redial")
    );
    let mut command = crate::program("script");
    command.args(["-qec", &line, "/dev/null"]).env_remove("NO_COLOR").stdin(Stdio::null());
    let output = command.output().unwrap();
    text(&output.stdout).replace('\r', "")
}

/// A line without colours and other escape sequences.
fn bare(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(
            part.trim_start_matches(['[', '?', ';'])
                .trim_start_matches(|c: char| c.is_ascii_digit() || c == ';')
                .get(1..)
                .unwrap_or_default(),
        );
    }
    text
}

#[test]
fn the_charts_have_the_size_of_the_terminal_and_mark_the_outage() {
    let widest = |shown: &str| {
        let rows = shown.lines().map(bare).filter(|line| line.contains('│') || line.contains('└'));
        rows.map(|line| line.chars().count()).max().unwrap()
    };
    let (small, large) = (at_terminal(20, 60), at_terminal(50, 120));
    assert!((50..=60).contains(&widest(&small)), "{}", widest(&small));
    assert!((110..=120).contains(&widest(&large)), "{}", widest(&large));
    for shown in [&small, &large] {
        assert!(shown.contains("═") && shown.contains("═: outage"), "{shown}");
    }
    let wide = small.lines().map(bare).find(|line| line.chars().count() > 60);
    assert_eq!(wide, None);
}

/// Answered calls are drawn below their caption, in green on both sides.
#[test]
fn successes_are_not_red() {
    let shown = at_terminal(24, 80);
    let (_, answered) = shown.rsplit_once("answered calls per second").unwrap();
    let charts: Vec<&str> = answered.lines().filter(|line| line.contains('│')).collect();
    assert!(!charts.is_empty(), "{shown}");
    assert!(charts.iter().all(|line| !line.contains("\x1b[31m")), "{charts:?}");
    assert!(charts.iter().any(|line| line.contains("\x1b[32m")), "{charts:?}");
}
