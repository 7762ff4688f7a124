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
//! [`Model::new`] reports where calls are not alike. The approximations: events happen in whole ticks; the start of a
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

pub use fits::NotCountable;
pub(crate) use plan::LONGEST_TICK;

use redial_core::Span;

use crate::measure::Run;
use crate::watch::Watch;
use crate::{Scenario, Subject};
use plan::Plan;
use world::World;

/// A scenario and a policy whose calls can be counted.
#[derive(Clone, Debug)]
pub struct Model<'a>(Plan<'a>);

impl<'a> Model<'a> {
    /// In ticks that suit its times.
    ///
    /// # Errors
    ///
    /// It depends on the state of single clients or calls, or its times cannot be expressed in ticks. The message
    /// names the reason.
    pub fn new(scenario: &'a Scenario, subject: &'a Subject) -> Result<Self, NotCountable> {
        Self::with_longest_tick(scenario, subject, LONGEST_TICK)
    }

    /// In ticks that suit its times and are not longer than this.
    pub(crate) fn with_longest_tick(
        scenario: &'a Scenario,
        subject: &'a Subject,
        longest: Span,
    ) -> Result<Self, NotCountable> {
        Self::with_tick(scenario, subject, plan::tick(scenario, subject, longest))
    }

    /// In other ticks, to test whether their length matters.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_tick(
        scenario: &'a Scenario,
        subject: &'a Subject,
        tick: Span,
    ) -> Result<Self, NotCountable> {
        fits::plan(scenario, subject, tick).map(Self)
    }

    /// The length of a tick.
    pub fn tick(&self) -> Span {
        self.0.tick
    }

    /// How many cells a run keeps, 16 to 40 bytes each.
    pub(crate) fn cells(&self) -> u64 {
        self.0.cells()
    }

    /// How many ticks a run has while calls begin.
    pub(crate) fn ticks(&self) -> u64 {
        self.0.scenario.duration / self.0.tick
    }

    /// Runs it once. The same seed gives the same run. If `watch` is stopped, the run covers what has happened by
    /// then.
    pub fn run(&self, seed: u64, watch: &Watch) -> Run {
        World::new(self.0.clone(), seed).run(watch)
    }
}

/// How many ticks a run would have while calls begin.
pub(crate) fn ticks(scenario: &Scenario, subject: &Subject) -> u64 {
    scenario.duration / plan::tick(scenario, subject, LONGEST_TICK)
}
