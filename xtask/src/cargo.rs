//! Every command starts other programs, most often cargo: in which folder, and with which message when that fails?

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use serde_json::Value;

/// The workspace's folder.
///
/// Read at run time, so that a copy of the workspace that shares a target folder works on itself.
#[must_use]
pub fn root() -> PathBuf {
    let xtask = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.parent().map(Path::to_path_buf).unwrap_or(xtask)
}

/// The folder that cargo builds into.
#[must_use]
pub fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A cargo command in the workspace's folder, with the cargo that started us.
#[must_use]
pub fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(args);
    command
}

/// The output of `cargo metadata`, with these arguments.
pub fn metadata(args: &[&str]) -> Result<Value, String> {
    let json = output(cargo(["metadata", "--format-version", "1"]).args(args))?;
    serde_json::from_slice(&json)
        .map_err(|error| format!("cannot parse the output of `cargo metadata`: {error}"))
}

/// The path of a program, if it is installed.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    // Debian has servers in folders outside of a user's PATH.
    folders.push("/usr/sbin".into());
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    folders.extend(versions.map(|version| version.path().join("bin")));
    folders.into_iter().map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Runs a command that has to succeed; `remedy` is what to do if it does not.
pub fn run(command: &mut Command, remedy: &str) -> Result<(), String> {
    if status(command)?.success() {
        return Ok(());
    }
    Err(format!("{} failed: {remedy}, then try again", shown(command)))
}

/// Runs a command to its end, with our standard streams.
pub fn status(command: &mut Command) -> Result<ExitStatus, String> {
    command.status().map_err(|error| cannot_start(command, &error))
}

/// Runs a command to its end and returns its output.
pub fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| cannot_start(command, &error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} failed ({}), fix this first:\n{stderr}", shown(command), output.status))
}

/// The message for a program that could not be started.
#[must_use]
pub fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start {}: {error}; is it installed and on PATH?", shown(command))
}

/// The command as a user would type it.
#[must_use]
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    format!("`{}`", words.join(" "))
}
