//! May this change go in? The quick checks come before the slow ones and the first that fails ends the run; only the
//! tests all run, because their count is the result.

use std::time::{Duration, Instant};

use crate::cargo::{cargo, run as succeed};
use crate::{examples, features, fuzz, test, tidy, web};

/// Runs every stage and returns the exit code; the last line printed is the tests' count.
pub fn run() -> Result<u8, String> {
    let mut clock = Clock::default();
    let checked = check(&mut clock);
    let report = checked.and_then(|()| clock.stage("test", || test::run(&[], false)));
    println!("\n{}", clock.summary());
    let report = report?;
    print!("{report}");
    Ok(report.exit_code())
}

fn check(clock: &mut Clock) -> Result<(), String> {
    const FIX: &str = "fix what it reports";
    clock.stage("fmt", || succeed(&mut cargo(["fmt", "--all", "--check"]), "run `cargo fmt`"))?;
    clock.stage("tidy", tidy::run)?;
    clock.stage("web", web::verify)?;
    clock.stage("clippy", || {
        // Not `--all-targets`, which checks every library a second time, as a test without tests.
        let all =
            "clippy --workspace --all-features --lib --bins --examples --tests -- -D warnings";
        succeed(&mut cargo(all.split(' ')), FIX)
    })?;
    clock.stage("features", features::check)?;
    clock.stage("examples", examples::check)?;
    clock.stage("fuzz", fuzz::check)?;
    clock.stage("docs", || {
        let doc = "doc --workspace --no-deps --all-features --exclude redial-bench --exclude xtask";
        succeed(cargo(doc.split(' ')).env("RUSTDOCFLAGS", "-Dwarnings"), FIX)
    })
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
