//! Does everything work? Unit and integration tests, the examples in the docs and the loom models
//! each need another cargo command, some tests need a server, and a failure in one stage must not
//! hide the next: this runs them all and counts them as one.

use std::env;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::cargo::{cannot_start, cargo, root, shown, target_dir};
use crate::envoy;
use crate::postgres::{self, Postgres};
use crate::redis::{self, Redis};
use crate::setup::{self, Use};
use crate::tally::Tally;

/// How a whole run ended. Shown, its last line is the count.
#[derive(Debug, Default)]
pub struct Report {
    tally: Tally,
    /// The stages that did not succeed.
    broken: Vec<&'static str>,
}

impl Report {
    /// 0 when every stage succeeded.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(self.tally.failed > 0 || !self.broken.is_empty())
    }

    /// Adds a stage. One that breaks without naming a failed test (it did not build, or a binary
    /// crashed) counts as one failure, so that the count never reads better than the run was.
    pub fn add(&mut self, stage: &'static str, mut tally: Tally, succeeded: bool) {
        if !succeeded {
            self.broken.push(stage);
            tally.failed = tally.failed.max(1);
        }
        self.tally += tally;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.broken.is_empty() {
            writeln!(f, "failed: {} (see above)", self.broken.join(", "))?;
        }
        writeln!(f, "{}", self.tally)
    }
}

/// Starts the servers, runs every stage with `extra` arguments for `cargo test`, and stops the
/// servers.
pub fn run(extra: &[String]) -> Result<Report, String> {
    setup::try_for(Use::Test);
    let redis = or_warn(Redis::start());
    let postgres = or_warn(Postgres::start());
    let envoy = or_warn(envoy::install());

    let mut report = Report::default();
    for (stage, mut command) in stages() {
        command.arg("--no-fail-fast").args(extra);
        if let Some(redis) = &redis {
            command.env(redis::VARIABLE, redis.url());
        }
        if let Some(postgres) = &postgres {
            command.env(postgres::VARIABLE, postgres.url());
        }
        if let Some(envoy) = &envoy {
            command.env(envoy::VARIABLE, envoy);
        }
        let (tally, succeeded) = run_stage(&mut command)?;
        report.add(stage, tally, succeeded);
    }
    Ok(report)
}

/// What is missing is a warning: the tests that need it fail by its name.
fn or_warn<T>(started: Result<T, String>) -> Option<T> {
    started.map_err(|message| eprintln!("warning: {message}")).ok()
}

fn stages() -> Vec<(&'static str, Command)> {
    const ALL: &str = "test --workspace --all-features --exclude redial-bench";
    let mut stages = vec![
        ("unit and integration tests", cargo(ALL.split(' ').chain(["--all-targets"]))),
        ("documentation examples", cargo(ALL.split(' ').chain(["--doc"]))),
    ];
    if root().join("crates/redial-core/tests/loom/main.rs").exists() {
        stages.push(("loom models", loom()));
    }
    stages
}

fn loom() -> Command {
    let mut command = cargo("test --release --package redial-core --test loom".split(' '));
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    command
        // Other flags mean another build of everything: keep it out of the way of the usual one.
        .arg("--target-dir")
        .arg(target_dir().join("loom"))
        .env("RUSTFLAGS", format!("{flags} --cfg loom").trim())
        // Cargo prefers this variable to the one above and would then build no model at all.
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    command
}

/// Runs one stage, passes its output on line by line, and counts.
fn run_stage(command: &mut Command) -> Result<(Tally, bool), String> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| cannot_start(command, &error))?;
    let mut tally = Tally::default();
    if let Some(stdout) = child.stdout.take() {
        let mut stdout = BufReader::new(stdout);
        let mut line = Vec::new();
        // A test may print bytes that are no text, so lines are read as bytes.
        while matches!(stdout.read_until(b'\n', &mut line), Ok(1..)) {
            // A binary that crashed may end in the middle of a line; the count stands on a line of
            // its own.
            if line.last() != Some(&b'\n') {
                line.push(b'\n');
            }
            // Who closed our output still wants the servers stopped and the exit code right.
            let _ = io::stdout().write_all(&line);
            tally.read(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    let status = child.wait().map_err(|error| format!("lost {}: {error}", shown(command)))?;
    Ok((tally, status.success()))
}
