//! What is said while a simulation runs.

use std::time::Duration;

use redial_sim::report::RunProgress;

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
        lines.extend(progress.log_line(at / 20.0, seconds(at)));
    }
    assert_eq!(
        lines,
        [
            "25 % (0.5 of 2 runs), 30 s left",
            "50 % (1.0 of 2 runs), 20 s left",
            "75 % (1.5 of 2 runs), 10 s left"
        ]
    );
    assert_eq!(progress.line(0.01, seconds(1.0)), "0 % (0.0 of 2 runs)", "too early to tell");
}
