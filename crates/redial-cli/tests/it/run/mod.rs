//! `redial run` with real processes. They synchronise by files and FIFOs, and no test depends on timing.

mod budget;
mod decide;
mod ends;
mod fleet;
mod killed;
mod output;
mod signals;
mod stalled;
mod stdin;
mod terminal;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::{eventually, runs, text};

/// A directory of its own, which also holds the budgets.
struct Lab {
    dir: PathBuf,
}

impl Lab {
    fn new() -> Self {
        let dir = crate::unique("run");
        fs::create_dir(&dir).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// `redial run` with waits of at most a few milliseconds. `script` is what `sh -c` runs.
    fn command(&self, flags: &[&str], script: &str) -> Command {
        let mut command = self.bare(flags);
        command.args(["--", "sh", "-c", script]);
        command
    }

    fn bare(&self, flags: &[&str]) -> Command {
        let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
        command.args(["run", "--base", "1ms", "--cap", "4ms"]).args(flags);
        command.current_dir(&self.dir).env("XDG_RUNTIME_DIR", &self.dir).stdin(Stdio::null());
        command
    }

    fn run(&self, flags: &[&str], script: &str) -> Output {
        self.command(flags, script).output().unwrap()
    }

    fn run_with(&self, flags: &[&str], script: &str, input: &[u8]) -> Output {
        let mut command = self.command(flags, script);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let (mut to, input) = (child.stdin.take().unwrap(), input.to_vec());
        // A command that does not read all of it closes its end.
        let writer = std::thread::spawn(move || drop(to.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }

    /// Makes a FIFO, by which a script and a test synchronise.
    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        assert!(crate::program("mkfifo").arg(&path).status().unwrap().success());
        path
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Waits until a script has opened the FIFO and written a line.
fn line_of(fifo: &Path) -> String {
    let mut line = String::new();
    BufReader::new(fs::File::open(fifo).unwrap()).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// The lines of `--log json`, without the other output on stderr.
fn events(output: &Output) -> Vec<Value> {
    let ours = text(&output.stderr).lines().filter(|line| line.starts_with('{'));
    ours.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn named<'a>(events: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["event"] == name)
}

fn signal(child: &Child, name: &str) {
    let sent = crate::program("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}
