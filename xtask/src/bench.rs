//! A benchmark that runs in a debug build, or without the tool that counts its instructions, says
//! nothing: this starts `redial-bench` the way its numbers are meant.

use std::process::Command;

use crate::cargo::{cargo, root, status, target_dir};
use crate::setup::{self, Use};

/// Measure the command itself, which stands beside `redial-bench` then.
const OF_COMMAND: [&str; 2] = ["check", "run"];
/// Measured beside programs that are not of this workspace.
const BESIDE_PEERS: &str = "queue";
/// Those programs, each a folder of `bench/peers`.
const PEERS: [&str; 4] = ["apalis-postgres", "apalis-sqlite", "effectum", "graphile-worker"];
/// Sends real traffic and refuses its own figures when it wakes too late.
const REAL_TIME: &str = "fidelity";

/// Runs `redial-bench` with `args` and returns its exit code.
pub fn run(args: &[String]) -> Result<u8, String> {
    setup::try_for(Use::Bench);
    let is_real_time = args.first().is_some_and(|name| name == REAL_TIME);
    if args.first().is_none_or(|name| OF_COMMAND.contains(&name.as_str())) {
        let built = status(&mut cargo(["build", "--release", "--package", "redial-cli"]))?;
        if !built.success() {
            return Err("the command could not be built".to_owned());
        }
    }
    if args.first().is_some_and(|name| name == BESIDE_PEERS) {
        PEERS.iter().for_each(|name| build_peer(name));
    }
    let code = if is_real_time { ahead_of_others(args)? } else { as_any(args)? };
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// A peer that cannot be built is missing from the table, which says so.
fn build_peer(name: &str) {
    let manifest = format!("bench/peers/{name}/Cargo.toml");
    let mut command = cargo(["build", "--release", "--manifest-path", &manifest, "--target-dir"]);
    let built = status(command.arg(root().join(target_dir()).join("peers")));
    if !built.is_ok_and(|built| built.success()) {
        eprintln!("{name} could not be built, and is not measured");
    }
}

fn as_any(args: &[String]) -> Result<Option<i32>, String> {
    let mut command = cargo(["run", "--release", "--package", "redial-bench", "--"]);
    Ok(status(command.args(args))?.code())
}

/// Built as anything else, and then run before whatever else wants the processors. Where we may not ask for
/// that, `nice` says so and runs it all the same.
fn ahead_of_others(args: &[String]) -> Result<Option<i32>, String> {
    let built = status(&mut cargo(["build", "--release", "--package", "redial-bench"]))?;
    if !built.success() {
        return Ok(built.code());
    }
    let program = root().join(target_dir()).join("release/redial-bench");
    let mut command = Command::new("nice");
    command.args(["-n", "-20"]).arg(program).args(args);
    Ok(status(&mut command)?.code())
}
