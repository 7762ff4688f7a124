//! Does everything work? Unit and integration tests, the examples in the docs and the loom models each need another
//! cargo command, some tests need a server, and a failure in one must not hide the others: this runs them all and
//! counts them as one.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, available_parallelism};

use serde_json::Value;

use crate::cargo::{cannot_start, cargo, root, target_dir};
use crate::jobs::{Ended, Job, print, side_by_side};
use crate::postgres::{self, Postgres};
use crate::redis::{self, Redis};
use crate::setup::{self, Use};
use crate::tally::Tally;
use crate::{envoy, examples, grpc, up, web};

/// Crates whose tests wait for processes, servers and timers most of the time. The tests of the others compute, or load the
/// machine (redial-proxy has 10,000 callers), and run one crate after the other.
const WAITING: [&str; 3] = ["redial", "redial-cli", "redial-queue"];

/// How many tests that wait run at once on each processor.
const WAITING_PER_PROCESSOR: usize = 2;

/// How many busy loops `--busy` runs on each processor.
const LOOPS_PER_PROCESSOR: usize = 2;

/// How a whole run ended. Its `Display` ends with the line that has the count.
#[derive(Debug, Default)]
pub struct Report {
    tally: Tally,
    /// The jobs that did not succeed.
    broken: Vec<String>,
}

impl Report {
    /// 0 when every job succeeded.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(self.tally.failed > 0 || !self.broken.is_empty())
    }

    /// Adds a job. One that fails without naming a failed test (it did not build, or crashed) counts as one failure,
    /// so that the count never looks better than the run was.
    pub fn add(&mut self, Ended { name, mut tally, succeeded }: Ended) {
        if !succeeded {
            self.broken.push(name);
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

/// Starts the servers, runs every test with the arguments `extra`, and stops the servers. If `busy`, the machine has other work
/// meanwhile, and tests that depend on its speed fail.
pub fn run(extra: &[String], busy: bool) -> Result<Report, String> {
    setup::try_for(Use::Test);
    if let Err(message) = web::install() {
        eprintln!("warning: {message}");
    }
    let servers = Servers::start();
    let mut report = Report::default();
    let (programs, built) = build()?;
    report.add(Ended { name: "build".to_owned(), tally: Tally::default(), succeeded: built });

    let _busy = busy.then(BusyLoops::start);
    let (waiting, computing): (Vec<_>, Vec<_>) =
        programs.iter().partition(|program| WAITING.contains(&program.package()));
    let job = |program: &&Program| program.job(extra, &servers);
    for job in computing.iter().map(job) {
        side_by_side(vec![job], print)?.into_iter().for_each(|ended| report.add(ended));
    }
    let mut jobs: Vec<Job> = waiting.iter().map(job).collect();
    let threads = WAITING_PER_PROCESSOR * processors();
    for job in &mut jobs {
        job.command.env("RUST_TEST_THREADS", threads.to_string());
    }
    jobs.push(docs(extra));
    jobs.push(loom(extra));
    side_by_side(jobs, print)?.into_iter().for_each(|ended| report.add(ended));
    Ok(report)
}

fn processors() -> usize {
    available_parallelism().map_or(1, Into::into)
}

/// Loops that keep every processor busy, until this is dropped. They are threads, so they also end with this process, however
/// it ends.
struct BusyLoops(Arc<AtomicBool>);

impl BusyLoops {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..LOOPS_PER_PROCESSOR * processors() {
            let stop = Arc::clone(&stop);
            thread::spawn(move || while !stop.load(Ordering::Relaxed) {});
        }
        Self(stop)
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What tests need beside the code. What cannot be started is a warning: the tests that need it fail with its name.
struct Servers {
    redis: Option<Redis>,
    postgres: Option<Postgres>,
    envoy: Option<PathBuf>,
    grpc: Option<PathBuf>,
}

impl Servers {
    fn start() -> Self {
        fn or_warn<T>(started: Result<T, String>) -> Option<T> {
            started.map_err(|message| eprintln!("warning: {message}")).ok()
        }
        Self {
            redis: or_warn(Redis::start()),
            postgres: or_warn(Postgres::start()),
            envoy: or_warn(envoy::install()),
            grpc: or_warn(grpc::install()),
        }
    }

    fn pass_to(&self, command: &mut Command) {
        if let Some(redis) = &self.redis {
            command.env(redis::VARIABLE, redis.url());
        }
        if let Some(postgres) = &self.postgres {
            command.env(postgres::VARIABLE, postgres.url());
        }
        if let Some(envoy) = &self.envoy {
            command.env(envoy::VARIABLE, envoy);
        }
        if let Some(grpc) = &self.grpc {
            command.env(grpc::VARIABLE, grpc);
        }
    }
}

/// A test program that cargo has built.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The name of its target.
    pub target: String,
    /// The manifest of its crate.
    pub manifest: PathBuf,
    /// Where it is.
    pub path: PathBuf,
}

impl Program {
    fn folder(&self) -> &Path {
        self.manifest.parent().unwrap_or(Path::new("."))
    }

    /// Folders have the names of their crates.
    fn package(&self) -> &str {
        self.folder().file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Runs it as `cargo test` does.
    fn job(&self, extra: &[String], servers: &Servers) -> Job {
        let mut command = Command::new(&self.path);
        command.current_dir(self.folder()).env("CARGO_MANIFEST_DIR", self.folder());
        // What is after the dashes in a line for `cargo test` is for the program as well.
        command.args(extra.iter().filter(|arg| *arg != "--")).stdin(Stdio::null());
        command.env(up::VARIABLE, root().join(target_dir()).join("debug/redial"));
        command.env(examples::VARIABLE, root().join(target_dir()).join("debug/examples"));
        servers.pass_to(&mut command);
        Job { name: format!("{} {}", self.package(), self.target), command }
    }
}

const ALL: &str = "test --workspace --all-features --exclude redial-bench --no-fail-fast";

/// Builds all test programs, and says whether each could be built.
fn build() -> Result<(Vec<Program>, bool), String> {
    let args = ["--no-run", "--message-format=json-render-diagnostics"];
    let mut command = cargo(ALL.split(' ').chain(args));
    let child = command.stdout(Stdio::piped()).spawn();
    let output = child.and_then(std::process::Child::wait_with_output);
    let output = output.map_err(|error| cannot_start(&command, &error))?;
    Ok((programs(&String::from_utf8_lossy(&output.stdout)), output.status.success()))
}

/// The test programs in the messages that cargo prints in JSON.
#[must_use]
pub fn programs(messages: &str) -> Vec<Program> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let tests = messages.filter(|message| message["profile"]["test"] == true);
    tests
        .filter_map(|message| {
            Some(Program {
                target: message["target"]["name"].as_str()?.to_owned(),
                manifest: message["manifest_path"].as_str()?.into(),
                path: message["executable"].as_str()?.into(),
            })
        })
        .collect()
}

/// The examples in the docs.
fn docs(extra: &[String]) -> Job {
    let mut command = cargo(ALL.split(' ').chain(["--doc"]));
    command.args(extra);
    Job { name: "documentation examples".to_owned(), command }
}

fn loom(extra: &[String]) -> Job {
    let mut command =
        cargo("test --package redial-core --features std --test loom --no-fail-fast".split(' '));
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    command
        // Other flags need another build of everything: keep it apart from the usual one.
        .arg("--target-dir")
        .arg(target_dir().join("loom"))
        .env("RUSTFLAGS", format!("{flags} --cfg loom").trim())
        // Cargo prefers this variable to the one above and would then build no model at all.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .args(extra);
    Job { name: "loom models".to_owned(), command }
}
