//! A rule says that a config is harmful; a number says how much. For most rules there is a scenario that shows the harm:
//! it is run with the policy that was found, and with the same policy put right.

use std::fmt;
use std::io::{self, Write};
use std::thread;

use redial_policy::Found;
use redial_sim::scenario::{BuiltIn, Set};
use redial_sim::simulate::{Choice, Settings, Watch, simulate};
use redial_sim::{Scenario, Subject};
use serde_json::{Value, json};

use super::report::Report;
use super::shows::{SHOWS, Show};
use crate::failed::Failed;
use crate::sim::attend::attend;

/// So many different simulations are made, which takes some seconds.
const MOST: usize = 16;
const RUNS: u32 = 3;
const SEED: u64 = 1;

/// What came of it.
#[derive(Clone)]
pub(super) struct Simulated {
    show: &'static Show,
    /// With the policy as it is.
    value: f64,
    /// With the policy put right.
    fixed: f64,
    /// How many times smaller than the real one the simulated fleet is.
    scale: f64,
}

/// A simulation that several findings may want.
#[derive(PartialEq)]
struct Job {
    show: &'static Show,
    scale: f64,
    as_is: (Scenario, Subject),
    fixed: (Scenario, Subject),
}

/// Simulates what can be; the inner error says that somebody has seen enough.
pub(super) fn all(report: &mut Report) -> Result<Result<(), Failed>, Failed> {
    let mut jobs: Vec<Job> = Vec::new();
    let (mut wanted, mut left_out) = (Vec::new(), 0);
    for (at, said) in report.findings.iter().enumerate() {
        let show = SHOWS.iter().find(|show| show.rules.contains(&said.finding.rule));
        let Some((show, found)) = show.zip(report.about(said)) else { continue };
        let Some(job) = Job::of(show, found) else { continue };
        match jobs.iter().position(|known| *known == job) {
            Some(known) => wanted.push((at, known)),
            None if jobs.len() == MOST => left_out += 1,
            None => {
                wanted.push((at, jobs.len()));
                jobs.push(job);
            }
        }
    }
    let runs = jobs.len() * 2 * RUNS as usize;
    let attended = attend(runs as f64, |watch| {
        jobs.iter().map(|job| job.run(watch)).collect::<Vec<Option<Simulated>>>()
    })?;
    for (at, job) in wanted {
        report.findings[at].simulated.clone_from(&attended.done[job]);
    }
    if left_out > 0 {
        writeln!(
            io::stderr(),
            "{MOST} different simulations were made; {left_out} more findings have one: check fewer files"
        )?;
    }
    Ok(attended.end())
}

impl Job {
    /// `None` when the scenario cannot be run with this policy.
    fn of(show: &'static Show, found: &Found) -> Option<Self> {
        let careless = !found.checks_safety;
        let subject = Subject::new("as it is", (show.stage)(&found.policy)?).ok()?;
        let subject = Subject { careless, ..subject };
        let (sets, scale) = show.sets(&found.setting);
        let fixed = (show.fix)(&subject, found)?;
        let read = |more: Vec<Set>| {
            let sets: Vec<Set> = sets.iter().cloned().chain(more).collect();
            BuiltIn::find(show.scenario)?.read(&sets).ok()
        };
        let as_is = (read((show.around)(found, false))?, subject);
        Some(Self { show, scale, as_is, fixed: (read((show.around)(found, true))?, fixed) })
    }

    fn run(&self, watch: &Watch) -> Option<Simulated> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let settings = Settings { runs: RUNS, seed: SEED, threads, engine: Choice::Auto };
        let of = |(scenario, subject): &(Scenario, Subject)| {
            let summary = simulate(scenario, subject, &settings, watch);
            (summary.runs > 0).then(|| summary.mean(self.show.measure))
        };
        let (value, fixed) = (of(&self.as_is)?, of(&self.fixed)?);
        Some(Simulated { show: self.show, value, fixed, scale: self.scale })
    }
}

impl Simulated {
    pub(super) fn json(&self) -> Value {
        json!({
            "scenario": self.show.scenario,
            "measure": self.show.measure,
            "value": self.value,
            "fixed": self.fixed,
            "fix": self.show.with,
            "scale": self.scale,
        })
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { show, value, fixed, scale } = self;
        // A policy may be saved by something else that it does; a number that shows no harm says so.
        if *value < fixed * 1.05 {
            f.write_str("this scenario does not show it. ")?;
        }
        let (value, fixed) = (Number(*value), Number(*fixed));
        write!(f, "{}: {value}; {}: {fixed} (scenario {}", show.says, show.with, show.scenario)?;
        if *scale > 1.0 {
            write!(f, ", a fleet {} times smaller", Number(*scale))?;
        }
        f.write_str(")")
    }
}

/// Three digits, and not more than two of them behind the point.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = match self.0.abs() {
            ..10.0 => 2,
            ..100.0 => 1,
            _ => 0,
        };
        write!(f, "{:.digits$}", self.0)
    }
}
