//! A rule says that a config is harmful, but not how much. For most rules there is a scenario that shows the harm: it is
//! simulated with the policy that was found, and with the fixed policy.

use std::fmt;
use std::io::{self, Write};
use std::thread;

use redial_core::Policy;
use redial_policy::Found;
use redial_sim::scenario::{BuiltIn, Set};
use redial_sim::simulate::{Choice, Settings, Watch, simulate};
use redial_sim::{Scenario, Subject};
use serde_json::{Value, json};

use super::evidence::{EVIDENCE, Evidence, Remedy};
use super::report::Report;
use crate::failed::Failed;
use crate::progress::with_progress;

/// The most different simulations: they take some seconds.
const MAX_SIMULATIONS: usize = 16;
const RUNS: u32 = 3;
const SEED: u64 = 1;

/// The result of a simulation, or why there is none.
#[derive(Clone)]
pub(super) enum Simulated {
    Run(Numbers),
    Skipped(String),
}

/// The numbers of a simulation.
#[derive(Clone)]
pub(super) struct Numbers {
    evidence: &'static Evidence,
    /// With the policy that was found.
    value: f64,
    /// With what the help produces, if that can be simulated.
    fixed: Option<f64>,
    /// How many times smaller than the real one the simulated fleet is.
    scale: f64,
    /// Whether the policy has more attempts than the simulator supports.
    is_bounded: bool,
}

/// A simulation, which several findings may share.
#[derive(PartialEq)]
struct Job {
    evidence: &'static Evidence,
    scale: f64,
    is_bounded: bool,
    as_is: (Scenario, Subject),
    fixed: Option<(Scenario, Subject)>,
}

/// Simulates the findings that have a scenario. The inner error is an interruption by Ctrl-C.
pub(super) fn all(report: &mut Report) -> Result<Result<(), Failed>, Failed> {
    let mut jobs: Vec<Job> = Vec::new();
    let (mut wanted, mut impossible, mut left_out) = (Vec::new(), Vec::new(), 0);
    for (at, located) in report.findings.iter().enumerate() {
        let evidence =
            EVIDENCE.iter().find(|evidence| evidence.rules.contains(&located.finding.rule));
        let Some((evidence, found)) = evidence.zip(report.about(located)) else { continue };
        let job = match Job::of(evidence, found, located.finding.fix.as_deref()) {
            Ok(job) => job,
            Err(why) => {
                impossible.push((at, why));
                continue;
            }
        };
        match jobs.iter().position(|known| *known == job) {
            Some(known) => wanted.push((at, known)),
            None if jobs.len() == MAX_SIMULATIONS => left_out += 1,
            None => {
                wanted.push((at, jobs.len()));
                jobs.push(job);
            }
        }
    }
    let simulations: u32 = jobs.iter().map(Job::simulations).sum();
    let completed = with_progress(f64::from(simulations * RUNS), |watch| {
        jobs.iter().map(|job| job.run(watch)).collect::<Vec<Option<Simulated>>>()
    })?;
    for (at, job) in wanted {
        report.findings[at].simulated = completed.done[job].clone();
    }
    for (at, why) in impossible {
        report.findings[at].simulated = Some(Simulated::Skipped(why));
    }
    if left_out > 0 {
        writeln!(
            io::stderr(),
            "only {MAX_SIMULATIONS} simulations were run; {left_out} more findings have one: check fewer files"
        )?;
    }
    Ok(completed.end())
}

