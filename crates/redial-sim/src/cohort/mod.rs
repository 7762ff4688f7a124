//! Callers that are alike, together.
//!
//! A hundred million calls a second cannot be followed one by one, and need not be: calls that have made as many
//! attempts and whose waits are drawn from the same range are alike, and it is enough to know how many of them
//! there are. Time goes in ticks. In each of them so many calls begin, so many come back from a wait
//! (`waiting`), so many are served, wait or are turned away (`backend`), and so many fail for one cause or another
//! (`causes`) and ask the budget for a retry, all at once. The waits' ranges and the budget are the engine's, asked
//! in bulk.
//!
//! ```text
//! begin ──┬─> requests ─> outage, limit, errors ─> servers, queue ─> replies ─> over
//! waiting ──┘                        └─> refusals <─────┘ └─> time-outs             ^
//!   ^                                       └───────┬───────────┘                 │
//!   └───────────────────── granted <────────────── ask ──────────────> not granted
//! ```
//!
//! Where calls are not alike, [`fits`] says so. What is approximate is stated where it is done: everything
//! happens in whole ticks, of a call that is retried it is known only on average when it began, and the
//! instances of a fleet share one window of their budgets. When a run recovered is not known, because that is a matter
//! of when the last calls began that failed: [`Run::recover_ms`] is `None`. Whether it collapsed is known.

mod arrivals;
mod backend;
mod causes;
mod draws;
mod faults;
mod fits;
mod plan;
mod ring;
mod waiting;
mod work;
mod world;

pub use fits::{Refused, fits};

use redial_core::Nanos;

use crate::measure::Run;
use crate::simulate::Watch;
use crate::{Scenario, Subject, exact};
use world::World;

/// Runs a scenario once. The same seed gives the same run. When somebody stops it, the run is what has happened by
/// then. What does not [fit](fits) is run exactly.
pub fn run(scenario: &Scenario, subject: &Subject, seed: u64, watch: &Watch) -> Run {
    run_with_tick(scenario, subject, seed, watch, plan::tick(scenario, subject))
}

/// The same with another tick, to see whether it matters.
pub fn run_with_tick(
    scenario: &Scenario,
    subject: &Subject,
    seed: u64,
    watch: &Watch,
    tick: Nanos,
) -> Run {
    match fits::plan(scenario, subject, tick) {
        Ok(plan) => World::new(plan, seed).run(watch),
        Err(_) => exact::run(scenario, subject, seed, watch),
    }
}

/// How long a tick of [`run`] is.
pub fn tick(scenario: &Scenario, subject: &Subject) -> Nanos {
    plan::tick(scenario, subject)
}
