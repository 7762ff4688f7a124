//! Calls that are alike, counted together.
//!
//! A hundred million calls a second cannot be followed one by one, and need not be: calls with the same number of
//! attempts whose waits are drawn from the same range are alike, and it is enough to count them. Time advances in
//! ticks. In each tick a number of calls begin, a number return from a wait (`waiting`), a number are served,
//! queued or turned away (`backend`), and a number fail for some cause (`causes`) and withdraw from the budget
//! together. The ranges of the waits and the budget are those of the engine, queried in bulk.
//!
//! ```text
//! begin ────┬─> requests ─> outage, limit, errors ─> servers, queue ─> replies ─> over
//! waiting ──┘                        └─> refusals <─────┘ └─> timeouts              ^
//!    ^                                       └───────┬───────────┘                 │
//!    └──────────────────── granted <───────────── withdraw ────────────> not granted
//! ```
//!
//! [`fits`] reports where calls are not alike. The approximations: events happen in whole ticks; the start of a
//! retried call is known only on average; the instances of a fleet share one budget window. The time to recover
//! depends on when single calls began, so [`Run::recover_ms`] is `None`. Whether the run collapsed is known.

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

/// Runs a scenario once. The same seed gives the same run. If `watch` is stopped, the run covers what has happened
/// by then. What does not [fit](fits) is simulated exactly.
pub fn run(scenario: &Scenario, subject: &Subject, seed: u64, watch: &Watch) -> Run {
    run_with_tick(scenario, subject, seed, watch, plan::tick(scenario, subject))
}

/// The same with another tick, to test whether its length matters.
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

/// The length of a tick of [`run`].
pub fn tick(scenario: &Scenario, subject: &Subject) -> Nanos {
    plan::tick(scenario, subject)
}
