//! Does a promise hold while everything around it fails? A proof is a test with faults at random that can run for as long as
//! the user likes: this starts it with a seed, so that what it finds can be repeated.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

use crate::cargo::{cargo, status};
use crate::setup::{self, Use};

/// The names of all proofs.
pub const PROOFS: &[&str] = &["queue"];

/// How many rounds a proof has on each store, unless the user says otherwise: one to two minutes.
pub const ROUNDS: u64 = 40;

/// The variables that tell the test its seed and its rounds.
const SEED_VARIABLE: &str = "REDIAL_PROVE_SEED";
const ROUNDS_VARIABLE: &str = "REDIAL_PROVE_ROUNDS";

/// One store after the other, so that each has the machine for itself.
const QUEUE: &str = "test --package redial-cli --all-features --test it -- --exact --nocapture --test-threads=1 \
                     queue_faults::prove::sqlite queue_faults::prove::postgres";

/// Runs the proof of the durable queue, and returns its exit code. The test starts its own Postgres, because it kills it.
pub fn queue(seed: Option<u64>, rounds: u64) -> Result<u8, String> {
    setup::try_for(Use::Test);
    let seed = seed.unwrap_or_else(random_seed);
    println!(
        "seed {seed}; the same plan again: cargo xtask prove queue --seed {seed} --rounds {rounds}"
    );
    println!(
        "The seed decides which faults come when; how the processes interleave is different each time."
    );
    let mut command = cargo(QUEUE.split_whitespace());
    command.env(SEED_VARIABLE, seed.to_string()).env(ROUNDS_VARIABLE, rounds.to_string());
    Ok(u8::from(!status(&mut command)?.success()))
}

/// Short enough to be typed.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish() % 1_000_000_000
}
