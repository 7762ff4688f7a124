//! What would this policy do with these outcomes, and how long does it wait?
//!
//! From "full jitter, 100 ms to 2 s, a budget that retries earn" it is hard to tell why the third call of an outage was
//! not retried, or how long callers wait on a bad day. [`explain`] makes the calls of a [`Script`] with the
//! production engine, one after the other under one set of guards, in virtual time, and lists every verdict. There is one
//! attempt at a time, so none is hedged. It adds the waits of thousands of calls.

mod ms;
mod script;
mod steps;
mod waits;

pub use script::{Script, ScriptError};
pub use steps::{Parking, Ruling, Step};
pub use waits::{Cap, RetryWait};

use redial_core::decide::Safety;
use redial_core::{Policy, Span, WorstCase};
use serde::Serialize;

use crate::Stream;

/// A question about a policy.
///
/// Defaults: no calls, 10 runs, seed 0, attempts that take no time, idempotent calls.
#[derive(Clone, Debug)]
pub struct Question {
    /// The calls to make.
    pub script: Script,
    /// How many calls' waits to list.
    pub runs: u32,
    /// The seed of the waits. Guards that draw have a fixed seed of their own.
    pub seed: u64,
    /// How long an attempt takes, unless it times out.
    pub latency: Span,
    /// The safety of the calls.
    pub safety: Safety,
}

impl Default for Question {
    fn default() -> Self {
        let (script, safety) = (Script::default(), Safety::Idempotent);
        Self { script, runs: 10, seed: 0, latency: Span::ZERO, safety }
    }
}

/// The answer. In JSON, times are in milliseconds, and `null` where nothing bounds them.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The policy.
    pub policy: Policy,
    /// Every verdict on the calls of the script, in order.
    pub steps: Vec<Step>,
    /// The waits, by retry; the first 20 when there are more.
    pub waits: Vec<RetryWait>,
    /// The longest wait, and the retry that reaches it.
    pub cap: Cap,
    /// The waits of single calls without hints. The n-th call of the script draws the waits of the n-th run.
    #[serde(serialize_with = "ms::lists")]
    pub runs: Vec<Vec<Span>>,
    /// The most that one call can cost.
    #[serde(with = "ms::WorstCaseMs")]
    pub worst_case: WorstCase,
}

/// Answers a question about `policy`. The same question has the same answer on any machine.
pub fn explain(policy: &Policy, question: &Question) -> Explanation {
    let seed = question.seed;
    Explanation {
        policy: policy.clone(),
        steps: steps::run(policy, question),
        waits: waits::measure(policy, seed),
        cap: waits::cap(policy),
        runs: (1..=question.runs).map(|run| waits::run(policy, seed_of(seed, run))).collect(),
        worst_case: policy.worst_case(),
    }
}

/// The seed of the call with this number; 1 is the first.
fn seed_of(seed: u64, call: u32) -> u64 {
    Stream::new(seed).of(call.into()).bits()
}
