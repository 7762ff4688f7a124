//! What would this policy do with these outcomes, and how long does it wait?
//!
//! A policy says "full jitter, 100 ms to 2 s, a tenth of the calls": nobody reads from that why the third
//! call of an outage was not repeated, or what its callers wait for on an ordinary bad day. [`explain`] makes
//! the calls of a [`Script`] with the production engine, one after the other under one set of guards, in
//! virtual time, and notes every verdict; beside them it puts the waits of thousands of calls.

mod ms;
mod script;
mod steps;
mod waits;

pub use script::{Script, Unreadable};
pub use steps::{Ruling, Step};
pub use waits::{Cap, RetryWait};

use redial_core::decide::Safety;
use redial_core::{Nanos, Policy, WorstCase};
use serde::Serialize;

use crate::Stream;

/// What is asked about a policy.
///
/// Defaults: no calls, 10 runs, seed 0, attempts that take no time, idempotent calls.
#[derive(Clone, Debug)]
pub struct Question {
    /// The calls to make.
    pub script: Script,
    /// How many calls' waits to list.
    pub runs: u32,
    /// Names the random streams of the waits. Guards that draw have a stream of their own, always the same.
    pub seed: u64,
    /// How long an attempt takes, unless it times out.
    pub latency: Nanos,
    /// What the calls allow.
    pub safety: Safety,
}

impl Default for Question {
    fn default() -> Self {
        let (script, safety) = (Script::default(), Safety::Idempotent);
        Self { script, runs: 10, seed: 0, latency: 0, safety }
    }
}

/// The answer. As JSON, its times are milliseconds, and `null` where nothing bounds them.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The policy that it is about.
    pub policy: Policy,
    /// Every verdict on the calls of the script, in order.
    pub steps: Vec<Step>,
    /// How long the waits are, retry by retry; the first 20 when there are more.
    pub waits: Vec<RetryWait>,
    /// The longest wait, and where it is reached.
    pub cap: Cap,
    /// The waits of single calls that get no hint. The n-th call of the script draws what the n-th run drew.
    #[serde(serialize_with = "ms::lists")]
    pub runs: Vec<Vec<Nanos>>,
    /// The most that one call can cost.
    #[serde(with = "ms::WorstCaseMs")]
    pub worst_case: WorstCase,
}

/// Answers a question about `policy`. The same question has the same answer on any machine.
pub fn explain(policy: &Policy, question: &Question) -> Explanation {
    let seed = question.seed;
    Explanation {
        policy: policy.clone(),
        steps: steps::play(policy, question),
        waits: waits::measure(policy, seed),
        cap: waits::cap(policy),
        runs: (1..=question.runs).map(|run| waits::run(policy, seed_of(seed, run))).collect(),
        worst_case: policy.worst_case(),
    }
}

/// The seed of the call with this number, the first being 1.
fn seed_of(seed: u64, call: u32) -> u64 {
    Stream::new(seed).of(call.into()).bits()
}