impl Job {
    /// The simulation of a finding, or why there is none.
    fn of(
        evidence: &'static Evidence,
        found: &Found,
        fix: Option<&Policy>,
    ) -> Result<Self, String> {
        let careless = !found.checks_safety;
        let subject = |name: &str, policy: &Policy| -> Result<Subject, String> {
            let policy = (evidence.prepare)(policy).ok_or("the scenario does not support it")?;
            let most = policy.attempts().min(Subject::MOST_ATTEMPTS);
            let policy = policy.edit().attempts(most).build().map_err(|it| it.to_string())?;
            Ok(Subject { careless, ..Subject::new(name, policy)? })
        };
        let as_is = subject("as it is", &found.policy)?;
        if let Some(why) = (evidence.excluded)(&as_is) {
            return Err(why.to_owned());
        }
        let fixed = match evidence.remedy {
            Remedy::Policy => fix.map(|policy| subject("fixed", policy)).transpose()?,
            Remedy::Setting(_) => Some(as_is.clone()),
        };
        let (sets, scale) = evidence.sets(&found.setting);
        let read = |is_fixed: bool| {
            let more = (evidence.parameters)(found, is_fixed);
            let sets: Vec<Set> = sets.iter().cloned().chain(more).collect();
            let built_in = BuiltIn::find(evidence.scenario).ok_or("there is no such scenario")?;
            built_in.read(&sets).map_err(|wrong| wrong.to_string())
        };
        let fixed = fixed.map(|subject| read(true).map(|scenario| (scenario, subject)));
        let is_bounded = found.policy.attempts() > Subject::MOST_ATTEMPTS;
        let as_is = (read(false)?, as_is);
        Ok(Self { evidence, scale, is_bounded, as_is, fixed: fixed.transpose()? })
    }

    fn simulations(&self) -> u32 {
        1 + u32::from(self.fixed.is_some())
    }

    /// `None` if it is interrupted.
    fn run(&self, watch: &Watch) -> Option<Simulated> {
        match self.numbers(watch) {
            Ok(numbers) => numbers.map(Simulated::Run),
            Err(why) => Some(Simulated::Skipped(why)),
        }
    }

    fn numbers(&self, watch: &Watch) -> Result<Option<Numbers>, String> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let settings = Settings { runs: RUNS, seed: SEED, threads };
        let of = |(scenario, subject): &(Scenario, Subject)| {
            let summary = simulate(&Choice::Auto.method(scenario, subject)?, &settings, watch);
            Ok::<_, String>((summary.runs > 0).then(|| summary.mean(self.evidence.measure)))
        };
        let Self { evidence, scale, is_bounded, .. } = *self;
        let Some(value) = of(&self.as_is)? else { return Ok(None) };
        let fixed = self.fixed.as_ref().map(of).transpose()?;
        let is_interrupted = fixed.is_some_and(|fixed| fixed.is_none());
        let numbers = Numbers { evidence, value, fixed: fixed.flatten(), scale, is_bounded };
        Ok((!is_interrupted).then_some(numbers))
    }
}

impl Simulated {
    /// What the text is about.
    pub(super) fn title(&self) -> &'static str {
        match self {
            Self::Run(_) => "simulated",
            Self::Skipped(_) => "not simulated",
        }
    }

    pub(super) fn json(&self) -> Value {
        match self {
            Self::Run(numbers) => numbers.json(),
            Self::Skipped(why) => json!({ "skipped": why }),
        }
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(numbers) => numbers.fmt(f),
            Self::Skipped(why) => f.write_str(why),
        }
    }
}

impl Numbers {
    fn json(&self) -> Value {
        json!({
            "scenario": self.evidence.scenario,
            "measure": self.evidence.measure.name(),
            "value": self.value,
            "fixed": self.fixed,
            "fix": self.fix_text(),
            "scale": self.scale,
        })
    }

    fn fix_text(&self) -> &'static str {
        match self.evidence.remedy {
            Remedy::Policy => "with the help applied",
            Remedy::Setting(text) => text,
        }
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { evidence, value, fixed, scale, is_bounded } = self;
        // Another field of the policy may prevent the harm.
        if fixed.is_some_and(|fixed| *value < fixed * 1.05) {
            f.write_str("this scenario does not show it. ")?;
        }
        write!(f, "{}: {}", evidence.measure_text, Number(*value))?;
        if let Some(fixed) = *fixed {
            write!(f, "; {}: {}", self.fix_text(), Number(fixed))?;
        }
        write!(f, " (scenario {}", evidence.scenario)?;
        if *is_bounded {
            write!(f, ", {} attempts, the most that can be simulated", Subject::MOST_ATTEMPTS)?;
        }
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
