//! How much time does `redial run -- true` add to `true`?
//!
//! Both are started and awaited in turns by the same loop, so that other load affects both; medians, because of
//! scheduling outliers. With its budget the command locks, reads and writes a file; without a budget it does not.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::table::{Bar, Line, Part, Report};

const ROUNDS: usize = 500;
/// The most milliseconds that it may add.
const MOST_MS: f64 = 5.0;

const NOTES: &[&str] =
    &["medians of 500 starts each, in turns, in ms; ours is what `redial run` adds to `true`"];

pub(crate) fn measure() -> Result<Report, String> {
    let redial = env::current_exe().map_err(|error| error.to_string())?.with_file_name("redial");
    if !redial.exists() {
        let path = redial.display();
        return Err(format!("{path} is missing: `cargo xtask bench run` builds it first"));
    }
    let budgets = env::temp_dir().join(format!("redial-bench-{}", std::process::id()));
    fs::create_dir_all(&budgets).map_err(|error| error.to_string())?;
    let measured = compare(&redial, &budgets);
    let _ = fs::remove_dir_all(&budgets);
    let [bare, shared, alone] = measured?;
    let line = |what, ours| {
        let peers =
            vec![Part { name: "true", value: bare }, Part { name: "redial run", value: ours }];
        vec![Line::new(what, peers, ours - bare, Bar::AtMost(MOST_MS))]
    };
    let rows = [line("redial run -- true", shared), line("the same without a budget", alone)];
    Ok(Report::new(rows, NOTES))
}

fn compare(redial: &Path, budgets: &Path) -> Result<[f64; 3], String> {
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        times[0].push(start(&mut Command::new("true"))?);
        times[1].push(start(wrapped(redial, &[]).env("XDG_RUNTIME_DIR", budgets))?);
        times[2].push(start(&mut wrapped(redial, &["--budget", "none"]))?);
    }
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}

fn wrapped(redial: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(redial);
    command.arg("run").args(flags).args(["--", "true"]);
    command
}

/// From the fork to the end, in milliseconds.
fn start(command: &mut Command) -> Result<f64, String> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let started = Instant::now();
    let status = command.status().map_err(|error| error.to_string())?;
    let taken = started.elapsed().as_secs_f64() * 1e3;
    if status.success() { Ok(taken) } else { Err(format!("{command:?} ended with {status}")) }
}
