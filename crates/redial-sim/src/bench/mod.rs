//! Which policy is best? Every policy in every cell, under the same conditions, with the same score.
//!
//! A [`Cell`] is a scenario and the patience of its callers, which is the same for all policies. In one family of cells
//! only the deadline ends an attempt; in the other the user has set a timeout of attempts, and it applies to every
//! policy. Two comparators are always present: a single attempt, and the *oracle*, the best of many varied policies
//! for that cell ([`candidates`]).
//!
//! ```text
//! cell ──> one attempt: when is the trouble over? ──┐
//!      ──> candidates ──> the best few ──> oracle ──┼──> Score of every run ──> regret, capture
//!      ──> the policies that are compared ──────────┘
//! ```
//!
//! Cells come in suites, which are never averaged: the built-in scenarios, random ones, and random ones with high traffic.
//! Beside the cells there are [`outages`], of each of which a figure is read. [`bars`] are what a default should keep.

mod bars;
mod candidates;
mod cell;
mod draw;
mod high_traffic;
mod outage;
mod rank;
mod run;
mod score;

pub use bars::{Bar, Bound, Unit, bars, judged};
pub use candidates::candidates;
pub use cell::{Cell, Family, Patience, Suite};
pub use draw::random_cells;
pub use high_traffic::high_traffic_cells;
pub use outage::{OutageFigure, outages};
pub use rank::{Figures, Ranking, rank};
pub use run::{CellResult, Plan, PolicyScores, bench};
pub use score::{Mean, Measure, Score, Scores};
