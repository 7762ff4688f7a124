//! `redial queue` and `redial dlq` on real stores, with real processes. No test depends on timing.

mod blameless;
mod clock;
mod commands;
mod dead;
mod deliver;
mod killed;
mod metrics;
mod page;
mod postgres;
mod secrets;
mod stalled;
mod work;
mod wrong;

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::{Scratch, eventually, text};

/// A policy with short waits and no budget.
const QUICK: &str = "attempts = 3\ndeadline = \"none\"\nattempt_timeout = \"60s\"\nbudget = \"none\"\n\
                     backoff = { base = \"1ms\", cap = \"4ms\" }\n";

/// A store in its own directory.
struct Lab {
    scratch: Scratch,
    store: String,
}

impl Lab {
    fn new() -> Self {
        let scratch = Scratch::new("queue");
        scratch.file("quick.toml", QUICK);
        Self { store: scratch.path("jobs.db"), scratch }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
        command.args(args).env("REDIAL_STORE", &self.store).env("NO_PROXY", "127.0.0.1");
        command.current_dir(&self.scratch.0).stdin(Stdio::null());
        command
    }

    /// Runs a shell command of a page.
    fn shell(&self, script: &str) -> Command {
        let bin = Path::new(env!("CARGO_BIN_EXE_redial")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut shell = crate::program("sh");
        shell.arg("-ec").arg(format!("exec 2>&1; {script}")).current_dir(&self.scratch.0);
        shell.env("REDIAL_STORE", &self.store).env("NO_PROXY", "127.0.0.1").env("PATH", path);
        shell
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn feed(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(args);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let (mut to, input) = (child.stdin.take().unwrap(), input.to_vec());
        let writer = std::thread::spawn(move || drop(to.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }

    /// The output of a command that succeeds.
    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        good(&self.run(args))
    }

    /// A worker that ends by itself, with short waits.
    #[track_caller]
    fn work(&self, args: &[&str]) -> Output {
        let output = self.command(&["queue", "work", "--policy", "quick.toml"]).args(args).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        output
    }

    fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(&["queue", "work", "--policy", "quick.toml"]);
        command.args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    #[track_caller]
    fn lines(&self, args: &[&str]) -> Vec<Value> {
        self.ok(args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[track_caller]
    fn jobs(&self) -> Vec<Value> {
        self.lines(&["queue", "ls", "--json", "--most", "100000"])
    }

    #[track_caller]
    fn stats(&self) -> Value {
        self.lines(&["queue", "stats", "--queue", "default", "--json"]).remove(0)
    }

    /// The lines of a file that commands write.
    fn wrote(&self, name: &str) -> Vec<String> {
        let all = std::fs::read_to_string(self.scratch.path(name)).unwrap_or_default();
        all.lines().map(str::to_owned).collect()
    }
}

#[track_caller]
fn good(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).to_owned()
}

/// It must end with this code, and print this on stderr and nothing on stdout.
#[track_caller]
fn fails(output: &Output, code: i32, says: &str) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert!(text(&output.stderr).contains(says), "{says}: {output:?}");
    assert!(!text(&output.stderr).contains("panicked"), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
}
