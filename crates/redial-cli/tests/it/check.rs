//! The output formats and options of `redial check`. The rules are tested in redial-policy.

use std::io::Write as _;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::{Scratch, redial, text};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/check");

/// A policy without findings in any setting.
const GOOD: &str =
    "[policy.good]\nattempts = 2\nattempt_timeout = \"100ms\"\ndeadline = \"500ms\"\n";
const NO_JITTER: &str = "[policy.together]\nattempts = 2\nattempt_timeout = \"100ms\"\ndeadline = \"500ms\"\nbackoff.jitter = \"none\"\n";

/// Runs in the directory of the data, so that paths are short and the same everywhere.
fn check(args: &[&str]) -> Output {
    let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
    command.current_dir(DATA).arg("check").args(args).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = check(&[args, &["--format", "json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

fn rules(answer: &Value) -> Vec<&str> {
    let findings = answer["findings"].as_array().unwrap().iter();
    findings.map(|finding| finding["rule"].as_str().unwrap()).collect()
}

/// Checks the file with these arguments, and expects this exit code.
fn exits(file: &str, args: &[&str], code: i32) {
    let scratch = Scratch::new(&format!("exits{code}"));
    let path = scratch.file("policy.toml", file);
    let output = check(&[&[&*path], args].concat());
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stdout));
}

#[test]
fn human_output_has_the_line_and_the_fix() {
    let output = check(&["."]);
    assert_eq!(text(&output.stdout), include_str!("../data/check/bad.human.txt"));
    assert!(output.stderr.is_empty());
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_score_is_printed_as_json() {
    let scratch = Scratch::new("rubric");
    let path = scratch.file("policy.toml", format!("{NO_JITTER}require_key = true\n"));
    let printed = [&["--json"][..], &["--format", "json"]].map(|form| {
        let output = check(&[&["--rubric", &*path], form].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    });
    assert_eq!(printed[0], printed[1]);
    let points = printed[0]["scores"][0]["points"].as_array().unwrap();
    let lost: Vec<&Value> = points.iter().filter(|point| point["met"] == false).collect();
    assert_eq!(lost.len(), 1, "{points:?}");
    assert_eq!((&lost[0]["name"], &lost[0]["line"]), (&"full-jitter".into(), &5.into()));
}

/// Standard error is a file here, so its lines are not wrapped at the width of the terminal that standard output is.
#[test]
fn messages_are_wrapped_at_the_width_of_their_own_stream() {
    let scratch = Scratch::new("wrapped");
    scratch.file("empty.yaml", "services: {}\n");
    let redial = env!("CARGO_BIN_EXE_redial");
    let line = format!("stty cols 40; {redial} check empty.yaml 2> messages");
    let mut script = crate::program("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(&scratch.0).env_remove("COLUMNS");
    assert_eq!(script.stdin(Stdio::null()).output().unwrap().status.code(), Some(2));
    let messages = std::fs::read_to_string(scratch.path("messages")).unwrap();
    let help = messages.lines().find(|line| line.contains("help: known formats")).unwrap();
    assert!(help.ends_with("name one with --from"), "{messages}");
}

#[test]
fn passwords_are_not_repeated() {
    let scratch = Scratch::new("passwords");
    for line in [
        "redis = 'redis://h'\npassword = 'hunter2'",
        "redis = 'redis://h'\npasword = 'hunter2'",
        "redis = 'redis://me:hunter2@h'",
        "redis = 'unix:///s?pass=hunter2'",
    ] {
        let path =
            scratch.file("policy.toml", format!("[policy.a]\nfleet = 'x'\n[fleet.x]\n{line}"));
        for format in ["human", "json", "sarif", "github"] {
            let output = check(&[&path, "--format", format]);
            let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
            assert!(said.contains("policy.toml") && !said.contains("hunter2"), "{said}");
            assert_eq!(output.status.code(), Some(2), "{said}");
        }
    }
}

#[test]
fn the_denied_severity_decides() {
    exits(GOOD, &[], 0);
    exits(NO_JITTER, &[], 1);
    exits(NO_JITTER, &["--allow", "no-jitter"], 0);
    // A single client cannot synchronise with others, so it is a note.
    exits(NO_JITTER, &["--clients", "1"], 0);
    exits(NO_JITTER, &["--clients", "1", "--deny", "note"], 1);
    exits(NO_JITTER, &["--allow", "no-jiter"], 2);
    exits(NO_JITTER, &["--slo", "0s"], 2);
    exits(NO_JITTER, &["--calls", "fast"], 2);
    exits(NO_JITTER, &["--multiplier", "0.5"], 2);
}

#[test]
fn arguments_override_the_setting_of_a_file() {
    let scratch = Scratch::new("typed");
    let path =
        scratch.file("policy.toml", format!("[setting]\nclients = 1\nslo = \"1m\"\n{NO_JITTER}"));
    assert_eq!(json(&[&path])["findings"][0]["severity"], "note");
    assert_eq!(json(&[&path, "--clients", "200"])["findings"][0]["severity"], "error");
    assert!(!rules(&json(&[&path])).contains(&"slower-than-slo"));
    assert!(rules(&json(&[&path, "--slo", "1s"])).contains(&"slower-than-slo"));
    let layered = json(&[&path, "--layers", "3,2"]);
    let message = layered["findings"].as_array().unwrap().iter();
    let mut message = message.filter(|it| it["rule"] == "layered-retries").map(|it| &it["message"]);
    assert!(message.next().unwrap().as_str().unwrap().contains("make up to 12 "));
}

#[test]
fn json_has_every_field() {
    let answer = json(&["bad.toml"]);
    let mut findings = answer["findings"].as_array().unwrap().iter();
    let finding = findings.find(|it| it["rule"] == "no-jitter").unwrap();
    assert_eq!(finding["severity"], "error");
    assert_eq!(finding["file"], "bad.toml");
    assert_eq!((&finding["line"], &finding["column"]), (&11.into(), &74.into()));
    assert_eq!((&finding["endLine"], &finding["endColumn"]), (&11.into(), &80.into()));
    assert!(finding["message"].as_str().unwrap().contains("200 clients"));
    assert!(finding["help"].as_str().unwrap().contains("full"));
    assert_eq!((&finding["policy"], &finding["format"]), (&"fixed".into(), &"redial".into()));
    assert_eq!((&answer["files"], &answer["policies"]), (&1.into(), &2.into()));
    assert_eq!(answer["problems"].as_array().unwrap().len(), 0);
}

#[test]
fn columns_are_characters() {
    let scratch = Scratch::new("columns");
    let inline = "policy.\"é😀\" = { attempts = 2, attempt_timeout = \"100ms\", deadline = \"500ms\", backoff = { jitter = \"none\" } }\n";
    let answer = json(&[&scratch.file("policy.toml", inline)]);
    let column = inline.chars().position(|c| c == 'j').unwrap() + "jitter = ".len() + 1;
    assert_eq!(answer["findings"][0]["column"], column);
    // Neither a byte order mark nor a carriage return counts.
    let marked = |text: &str| scratch.file("marked.toml", format!("\u{feff}{text}\r\n"));
    let answer = json(&[&marked("attempts = 9")]);
    assert_eq!(
        (&answer["findings"][0]["column"], &answer["findings"][0]["endColumn"]),
        (&12.into(), &13.into())
    );
    let allowed = "# redial: allow too-many-attempts because of the mark\r\nattempts = 9";
    assert!(rules(&json(&[&marked(allowed)])).is_empty());
}

#[test]
fn an_unreadable_file_does_not_hide_the_others() {
    let scratch = Scratch::new("rest");
    scratch.file("a.toml", "[policy.broken]\nattempts = \"many\"\n");
    scratch.file("b.toml", NO_JITTER);
    let output = check(&[&scratch.path("")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("[no-jitter]"));
    let summary = "\n1 problem, 1 error in 2 files; 1 policy\n";
    assert!(text(&output.stdout).ends_with(summary), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("a.toml:2:12"), "{}", text(&output.stderr));
    let answer = json(&[&scratch.path("")]);
    assert_eq!(answer["problems"][0]["line"], 2);
}

#[test]
fn files_are_in_order_and_read_once() {
    let scratch = Scratch::new("order");
    for name in ["b/z.toml", "b/a.toml", "a.toml", "c.toml"] {
        scratch.file(name, NO_JITTER);
    }
    let answer = json(&[&scratch.path(""), &scratch.path("c.toml")]);
    let files = answer["findings"].as_array().unwrap().iter();
    let files: Vec<String> =
        files.map(|it| it["file"].as_str().unwrap().replace(&scratch.path(""), "")).collect();
    assert_eq!(files, ["a.toml", "b/a.toml", "b/z.toml", "c.toml"]);
}

#[test]
fn a_budget_may_be_in_another_file_than_its_route() {
    let scratch = Scratch::new("mesh");
    let route = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: pay}\nspec:\n  hosts: [pay]\n  http:\n  - match: [{method: {exact: GET}}]\n    route: [{destination: {host: pay}}]\n    timeout: 5s\n    retries: {attempts: 2, perTryTimeout: 1s, retryOn: 'connect-failure'}\n";
    let budget = "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: pay}\nspec:\n  host: pay\n  trafficPolicy: {retryBudget: {percent: 10, minRetryConcurrency: 3}}\n";
    let other =
        "apiVersion: v1\nkind: Service\nmetadata: {name: pay}\nspec: {ports: [{port: 80}]}\n";
    scratch.file("apps/service.yaml", other);
    scratch.file("mesh/route.yaml", format!("{other}---\n{route}"));
    let directory = scratch.path("");
    let without = json(&[&directory]);
    assert!(rules(&without).contains(&"no-budget"), "{without}");
    assert_eq!((&without["files"], &without["policies"]), (&1.into(), &1.into()));
    scratch.file("policies/budget.yaml", budget);
    let with = json(&[&directory]);
    assert!(!rules(&with).contains(&"no-budget"), "{with}");
    assert_eq!((&with["files"], &with["policies"]), (&2.into(), &1.into()));
}

#[test]
fn standard_input_is_a_file() {
    let mut child = crate::program(env!("CARGO_BIN_EXE_redial"));
    child.args(["check", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(NO_JITTER.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("--> <stdin>:5:18"), "{}", text(&output.stdout));
}

#[test]
fn a_wrong_format_is_an_error() {
    let scratch = Scratch::new("wrong");
    let path = scratch.file("service.json", "{\"a\": 1}");
    let output = check(&[&path, "--from", "grpc"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("retry config of grpc"), "{}", text(&output.stderr));
}

#[test]
fn a_comment_with_a_reason_suppresses_a_finding() {
    let scratch = Scratch::new("comment");
    let allowed = NO_JITTER
        .replace("backoff", "# redial: allow no-jitter because it is one cron job\nbackoff");
    let path = scratch.file("policy.toml", allowed);
    let output = check(&[&path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert_eq!(text(&output.stdout), "no findings, 1 suppressed in 1 file; 1 policy\n");
    let answer = json(&[&path]);
    assert!(rules(&answer).is_empty());
    assert_eq!(answer["suppressed"][0]["reason"], "it is one cron job");
    let sarif = check(&[&path, "--format", "sarif"]);
    let sarif: Value = serde_json::from_slice(&sarif.stdout).unwrap();
    let suppression = &sarif["runs"][0]["results"][0]["suppressions"][0];
    assert_eq!(suppression["kind"], "inSource");
    assert_eq!(suppression["justification"], "it is one cron job");
}

/// Checks the parts of the schema that code scanning needs.
#[test]
fn sarif_has_a_page_for_every_rule() {
    let scratch = Scratch::new("pages");
    let path = scratch.file("p.toml", "[policy.p]\nattempts = 3\n");
    let output = check(&[&path, "--format", "sarif"]);
    let sarif: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rules = sarif["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    for rule in rules {
        let (id, uri) = (rule["id"].as_str().unwrap(), rule["helpUri"].as_str().unwrap());
        let name = id.replace('-', "_").to_uppercase();
        assert!(uri.starts_with("https://") && uri.ends_with(&format!("={name}")), "{id}: {uri}");
    }
}

#[test]
fn sarif_is_complete() {
    let scratch = Scratch::new("sarif");
    let path = scratch.file("a b%ü.toml", NO_JITTER);
    let output = check(&["bad.toml", &path, "none.toml", "--format", "sarif"]);
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    assert_eq!(run["columnKind"], "unicodeCodePoints");
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    for rule in rules {
        assert!(rule["shortDescription"]["text"].is_string() && rule["help"]["text"].is_string());
        let level = rule["defaultConfiguration"]["level"].as_str().unwrap();
        assert!(["note", "warning", "error"].contains(&level));
    }
    let results = run["results"].as_array().unwrap();
    assert!(results.len() > 5);
    for result in results {
        let index = result["ruleIndex"].as_u64().unwrap() as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(result["message"]["text"].as_str().unwrap().contains("\nHelp: "));
        let region = &result["locations"][0]["physicalLocation"]["region"];
        for name in ["startLine", "startColumn", "endLine", "endColumn"] {
            assert!(region[name].as_u64().unwrap() >= 1);
        }
        assert!(region["endColumn"].as_u64() > region["startColumn"].as_u64());
    }
    let uri =
        |at: usize| &results[at]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    assert_eq!(uri(0), "bad.toml");
    let last = uri(results.len() - 1).as_str().unwrap();
    assert!(last.starts_with("file:///") && last.ends_with("/a%20b%25%C3%BC.toml"), "{last}");
    let invocation = &run["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    assert_eq!(invocation["exitCode"], 2);
    let notification = &invocation["toolExecutionNotifications"][0];
    assert!(notification["message"]["text"].as_str().unwrap().contains("No such file"));
}

#[test]
fn annotations_are_one_line_each() {
    let scratch = Scratch::new("github");
    let path = scratch.file("a,b:c%.toml", NO_JITTER);
    let output = check(&[&path, "none.toml", "--format", "github"]);
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    let [finding, problem] = lines[..] else { panic!("{lines:?}") };
    let file = scratch.path("a%2Cb%3Ac%25.toml");
    let place =
        format!("::error file={file},line=5,endLine=5,col=18,endColumn=24,title=no-jitter::");
    assert!(finding.starts_with(&place), "{finding}");
    assert!(finding.contains("%0Ahelp: "));
    assert!(problem.starts_with("::error file=none.toml,title=unreadable::cannot read it"));
}

#[test]
fn simulations_have_numbers() {
    let answer = json(&["bad.toml", "--simulate"]);
    let findings = answer["findings"].as_array().unwrap();
    let simulated =
        |rule: &str| &findings.iter().find(|it| it["rule"] == rule).unwrap()["simulated"];
    let layered = simulated("layered-retries");
    assert_eq!(
        (&layered["scenario"], &layered["measure"]),
        (&"layers".into(), &"amplification".into())
    );
    assert_eq!((&layered["value"], &layered["fixed"]), (&24.0.into(), &8.0.into()), "3 × 8");
    let budget = simulated("no-budget");
    assert!(budget["value"].as_f64() > Some(8.0), "8 attempts: {budget}");
    assert!(budget["fixed"].as_f64() < Some(3.0), "{budget}");
    assert_eq!(simulated("no-jitter")["value"], 1.0, "all of them at once");
    assert!(simulated("no-jitter")["fixed"].as_f64() < Some(0.9));
    assert!(simulated("unsafe-without-key")["skipped"].is_string(), "Redial does nothing twice");
    assert_eq!(answer, json(&["bad.toml", "--simulate"]), "the same numbers again");
    let output = check(&["bad.toml", "--simulate", "--clients", "100000"]);
    assert!(
        text(&output.stdout).contains("a fleet 200 times smaller)"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn the_rules_are_listed() {
    let output = redial(&["check", "--list-rules"]);
    let line = text(&output.stdout).lines().find(|line| line.starts_with("no-jitter "));
    assert!(line.unwrap().contains("  error  "));
    let output = redial(&["check", "--list-rules", "--format", "json"]);
    let rules: Value = serde_json::from_slice(&output.stdout).unwrap();
    let simulated = rules.as_array().unwrap().iter().filter(|rule| !rule["scenario"].is_null());
    let simulated: Vec<String> = simulated
        .map(|rule| {
            format!("{} {} {}", rule["name"], rule["scenario"], rule["measure"]).replace('"', "`")
        })
        .collect();
    let page = include_str!("../../../../docs/check.md");
    let rows =
        page.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 5);
    let mut on_page: Vec<String> = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        on_page
            .extend(cells[1].split(", ").map(|rule| format!("{rule} {} {}", cells[2], cells[3])));
    }
    assert_eq!(simulated.len(), on_page.len());
    assert!(simulated.iter().all(|rule| on_page.contains(rule)), "{simulated:?} {on_page:?}");
    assert!(text(&redial(&["check", "--help"]).stdout).contains("Examples:"));
}
