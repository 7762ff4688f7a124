//! The cases that run in their own process, and their result.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::{deliver, durable, memory};

/// The result of a case.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) jobs: u64,
    pub(super) seconds: f64,
    /// Resident bytes that it used.
    #[serde(default)]
    pub(super) bytes: f64,
    /// Of a settlement.
    #[serde(default)]
    pub(super) p99_ms: f64,
}

impl Measured {
    /// Jobs a second.
    pub(super) fn rate(&self) -> f64 {
        self.jobs as f64 / self.seconds
    }
}

/// `queue-case` and its arguments.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
    let measured = match args {
        ["plain", keys] => memory::plain(number(keys)?),
        ["ours", keys] => memory::ours(number(keys)?),
        ["sqlite", path, pending, seconds] => {
            durable::sqlite(Path::new(path), number(pending)?, number(seconds)?)?
        }
        ["postgres", url, pending, seconds] => {
            durable::postgres(url, number(pending)?, number(seconds)?)?
        }
        ["deliver", path, jobs] => deliver::measure(Path::new(path), number(jobs)?)?,
        _ => return Err(format!("unknown case {:?}", args.join(" "))),
    };
    println!("{}", serde_json::json!(measured));
    Ok(())
}

/// Runs a case in its own process.
pub(super) fn child(args: &[&str]) -> Result<Measured, String> {
    let this = env::current_exe().map_err(|error| error.to_string())?;
    measured(Command::new(this).arg("queue-case").args(args))
}

/// Runs a program and reads its result from the last line.
pub(super) fn measured(command: &mut Command) -> Result<Measured, String> {
    let output = command.stderr(Stdio::piped()).output().map_err(|error| error.to_string())?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(why.trim().lines().last().unwrap_or("it ended without output").to_owned());
    }
    let last = printed.lines().last().unwrap_or_default();
    serde_json::from_str(last).map_err(|error| format!("invalid output {last:?}: {error}"))
}

/// The resident bytes of this process.
pub(super) fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split_whitespace().nth(1).and_then(|it| it.parse::<f64>().ok());
    pages.unwrap_or(f64::NAN) * 4096.0
}
