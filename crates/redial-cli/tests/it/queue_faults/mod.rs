//! Jobs survive killed processes and full disks. The processes are real, and so is the receiver, which counts
//! what arrives. The counts are compared with the acknowledged jobs.

mod disk;
mod kill;
mod prove;
mod sink;

use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::{Scratch, text};
use sink::Sink;

/// How long a job stays with a worker that is killed or stopped.
const LEASE_MILLIS: u64 = 300;

/// A store, and a receiver for its deliveries.
struct Lab {
    scratch: Scratch,
    store: String,
    queue: String,
    sink: Sink,
}

impl Lab {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        // The attempts of killed workers count, and these tests kill hundreds.
        let policy =
            "attempts = 1000\ndeadline = \"none\"\nattempt_timeout = \"1h\"\nbudget = \"none\"\n";
        scratch.file("policy.toml", policy);
        let (store, queue) = (scratch.path("jobs.db"), "hooks".to_owned());
        Self { scratch, store, queue, sink: Sink::start() }
    }

    fn queue(&self, command: &str) -> Command {
        let mut redial = crate::program(env!("CARGO_BIN_EXE_redial"));
        redial.args(["queue", command, "--store", &self.store, "--queue", &self.queue]);
        redial.env("NO_PROXY", "127.0.0.1").stdin(Stdio::null());
        redial.stdout(Stdio::piped()).stderr(Stdio::piped());
        redial
    }

    /// Puts one delivery per line into the queue.
    fn add(&self) -> Command {
        let mut add = self.queue("add");
        add.args(["--lines", "--header", ":method: POST", "--header"]);
        add.arg(format!(":url: {}", self.sink.url()));
        add
    }

    fn work(&self, args: &[&str]) -> Command {
        let mut work = self.queue("work");
        let lease = format!("{LEASE_MILLIS}ms");
        work.args(["--policy", &self.scratch.path("policy.toml"), "--lease", &lease]).args(args);
        work
    }

    /// Works until the queue is empty.
    #[track_caller]
    fn finish(&self) {
        let output = self.work(&["--until", "empty"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    fn stats(&self) -> Value {
        let output = self.queue("stats").arg("--json").output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }
}

/// Starts it with this input. It may die before it has read all of it.
fn feed(mut command: Command, input: String) -> Child {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    std::thread::spawn(move || drop(to.write_all(input.as_bytes())));
    child
}

/// The numbers of jobs that a producer has printed. A truncated line does not count.
fn promised(output: &Output) -> Vec<i64> {
    numbers(text(&output.stdout))
}

fn numbers(stdout: &str) -> Vec<i64> {
    let whole = stdout.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| line.trim_end().parse().unwrap()).collect()
}

/// A pseudo-random sequence, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }
}
