//! The costs of each case, and the lines of a table.

use std::collections::BTreeMap;

use crate::alloc;
use crate::callgrind::{self, Of};
use crate::cases::Case;
use crate::table::{Bar, Line, Part};

/// A success is timed once in a millisecond; callgrind fits fewer calls into one.
pub(crate) const SAMPLED: Bar = Bar::AtMost(1.05);

/// The costs of each case per call.
pub(crate) struct Costs {
    instructions: BTreeMap<&'static str, f64>,
    clock_reads: BTreeMap<&'static str, f64>,
    allocations: BTreeMap<&'static str, f64>,
}

impl Costs {
    /// Instructions of every case; clock reads and allocations of the selected ones.
    pub(crate) fn measure(cases: &'static [Case], closely: &[&str]) -> Result<Self, String> {
        let called = || cases.iter().filter(|case| closely.contains(&case.name));
        let allocations = called().map(|case| (case.name, alloc::per_call(case))).collect();
        let names = || cases.iter().map(|case| case.name);
        let read = || called().map(|case| case.name);
        let jobs: Vec<(&str, Of)> = names()
            .map(|name| (name, Of::Everything))
            .chain(std::iter::once(("clock", Of::ClockReads)))
            .chain(read().map(|name| (name, Of::ClockReads)))
            .collect();
        let counts = callgrind::per_call(&jobs)?;
        let (instructions, clocks) = counts.split_at(cases.len());
        let one_read = clocks[0];
        let reads = clocks[1..].iter().map(|spent| spent / one_read);
        Ok(Self {
            instructions: names().zip(instructions.iter().copied()).collect(),
            clock_reads: read().zip(reads).collect(),
            allocations,
        })
    }

    pub(crate) fn of(&self, case: &str) -> f64 {
        self.instructions[case]
    }

    pub(crate) fn list(&self, peers: &[(&'static str, &str)]) -> Vec<Part> {
        Self::pick(&self.instructions, peers)
    }

    /// Instructions beyond those of another case.
    pub(crate) fn beyond(&self, bare: &str, case: &str) -> f64 {
        self.of(case) - self.of(bare)
    }

    pub(crate) fn list_beyond(&self, bare: &str, peers: &[(&'static str, &str)]) -> Vec<Part> {
        peers.iter().map(|(name, case)| part(name, self.beyond(bare, case))).collect()
    }

    pub(crate) fn allocations(&self, peers: &[(&'static str, &str)], ours: &str) -> Line {
        let (peers, ours) = (Self::pick(&self.allocations, peers), self.allocations[ours]);
        Line::new("allocations", peers, ours, Bar::AtMost(0.0))
    }

    /// Allocations beyond those of another case.
    pub(crate) fn allocations_beyond(
        &self,
        bare: &str,
        peers: &[(&'static str, &str)],
        ours: &str,
        bar: Bar,
    ) -> Line {
        let beyond = |case: &str| self.allocations[case] - self.allocations[bare];
        let peers = peers.iter().map(|(name, case)| part(name, beyond(case))).collect();
        Line::new("allocations", peers, beyond(ours), bar)
    }

    pub(crate) fn clock_reads(&self, peers: &[(&'static str, &str)], ours: &str, bar: Bar) -> Line {
        let (peers, ours) = (Self::pick(&self.clock_reads, peers), self.clock_reads[ours]);
        Line::new("clock reads", peers, ours, bar)
    }

    fn pick(costs: &BTreeMap<&str, f64>, peers: &[(&'static str, &str)]) -> Vec<Part> {
        peers.iter().map(|(name, case)| part(name, costs[case])).collect()
    }
}

pub(crate) fn part(name: &'static str, value: f64) -> Part {
    Part { name, value }
}
