//! A rule says that a config is harmful, but not how much. For most rules there is a scenario that shows the harm: it is
//! simulated with the policy that was found, and with the fixed policy.

use std::fmt;
use std::io::{self, Write};
use std::thread;

use redial_policy::Found;
use redial_sim::scenario::{BuiltIn, Set};
use redial_sim::simulate::{Choice, Settings, Watch, simulate};
use redial_sim::{Scenario, Subject};
use serde_json::{Value, json};

use super::evidence::{EVIDENCE, Evidence};
use super::report::Report;
use crate::failed::Failed;
use crate::sim::progress::with_progress;

/// The most different simulations: they take some seconds.
const MOST: usize = 16;
const RUNS: u32 = 3;
const SEED: u64 = 1;

/// The result.
#[derive(Clone)]
pub(super) struct Simulated {
    evidence: &'static Evidence,
    /// With the policy that was found.
    value: f64,
    /// With the fixed policy.
    fixed: f64,
    /// How many times smaller than the real one the simulated fleet is.
    scale: f64,
}

/// A simulation, which several findings may share.
#[derive(PartialEq)]
struct Job {
    evidence: &'static Evidence,
    scale: f64,
    as_is: (Scenario, Subject),
    fixed: (Scenario, Subject),
}

/// Simulates the findings that have a scenario. The inner error is an interruption by Ctrl-C.
pub(super) fn all(report: &mut Report) -> Result<Result<(), Failed>, Failed> {
    let mut jobs: Vec<Job> = Vec::new();
    let (mut wanted, mut left_out) = (Vec::new(), 0);
    for (at, located) in report.findings.iter().enumerate() {
        let evidence =
            EVIDENCE.iter().find(|evidence| evidence.rules.contains(&located.finding.rule));
        let Some((evidence, found)) = evidence.zip(report.about(located)) else { continue };
        let Some(job) = Job::of(evidence, found) else { continue };
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
    let completed = with_progress(runs as f64, |watch| {
        jobs.iter().map(|job| job.run(watch)).collect::<Vec<Option<Simulated>>>()
    })?;
    for (at, job) in wanted {
        report.findings[at].simulated.clone_from(&completed.done[job]);
    }
    if left_out > 0 {
        writeln!(
            io::stderr(),
            "only {MOST} simulations were run; {left_out} more findings have one: check fewer files"
        )?;
    }
    Ok(completed.end())
}

impl Job {
    /// `None` if the scenario cannot be run with this policy.
    fn of(evidence: &'static Evidence, found: &Found) -> Option<Self> {
        let careless = !found.checks_safety;
        let subject = Subject::new("as it is", (evidence.prepare)(&found.policy)?).ok()?;
        let subject = Subject { careless, ..subject };
        let (sets, scale) = evidence.sets(&found.setting);
        let fixed = (evidence.fix)(&subject, found)?;
        let read = |more: Vec<Set>| {
            let sets: Vec<Set> = sets.iter().cloned().chain(more).collect();
            BuiltIn::find(evidence.scenario)?.read(&sets).ok()
        };
        let as_is = (read((evidence.parameters)(found, false))?, subject);
        Some(Self {
            evidence,
            scale,
            as_is,
            fixed: (read((evidence.parameters)(found, true))?, fixed),
        })
    }

    fn run(&self, watch: &Watch) -> Option<Simulated> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let settings = Settings { runs: RUNS, seed: SEED, threads, engine: Choice::Auto };
        let of = |(scenario, subject): &(Scenario, Subject)| {
            let summary = simulate(scenario, subject, &settings, watch);
            (summary.runs > 0).then(|| summary.mean(self.evidence.measure))
        };
        let (value, fixed) = (of(&self.as_is)?, of(&self.fixed)?);
        Some(Simulated { evidence: self.evidence, value, fixed, scale: self.scale })
    }
}

impl Simulated {
    pub(super) fn json(&self) -> Value {
        json!({
            "scenario": self.evidence.scenario,
            "measure": self.evidence.measure,
            "value": self.value,
            "fixed": self.fixed,
            "fix": self.evidence.fix_text,
            "scale": self.scale,
        })
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { evidence, value, fixed, scale } = self;
        // Another field of the policy may prevent the harm.
        if *value < fixed * 1.05 {
            f.write_str("this scenario does not show it. ")?;
        }
        let (value, fixed) = (Number(*value), Number(*fixed));
        write!(
            f,
            "{}: {value}; {}: {fixed} (scenario {}",
            evidence.measure_text, evidence.fix_text, evidence.scenario
        )?;
        if *scale > 1.0 {
            write!(f, ", a fleet {} times smaller", Number(*scale))?;
        }
        f.write_str(")")
    }
}

/// Three digits, with at most two decimals.
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
