use redial_policy::rubric::{CRITERIA, RubricScore};
use redial_policy::{Format, Reviewed};

/// Which points an answer has, and its grade.
fn scored(text: &str) -> (Vec<bool>, &'static str) {
    let reviewed = Reviewed::of("answer.toml", text, Format::Redial);
    assert!(reviewed.problems.is_empty(), "{:?}", reviewed.problems);
    let findings = reviewed.findings.iter().map(|(finding, _)| finding);
    let score = RubricScore::of(&reviewed.found[0], findings);
    (score.points.iter().map(|point| point.met).collect(), score.grade())
}

const GOOD: &str = "\
attempts = 4
attempt_timeout = \"10s\"
deadline = \"60s\"
retry_on = [\"connect\", \"timeout\", 429, 500, 503]
require_key = true
backoff = { base = \"500ms\", cap = \"20s\", jitter = \"full\" }
hint.honour = { cap = \"60s\" }
budget.window = { ratio = 0.1 }
hedge = \"none\"
stall = \"none\"
";

#[test]
fn each_point_is_lost_by_the_line_that_it_is_about() {
    assert_eq!(scored(GOOD), (vec![true; 5], "excellent"));
    let changes = [
        ("429, 500, 503]", "402, 429, 500, 503]"),
        ("require_key = true", "require_key = false"),
        ("jitter = \"full\"", "jitter = \"equal\""),
        ("hint.honour = { cap = \"60s\" }", "hint = \"ignore\""),
        ("budget.window = { ratio = 0.1 }", "budget = \"none\""),
    ];
    for (at, (from, to)) in changes.into_iter().enumerate() {
        assert!(GOOD.contains(from));
        let (met, grade) = scored(&GOOD.replace(from, to));
        let lost: Vec<usize> = (0..5).filter(|point| !met[*point]).collect();
        assert_eq!((lost, grade), (vec![at], "solid"), "{}", CRITERIA[at].name);
    }
}

#[test]
fn a_breaker_is_a_safeguard_too() {
    let breaker =
        GOOD.replace("budget.window = { ratio = 0.1 }", "budget = \"none\"\nbreaker = {}");
    assert_eq!(scored(&breaker), (vec![true; 5], "excellent"));
}

#[test]
fn a_policy_without_retries_is_no_answer() {
    let (met, grade) = scored("attempts = 1\nstall = \"none\"\n");
    assert_eq!((met, grade), (vec![false; 5], "not yet"));
}

#[test]
fn a_route_with_a_key_is_enough() {
    let routed = GOOD.replace("require_key = true\n", "");
    let policy = format!(
        "[policy.payments]\n{routed}\n[[route]]\nmethods = [\"POST\"]\npolicy = \"payments\"\n"
    );
    assert!(!scored(&policy).0[1], "payments without a key");
    assert!(scored(&format!("{policy}key = true\n")).0[1]);
}
