//! A benchmark of a debug build, or without the tool that counts its instructions, measures nothing: this starts
//! `redial-bench` as it is meant to run, built with the profile of what is shipped.

use std::process::Command;

use crate::cargo::{cargo, root, run as succeed, status, target_dir};
use crate::postgres::{self, Postgres};
use crate::redis::{self, Redis};
use crate::setup::{self, Use};
use crate::{envoy, page_bench};

/// The profile of what is shipped.
const PROFILE: [&str; 2] = ["--profile", "dist"];
/// Benchmarks of the command itself, which they expect in the folder of `redial-bench`.
const OF_COMMAND: [&str; 4] = ["check", "page", "proxy", "run"];
/// The benchmark of the page in a browser.
const PAGE: &str = "page";
/// The benchmark that runs beside programs outside of this workspace.
const BESIDE_PEERS: &str = "queue";
/// Those programs, each a folder of `bench/peers`.
const PEERS: [&str; 4] = ["apalis-postgres", "apalis-sqlite", "effectum", "graphile-worker"];
/// The benchmark that needs a Redis.
const WITH_REDIS: &str = "fleet";
/// The benchmark that runs beside Envoy.
const BESIDE_ENVOY: &str = "proxy";
/// The benchmarks that send real traffic and reject their own figures if they wake up too late.
const REAL_TIME: [&str; 2] = ["fidelity", "ranking"];

/// Runs `redial-bench` with `args` and returns its exit code.
pub fn run(args: &[String]) -> Result<u8, String> {
    setup::try_for(Use::Bench);
    if args.first().is_none_or(|name| OF_COMMAND.contains(&name.as_str())) {
        let mut build = cargo(["build", "--package", "redial-cli"]);
        succeed(build.args(PROFILE), "the command is measured")?;
    }
    if args.first().is_some_and(|name| name == PAGE) {
        return page_bench::run();
    }
    let code = match args.first().map(String::as_str) {
        Some(name) if REAL_TIME.contains(&name) => ahead_of_others(args)?,
        Some(BESIDE_PEERS) => beside_peers(args)?,
        Some(BESIDE_ENVOY) => beside_envoy(args)?,
        Some(WITH_REDIS) => {
            let redis = Redis::start()?;
            status(bench(args).env(redis::VARIABLE, redis.url()))?.code()
        }
        _ => status(&mut bench(args))?.code(),
    };
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// A peer that cannot be built is reported as missing in the table.
fn build_peer(name: &str) {
    let manifest = format!("bench/peers/{name}/Cargo.toml");
    let mut command = cargo(["build", "--manifest-path", &manifest, "--release", "--target-dir"]);
    let built = status(command.arg(root().join(target_dir()).join("peers")));
    if !built.is_ok_and(|built| built.success()) {
        eprintln!("warning: {name} could not be built and is not measured");
    }
}

/// With a private Postgres, where Postgres is installed.
fn beside_peers(args: &[String]) -> Result<Option<i32>, String> {
    PEERS.iter().for_each(|name| build_peer(name));
    let postgres = Postgres::start();
    let mut command = bench(args);
    match &postgres {
        Ok(postgres) => drop(command.env(postgres::VARIABLE, postgres.url())),
        Err(message) => eprintln!("warning: {message}"),
    }
    Ok(status(&mut command)?.code())
}

/// With Envoy, if it can be installed.
fn beside_envoy(args: &[String]) -> Result<Option<i32>, String> {
    let mut command = bench(args);
    match envoy::install().and_then(|path| path.canonicalize().map_err(|error| error.to_string())) {
        Ok(path) => drop(command.env(envoy::VARIABLE, path)),
        Err(message) => eprintln!("warning: {message}"),
    }
    Ok(status(&mut command)?.code())
}

fn bench(args: &[String]) -> Command {
    let mut command = cargo(["run", "--package", "redial-bench"]);
    command.args(PROFILE).arg("--").args(args);
    command
}

/// Built as usual, and then run with the highest priority. Without the right to that, `nice` warns and runs it all the
/// same.
fn ahead_of_others(args: &[String]) -> Result<Option<i32>, String> {
    let built = status(cargo(["build", "--package", "redial-bench"]).args(PROFILE))?;
    if !built.success() {
        return Ok(built.code());
    }
    let program = root().join(target_dir()).join("dist/redial-bench");
    let mut command = Command::new("nice");
    command.args(["-n", "-20"]).arg(program).args(args);
    Ok(status(&mut command)?.code())
}
