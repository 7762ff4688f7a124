//! A simulation must show the harm of a rule, and less of it with the fix.

use serde_json::Value;

use crate::{Scratch, redial, text};

/// A violation of each rule that its scenario shows.
const BAD: &[(&str, &str)] = &[
    ("no-jitter", "[policy.p]\nbackoff = { growth = 'constant', jitter = 'none' }"),
    ("partial-jitter", "[setting]\nclients = 500\n[policy.p]\nbackoff.jitter = 'equal'"),
    ("no-budget", "[policy.p]\nbudget = 'none'"),
    ("multiplier-above-target", "[policy.p]\nbudget.window.ratio = 0.9"),
    ("too-many-attempts", "[policy.p]\nattempts = 11\nbudget = 'none'"),
    (
        "floor-exceeds-share",
        "[setting]\nclients = 200\ncapacity = '1000/s'\n[policy.p]\nbudget.window.ratio = 0.1",
    ),
    ("hint-ignored", "[policy.p]\nhint = 'ignore'"),
    ("no-timeout", "[policy.p]\nhedge = 'none'\ndeadline = 'none'"),
    (
        "attempt-timeout-not-below-deadline",
        "[policy.p]\nhedge = 'none'\nattempt_timeout = '2s'\ndeadline = '2s'",
    ),
    (
        "slower-than-slo",
        "[setting]\nslo = '2s'\n[policy.p]\nattempt_timeout = '1s'\ndeadline = '10s'",
    ),
    (
        "unbounded-queue",
        "[setting]\nqueue = 'unbounded'\n[policy.p]\nattempt_timeout = '1s'\nbudget = 'none'",
    ),
    (
        "layered-retries",
        "[setting]\nchain = [{ name = 'edge', attempts = 3 }, 'p']\n[policy.p]\nattempts = 3",
    ),
];

/// The simulation for this rule.
fn simulated(rule: &str, path: &str) -> Value {
    let output = redial(&["check", path, "--simulate", "--format", "json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        panic!("{}", text(&output.stderr));
    });
    let mut findings = answer["findings"].as_array().unwrap().iter();
    let finding = findings.find(|finding| finding["rule"] == rule);
    finding.unwrap_or_else(|| panic!("{rule} has nothing to say"))["simulated"].clone()
}

#[test]
fn the_fix_is_better() {
    let scratch = Scratch::new("simulations");
    // Redial does not repeat a write that may have been processed; resilience4j does.
    let careless = "resilience4j.retry.instances.pay.maxAttempts=3\n\
                    resilience4j.timelimiter.instances.pay.timeoutDuration=1s\n";
    let careless = ("unsafe-without-key", scratch.file("application.properties", careless));
    let ours = BAD.iter().map(|(rule, bad)| (*rule, scratch.file(&format!("{rule}.toml"), bad)));
    for (rule, path) in ours.chain([careless]) {
        let simulated = simulated(rule, &path);
        let value = |name: &str| simulated[name].as_f64().unwrap_or_else(|| panic!("{rule}"));
        assert!(value("value") > value("fixed") * 1.05, "{rule}: {simulated}");
    }
}

/// Another field of the policy may prevent the harm.
#[test]
fn a_scenario_that_shows_no_harm_says_so() {
    let scratch = Scratch::new("unshown");
    let saved = "[setting]\nslo = '2s'\n[policy.p]\nattempt_timeout = '150ms'\ndeadline = '2s'";
    let path = scratch.file("saved.toml", saved);
    let output = redial(&["check", &path, "--simulate"]);
    let printed = text(&output.stdout);
    assert!(printed.contains("simulated: this scenario does not show it. "), "{printed}");
}

/// A million attempts are more than the simulator supports; the numbers say so.
#[test]
fn a_million_attempts_are_simulated() {
    let scratch = Scratch::new("million");
    let path = scratch.file("many.toml", "[policy.p]\nattempts = 1000000\nbudget = 'none'\n");
    let output = redial(&["check", &path, "--simulate"]);
    let printed = text(&output.stdout);
    let simulated = printed.lines().filter(|line| line.contains("simulated: load at the peak"));
    let simulated: Vec<&str> = simulated.collect();
    assert_eq!(simulated.len(), 2, "no-budget and too-many-attempts: {printed}");
    let bounded = "65535 attempts, the most that can be simulated";
    assert!(simulated.iter().all(|line| line.contains(bounded)), "{printed}");
}

/// The reason is printed where the numbers would be.
#[test]
fn a_finding_that_cannot_be_simulated_says_why() {
    let scratch = Scratch::new("impossible");
    let unsafe_route = "[policy.p]\n[[route]]\npolicy = 'p'\nmethods = ['POST']\n";
    let path = scratch.file("unsafe.toml", unsafe_route);
    let printed = redial(&["check", &path, "--simulate"]);
    let printed = text(&printed.stdout);
    let why = "= not simulated: a client that checks safety does not repeat writes without a key";
    assert!(printed.contains(why), "{printed}");
    let skipped = &simulated("unsafe-without-key", &path)["skipped"];
    assert!(skipped.as_str().is_some_and(|it| why.ends_with(it)), "{skipped}");
}
