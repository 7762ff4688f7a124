//! What is said while a simulation runs.

use std::time::Duration;

use redial_sim::exact;
use redial_sim::report::RunProgress;
use redial_sim::scenario::{BuiltIn, Set};
use redial_sim::simulate::{PolicyAttempts, Watch};

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

#[test]
fn a_long_simulation_is_announced_once() {
    let mut progress = RunProgress::new(4.0);
    assert_eq!(progress.estimate(0.0, seconds(5.0)), None, "nothing is known yet");
    assert_eq!(progress.estimate(0.4, seconds(0.9)), None, "too early");
    assert_eq!(progress.estimate(0.4, seconds(1.0)), None, "10 s are not long");
    let said = progress.estimate(0.4, seconds(3.0));
    assert_eq!(said.as_deref(), Some("4 runs will take about 30 s; Ctrl-C ends it early"));
    assert_eq!(progress.estimate(0.4, seconds(9.0)), None);
    let said = RunProgress::new(1.0).estimate(0.01, seconds(4.0));
    assert_eq!(said.as_deref(), Some("1 run will take about 7 min; Ctrl-C ends it early"));
}

#[test]
fn a_log_gets_a_line_every_ten_seconds() {
    let mut progress = RunProgress::new(2.0);
    let mut lines = Vec::new();
    for tenth in 0..=350 {
        let at = f64::from(tenth) / 10.0;
        lines.extend(progress.log_line(at / 20.0, seconds(at), &PolicyAttempts::default()));
    }
    assert_eq!(
        lines,
        [
            "25 % (0.5 of 2 runs), 30 s left",
            "50 % (1.0 of 2 runs), 20 s left",
            "75 % (1.5 of 2 runs), 10 s left"
        ]
    );
    let none = PolicyAttempts::default();
    let early = progress.line(0.01, seconds(1.0), &none);
    assert_eq!(early, "0 % (0.0 of 2 runs)", "too early to tell");
}

#[test]
fn progress_names_the_policy_that_is_run_and_its_attempts() {
    let mut attempts = PolicyAttempts::default();
    attempts.add("peer:tenacity", 262_000_000);
    attempts.add("standard", 1_500);
    let progress = RunProgress::new(20.0);
    let line = |attempts: &PolicyAttempts| progress.line(5.0, seconds(10.0), attempts);
    let start = "25 % (5.0 of 20 runs), 30 s left; ";
    assert_eq!(line(&attempts), format!("{start}standard: 1500 attempts so far"));
    attempts.add("peer:tenacity", 1_000_000);
    assert_eq!(line(&attempts), format!("{start}peer:tenacity: 263M attempts so far"));
}

#[test]
fn a_simulation_that_takes_longer_than_announced_says_once_which_policy_is_the_cause() {
    let mut attempts = PolicyAttempts::default();
    attempts.add("peer:tenacity", 262_000_000);
    attempts.add("standard", 3_000_000);
    let mut progress = RunProgress::new(20.0);
    assert!(progress.estimate(2.0, seconds(3.0)).unwrap().contains("about 30 s"));
    assert_eq!(progress.late(0.1, seconds(9.0), &attempts), None, "too early to tell");
    assert_eq!(progress.late(5.1, seconds(11.0), &attempts), None, "44 s are not half longer");
    let why = "this takes longer than announced, about 60 s: of 265M attempts so far, peer:tenacity made 262M";
    assert_eq!(progress.late(4.0, seconds(12.0), &attempts).as_deref(), Some(why));
    assert_eq!(progress.late(4.0, seconds(90.0), &attempts), None, "once");
    // Nothing was announced, so it should have been short.
    let mut alone = PolicyAttempts::default();
    alone.add("mine", 7);
    let mut progress = RunProgress::new(20.0);
    assert_eq!(progress.late(19.0, seconds(14.0), &alone), None);
    let why = "this takes longer than announced: of 7 attempts so far, mine made all";
    assert_eq!(progress.late(0.0, seconds(16.0), &alone).as_deref(), Some(why));
    assert_eq!(RunProgress::new(1.0).late(0.1, seconds(99.0), &PolicyAttempts::default()), None);
}

#[test]
fn a_run_reports_the_attempts_of_its_policy() {
    let scenario = BuiltIn::find("blip").unwrap().read(&[Set::new("rate", "30000").unwrap()]);
    let (scenario, watch) = (scenario.unwrap(), Watch::default());
    let run = exact::run(&scenario, &scenario.subject("full").unwrap(), 1, &watch);
    let attempts = watch.attempts();
    let (policy, made) = attempts.current().unwrap();
    assert_eq!(policy, "full");
    assert!((1..=run.attempts).contains(&made), "{made} of {}", run.attempts);
    assert_eq!((attempts.most(), attempts.total()), (Some(("full", made)), made));
}
