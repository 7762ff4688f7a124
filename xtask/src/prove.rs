//! Does a promise hold while everything around it fails? A proof is a test with faults that takes too long for every
//! change: `cargo xtask test` has a short form of it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::process::Command;

use crate::cargo::{cargo, status};
use crate::fuzz;
use crate::setup::{self, Use};

/// The names of all proofs.
pub const PROOFS: &[&str] = &["queue", "fleet", "proxy", "fuzz"];

/// How many rounds the proof of the queue has on each store by default: one to two minutes.
pub const ROUNDS: u64 = 40;

/// How long the proof of the proxy takes by default.
pub const MINUTES: u64 = 10;

/// How long the proof of the readers fuzzes each target.
const FUZZ_SECONDS: u32 = 60;

/// A proof, with its settings.
#[derive(Debug, PartialEq, Eq)]
pub enum Proof {
    /// The durable queue under random faults. It starts its own Postgres, because it kills it.
    Queue {
        /// Random if there is none.
        seed: Option<u64>,
        /// How many rounds on each store.
        rounds: u64,
    },
    /// Two hundred processes with one budget, whose Redis is killed and restarted.
    Fleet,
    /// The proxy between upstreams and callers that fail in every way.
    Proxy {
        /// Random if there is none.
        seed: Option<u64>,
        /// How long.
        minutes: u64,
    },
    /// Every fuzz target, for a minute each.
    Fuzz,
}

/// Runs a proof and returns its exit code.
pub fn run(proof: &Proof) -> Result<u8, String> {
    setup::try_for(Use::Test);
    let mut command = match *proof {
        Proof::Queue { seed, rounds } => queue(seed.unwrap_or_else(random_seed), rounds),
        Proof::Fleet => {
            let mut command = tests("redial-cli", "fleet_proof");
            command.env("REDIAL_PROVE_FLEET", "1");
            command
        }
        Proof::Proxy { seed, minutes } => proxy(seed.unwrap_or_else(random_seed), minutes),
        Proof::Fuzz => return fuzz::run_all(FUZZ_SECONDS),
    };
    Ok(u8::from(!status(&mut command)?.success()))
}

fn queue(seed: u64, rounds: u64) -> Command {
    announce(seed, &format!("queue --seed {seed} --rounds {rounds}"));
    let mut command = tests("redial-cli", "queue_faults::prove::");
    command.env("REDIAL_PROVE_SEED", seed.to_string());
    command.env("REDIAL_PROVE_ROUNDS", rounds.to_string());
    command
}

fn proxy(seed: u64, minutes: u64) -> Command {
    announce(seed, &format!("proxy --seed {seed} --minutes {minutes}"));
    let mut command = tests("redial-proxy", "chaos::");
    command.env("REDIAL_PROVE_SEED", seed.to_string());
    command.env("REDIAL_PROVE_MINUTES", minutes.to_string());
    command
}

fn announce(seed: u64, arguments: &str) {
    println!("seed {seed}; to repeat the plan: cargo xtask prove {arguments}");
    println!(
        "The seed decides which faults happen when; how the processes interleave differs each time."
    );
}

/// One test after the other, so that each has the machine for itself.
fn tests(package: &str, filter: &str) -> Command {
    let mut command = cargo(["test", "--package", package, "--all-features", "--test", "it"]);
    command.args(["--", "--nocapture", "--test-threads=1", filter]);
    command
}

/// Short enough to be typed.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish() % 1_000_000_000
}
