//! How long does a caller wait? The ceiling alone says little: with full jitter half of the waits are below its
//! middle, and decorrelated jitter has no simple distribution. So the production backoff is sampled ten thousand
//! times.

use redial_core::{Policy, Span};
use serde::Serialize;

use super::{ms, seed_of};

/// The wait before one retry, over many calls without hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RetryWait {
    /// The number of the retry; 1 is the first.
    pub retry: u32,
    /// The longest possible wait.
    #[serde(rename = "ceiling_ms", serialize_with = "ms::one")]
    pub ceiling: Span,
    /// The mean.
    #[serde(rename = "mean_ms", serialize_with = "ms::one")]
    pub mean: Span,
    /// The 5th percentile.
    #[serde(rename = "p5_ms", serialize_with = "ms::one")]
    pub p5: Span,
    /// The 95th percentile.
    #[serde(rename = "p95_ms", serialize_with = "ms::one")]
    pub p95: Span,
    /// Whether the ceiling is the cap.
    pub capped: bool,
}

/// The longest wait of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cap {
    /// Its length.
    #[serde(rename = "ms", serialize_with = "ms::one")]
    pub wait: Span,
    /// The first retry whose ceiling is the cap; `None` when the attempts end before.
    pub retry: Option<u32>,
}

const SAMPLES: u32 = 10_000;

/// How many retries are listed.
const ROWS: u32 = 20;

pub(super) fn measure(policy: &Policy, seed: u64) -> Vec<RetryWait> {
    let samples: Vec<_> = (1..=SAMPLES).map(|call| run(policy, seed_of(seed, call))).collect();
    let row = |(retry, ceiling): (u32, Span)| {
        let mut waits: Vec<_> = samples.iter().map(|run| run[retry as usize - 1]).collect();
        waits.sort_unstable();
        let sum: u128 = waits.iter().map(|wait| u128::from(wait.as_nanos())).sum();
        let twentieth = waits.len() / 20;
        RetryWait {
            retry,
            ceiling,
            mean: Span::from_nanos((sum / waits.len() as u128) as u64),
            p5: waits[twentieth - 1],
            p95: waits[waits.len() - twentieth],
            capped: ceiling == policy.backoff().cap(),
        }
    };
    ceilings(policy).take(ROWS as usize).map(row).collect()
}

pub(super) fn cap(policy: &Policy) -> Cap {
    let wait = policy.backoff().cap();
    let retry = ceilings(policy).find(|(_, ceiling)| *ceiling == wait).map(|(retry, _)| retry);
    Cap { wait, retry }
}

/// The waits of one call.
pub(super) fn run(policy: &Policy, seed: u64) -> Vec<Span> {
    let waits = (1..policy.attempts()).take(ROWS as usize).scan(Span::ZERO, |previous, retry| {
        *previous = policy.backoff().delay(retry, *previous, seed);
        Some(*previous)
    });
    waits.collect()
}

/// The retries with their longest waits.
fn ceilings(policy: &Policy) -> impl Iterator<Item = (u32, Span)> {
    (1..policy.attempts()).scan(Span::ZERO, |previous, retry| {
        *previous = policy.backoff().longest(retry, *previous);
        Some((retry, *previous))
    })
}
