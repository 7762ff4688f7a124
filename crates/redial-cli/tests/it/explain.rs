use serde_json::Value;

use super::{redial, text};

/// `redial explain` with these arguments.
fn explain(args: &[&str]) -> std::process::Output {
    redial(&[&["explain"], args].concat())
}

fn json(args: &[&str]) -> Value {
    let output = explain(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A policy file that exists during the test.
struct File(std::path::PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn help_has_examples() {
    let output = explain(&["--help"]);
    assert!(output.status.success());
    for word in ["Examples:", "--outcomes", "retry-after=7", "read-only"] {
        assert!(text(&output.stdout).contains(word), "{word}");
    }
}

#[test]
fn bad_input_is_exit_2_and_named() {
    let broken = File::new("broken.toml", "backoff = { base = '5s' }");
    let misspelt = File::new("misspelt.toml", "attempt = 3");
    for (args, said) in [
        (&["--policy", "standrad"][..], "payment-processor"),
        (&["--policy", "no/such.toml"], "no/such.toml"),
        (
            &["--policy", broken.path()],
            "backoff.base: must be at most backoff.cap, which is 2s, but is 5s",
        ),
        (&["--policy", broken.path()], broken.path()),
        (&["--policy", misspelt.path()], "unknown field `attempt`"),
        (&["--policy", "web", "--outcomes", "503,50x"], "`50x` is not an outcome"),
        (&["--policy", "web", "--outcomes", "503@later"], "`503@later` has an invalid hint"),
        (&["--policy", "web", "--safety", "safe"], "conditional"),
        (&["--policy", "web", "--latency", "20"], "a duration such as"),
        (&["--policy", "web", "--latency", "2d"], "at most 24h"),
        (&["--policy", "web", "--runs", "0"], "1..=1000"),
        (&[], "--policy"),
    ] {
        let output = explain(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "nothing on stdout but the answer");
        assert!(text(&output.stderr).contains(said), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn an_upstream_stands_for_its_policy() {
    let file = File::new(
        "upstreams.toml",
        "[policy.twice]\nattempts = 2\n[upstream.app]\nto = 'http://a'\npolicy = 'twice'\n\
         [upstream.other]\nto = 'http://b'",
    );
    let attempts = |name: &str| {
        let policy = format!("{}{name}", file.path());
        json(&["--policy", &policy])["worst_case"]["attempts"].as_u64()
    };
    assert_eq!([attempts(""), attempts("#twice"), attempts("#app")], [Some(2); 3]);
    assert_eq!(attempts("#other"), Some(4));
    let output = explain(&["--policy", &format!("{}#ap", file.path())]);
    assert!(text(&output.stderr).contains("only twice, app, other; did you mean `app`?"));
    let alone = File::new("upstream.toml", "[upstream.app]\nto = 'http://a'");
    assert_eq!(json(&["--policy", alone.path()])["worst_case"]["attempts"], 4);
}

#[test]
fn an_invalid_file_is_shown_with_its_line() {
    let file =
        File::new("caret.toml", "[policy.a]\nextends = 'web'\nbackoff = { jiter = 'full' }\n");
    let output = explain(&["--policy", file.path()]);
    let error = text(&output.stderr);
    for expected in [
        "not a valid policy file\nerror: policy.a.backoff: unknown field `jiter`",
        "caret.toml:3:13\n  |\n3 | backoff = { jiter = 'full' }\n  |             ^^^^^",
        "did you mean `jitter`?",
    ] {
        assert!(error.contains(expected), "{error}");
    }
    let long = format!("attempts = '{}'", "ö".repeat(10_000));
    let file = File::new("long.toml", &long);
    let output = explain(&["--policy", file.path()]);
    assert!(text(&output.stderr).lines().all(|line| line.chars().count() < 400));
}

#[test]
fn a_policy_of_a_file_extends_another() {
    let file = File::new("base.toml", "[policy.a]\nattempts = 2\n[policy.b]\nextends = 'a'\n");
    let answer = json(&["--policy", &format!("{}#b", file.path())]);
    assert_eq!(answer["policy"]["attempts"], 2);
    let output = explain(&["--policy", &format!("{}#bb", file.path())]);
    assert!(text(&output.stderr).contains("no [policy.bb] in the file, only a, b"));
}

#[test]
fn the_schema_is_json() {
    let output = redial(&["schema"]);
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert!(text(&redial(&["schema", "--help"]).stdout).contains("#:schema ./redial.schema.json"));
}

#[test]
fn json_has_the_steps_the_waits_the_runs_and_the_worst_case() {
    let file = File::new(
        "plain.toml",
        "extends = 'standard-0.1'\nbackoff = { jitter = 'none' }\nattempt_timeout = '150ms'",
    );
    let args = ["--policy", file.path(), "--outcomes", "503@slot=5ms,timeout,200", "--runs", "2"];
    let answer = json(&[&args[..], &["--latency", "20ms"]].concat());
    assert_eq!(
        answer["steps"],
        serde_json::json!([
            { "call": 1, "attempt": 1, "outcome": "503@slot=5ms", "verdict": "wait",
              "reason": "overloaded, hint honoured", "delay_ms": 5.0, "budget": 9, "elapsed_ms": 20.0 },
            { "call": 1, "attempt": 2, "outcome": "timeout", "verdict": "wait",
              "reason": "timeout", "delay_ms": 200.0, "budget": 8, "elapsed_ms": 175.0 },
            { "call": 1, "attempt": 3, "outcome": "200", "verdict": "done",
              "reason": "success", "delay_ms": null, "budget": 8, "elapsed_ms": 395.0 },
        ])
    );
    let wait = serde_json::json!({ "retry": 1, "ceiling_ms": 100.0, "mean_ms": 100.0,
        "p5_ms": 100.0, "p95_ms": 100.0, "capped": false });
    assert_eq!(answer["waits"][0], wait);
    assert_eq!(answer["runs"], serde_json::json!([[100.0, 200.0, 400.0], [100.0, 200.0, 400.0]]));
    let worst = serde_json::json!({ "attempts": 4, "elapsed_ms": 1300.0,
        "elapsed_with_hints_ms": 10000.0, "in_flight": 1 });
    assert_eq!(answer["worst_case"], worst);
    assert_eq!(answer["cap"], serde_json::json!({ "ms": 2000.0, "retry": null }));
    assert_eq!(answer["policy"]["attempt_timeout"], "150ms");
    let rules = "Budget: retries are at most 10% of the calls of the last 10 s, and 1/s besides, whatever becomes of them.";
    assert_eq!(answer["rules"], serde_json::json!([rules]));
}

/// In a total outage: two retries that a new process has besides the one of its opening balance, and no more.
#[test]
fn the_default_budget_is_explained_and_bounds_an_outage() {
    let answer = json(&["--policy", "standard", "--outcomes", "503; 503; 503"]);
    let steps = answer["steps"].as_array().unwrap();
    let waits = steps.iter().filter(|step| step["verdict"] == "wait").count();
    assert_eq!((waits, &steps[3]["reason"]), (3, &Value::from("attempts")));
    let last = "budget, no longer parked: alone";
    assert_eq!(steps.last().unwrap()["reason"], last);
    let output = explain(&["--policy", "standard", "--outcomes", "503; 503; 503"]);
    let why = "\nbudget: the retry budget is dry.\nalone: no other call is expected that could show a recovery, and the \
               budget does not pay for a probe.\nThe budget column";
    assert!(text(&output.stdout).contains(why), "{}", text(&output.stdout));
    let lines = [
        "Budget: 200 tokens at most; a retry costs 20, 40 after a timeout. A success earns 1, and a retry that succeeds gets \
         back its cost and 10 more.",
        "Slowdown: nothing is paid for while successes take more than 1.5 times as long as usual, because a retry would \
         displace another call.",
        "Bound: if everything fails, a process makes at most 10 retries, 5 after timeouts; a new one 3, 0 after timeouts; \
         then 1/30s. The number of calls does not matter.",
        "Hedges: another attempt beside one that takes longer than 33.33% of the time until the deadline, if one that was \
         sent later has succeeded, and repeating is safe; at most 3 at a time.\nHedges count as attempts and draw on the \
         budget. The steps and waits above are those without hedges.",
        "Stall: after 5 attempts in a row without an answer, some calls are refused, first attempts too: none within a \
         timeout of the last success, and up to 60% from 2.2 timeouts on. A success ends it.",
    ];
    assert_eq!(answer["rules"], serde_json::json!(lines));
    let printed = explain(&["--policy", "standard"]).stdout;
    assert!(lines.iter().all(|line| text(&printed).contains(line)), "{}", text(&printed));
}

#[test]
fn unlimited_values_are_null() {
    let file = File::new("endless.toml", "deadline = 'none'");
    let answer = json(&["--policy", file.path()]);
    assert_eq!(answer["worst_case"]["elapsed_ms"], Value::Null);
    assert_eq!(answer["steps"], serde_json::json!([]));
    let printed = explain(&["--policy", file.path()]).stdout;
    assert!(text(&printed).contains("no limit on their duration"));
    assert!(text(&printed).contains("Hedges: none, because"));
}

#[test]
fn the_same_seed_prints_the_same_bytes() {
    let plain = File::new("seedless.toml", "backoff = { jitter = 'none' }\npark = 'none'");
    let print = |policy: &str, seed: &str| {
        let args = ["--policy", policy, "--outcomes", "503; timeout", "--json", "--seed", seed];
        explain(&args).stdout
    };
    assert_eq!(print("web", "7"), print("web", "7"));
    assert_ne!(print("web", "7"), print("web", "8"));
    assert_eq!(print(plain.path(), "7"), print(plain.path(), "8"));
    let default = explain(&["--policy", "web", "--outcomes", "503; timeout", "--json"]).stdout;
    assert_eq!(print("web", "0"), default);
}

#[test]
fn a_policy_without_retries_says_so() {
    let file = File::new("once.toml", "attempts = 1");
    let output = explain(&["--policy", file.path(), "--outcomes", "503"]);
    assert!(text(&output.stdout).contains("one attempt and no retries"));
    assert!(text(&output.stdout).contains("attempts: all attempts were used."));
}

/// The page shows the current output.
#[test]
fn the_page_shows_what_the_command_prints() {
    let page = include_str!("../../../../docs/explain.md");
    let shown: Vec<_> =
        page.split("```").filter_map(|part| part.strip_prefix("text\n$ redial ")).collect();
    assert!(!shown.is_empty());
    for block in shown {
        let (command, printed) = block.split_once('\n').unwrap();
        let (before, outcomes) = command.split_once(" '").unwrap();
        let (outcomes, after) = outcomes.split_once('\'').unwrap();
        let args: Vec<_> =
            before.split(' ').chain([outcomes]).chain(after.split_whitespace()).collect();
        assert_eq!(text(&redial(&args).stdout), printed);
    }
}

#[test]
fn hedges_and_the_fleet_are_shown() {
    let file = File::new(
        "hedged.toml",
        "[policy.a]\nhedge = { after = '200ms', multiple = 1.5, most = 2 }\nfleet = 'shop'\nbudget.window = {}\n\
         [policy.b]\nhedge.quantile = 0.95\n[fleet.shop]\nredis = 'redis://redis.internal'\n",
    );
    let shown = |name: &str| {
        let output = explain(&["--policy", &format!("{}#{name}", file.path())]);
        text(&output.stdout).to_owned()
    };
    for line in [
        "Worst case: 4 attempts, up to 3 in flight at once, ",
        "Hedges: another attempt beside one that takes longer than 300 ms, if repeating is safe; at most 2 at a time.",
        "Fleet: the budget is one for all instances of shop, in redis://redis.internal.",
    ] {
        assert!(shown("a").contains(line), "{}", shown("a"));
    }
    assert!(
        shown("b").contains("longer than the 0.95 quantile of the latencies"),
        "{}",
        shown("b")
    );
}
