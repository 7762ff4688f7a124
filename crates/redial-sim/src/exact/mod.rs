//! Every caller is a call of the engine, and everything happens one after the other.

use crate::measure::{Run, Tape};
use crate::simulate::Watch;
use crate::{Scenario, Subject};

/// Runs a scenario once.
pub fn run(scenario: &Scenario, _subject: &Subject, _seed: u64, _watch: &Watch) -> Run {
    Tape::new(scenario).finish(None, 0)
}
