//! A benchmark that runs in a debug build, or without the tool that counts its instructions, says
//! nothing: this starts `redial-bench` the way its numbers are meant.

use std::process::Command;

use crate::cargo::{cargo, root, status, target_dir};
use crate::postgres::{self, Postgres};
use crate::redis::{self, Redis};
use crate::setup::{self, Use};

/// Measure the command itself, which stands beside `redial-bench` then.
const OF_COMMAND: [&str; 2] = ["check", "run"];
/// Measured beside programs that are not of this workspace.
const BESIDE_PEERS: &str = "queue";
/// Those programs, each a folder of `bench/peers`.
const PEERS: [&str; 4] = ["apalis-postgres", "apalis-sqlite", "effectum", "graphile-worker"];
/// Asks a Redis.
const WITH_REDIS: &str = "fleet";
/// Sends real traffic and refuses its own figures when it wakes too late.
const REAL_TIME: &str = "fidelity";

/// Runs `redial-bench` with `args` and returns its exit code.
pub fn run(args: &[String]) -> Result<u8, String> {
    setup::try_for(Use::Bench);
    if args.first().is_none_or(|name| OF_COMMAND.contains(&name.as_str())) {
        let built = status(&mut cargo(["build", "--release", "--package", "redial-cli"]))?;
        if !built.success() {
            return Err("the command could not be built".to_owned());
        }
    }
    let code = match args.first().map(String::as_str) {
        Some(REAL_TIME) => ahead_of_others(args)?,
        Some(BESIDE_PEERS) => beside_peers(args)?,
        Some(WITH_REDIS) => {
            let redis = Redis::start()?;
            status(bench(args).env(redis::VARIABLE, redis.url()))?.code()
        }
        _ => as_any(args)?,
    };
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

/// With a Postgres that nobody else uses, where there is one.
fn beside_peers(args: &[String]) -> Result<Option<i32>, String> {
    PEERS.iter().for_each(|name| build_peer(name));
    let postgres = Postgres::start();
    let mut command = bench(args);
    match &postgres {
        Ok(postgres) => drop(command.env(postgres::VARIABLE, postgres.url())),
        Err(message) => eprintln!("{message}"),
    }
    Ok(status(&mut command)?.code())
}

fn as_any(args: &[String]) -> Result<Option<i32>, String> {
    Ok(status(&mut bench(args))?.code())
}

fn bench(args: &[String]) -> Command {
    let mut command = cargo(["run", "--release", "--package", "redial-bench", "--"]);
    command.args(args);
    command
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
