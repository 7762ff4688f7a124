//! May this change go in? The quick checks come before the slow ones and the first that fails ends
//! the run; only the tests run to their end, because their count is the answer.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::cargo::{cargo, shown, status};
use crate::{test, tidy};

/// Runs every stage and returns the exit code; the last line printed is the tests' count.
pub fn run() -> Result<u8, String> {
    let mut clock = Clock::default();
    let checked = check(&mut clock);
    let report = checked.and_then(|()| clock.stage("test", || test::run(&[])));
    println!("\n{}", clock.summary());
    let report = report?;
    print!("{report}");
    Ok(report.exit_code())
}

fn check(clock: &mut Clock) -> Result<(), String> {
    clock.stage("fmt", || succeed(&mut cargo(["fmt", "--all", "--check"]), "run `cargo fmt`"))?;
    clock.stage("clippy", || {
        let all = "clippy --workspace --all-targets --all-features -- -D warnings";
        let bare_core = "clippy --package redial-core --no-default-features -- -D warnings";
        succeed(&mut cargo(all.split(' ')), "mend what it names")?;
        succeed(&mut cargo(bare_core.split(' ')), "mend what it names")
    })?;
    clock.stage("features", features)?;
    clock.stage("tidy", tidy::run)?;
    clock.stage("docs", || {
        let doc = "doc --workspace --no-deps --all-features --exclude redial-bench --exclude xtask";
        let mut command = cargo(doc.split(' '));
        succeed(command.env("RUSTDOCFLAGS", "-Dwarnings"), "mend what it names")
    })
}

/// What all features hide: an import that only one of them needs, a type that another one brings along. Each set
/// that somebody would choose builds alone, without a warning.
fn features() -> Result<(), String> {
    const SETS: [&str; 8] = ["", "tokio", "http", "reqwest", "tonic", "redis", "tower", "serde"];
    for set in SETS {
        let clippy = "clippy --quiet --package redial --no-default-features --features";
        let mut command = cargo(clippy.split(' ').chain([set, "--", "-D", "warnings"]));
        succeed(&mut command, "mend what it names")?;
    }
    Ok(())
}

fn succeed(command: &mut Command, remedy: &str) -> Result<(), String> {
    if status(command)?.success() {
        return Ok(());
    }
    Err(format!("{} failed: {remedy}, then run `cargo xtask ci` again", shown(command)))
}

/// How long each stage took, in the order they ran.
#[derive(Default)]
struct Clock {
    stages: Vec<(&'static str, Duration)>,
}

impl Clock {
    fn stage<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        println!("== {name}");
        let start = Instant::now();
        let result = work();
        self.stages.push((name, start.elapsed()));
        result
    }

    fn summary(&self) -> String {
        let stages = self.stages.iter();
        let shown: Vec<_> =
            stages.map(|(name, took)| format!("{name} {:.1} s", took.as_secs_f64())).collect();
        format!("== {}", shown.join(", "))
    }
}
