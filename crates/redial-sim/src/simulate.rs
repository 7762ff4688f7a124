//! Many runs of some policies, on all processors.
//!
//! Whoever compares policies and has seen enough wants as many runs of one as of the other, so they take turns: the
//! first run of every policy is made before the second run of any.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::measure::{Run, Summary};
use crate::{Scenario, Stream, Subject, cohort, exact};

/// How often, from which random numbers, and on how many threads.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Runs of each policy, each with other random numbers.
    pub runs: u32,
    /// Names the random numbers.
    pub seed: u64,
    /// How many runs are made at the same time. Changes nothing in the result.
    pub threads: usize,
    /// How it is computed.
    pub engine: Choice,
}

/// How a run is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// By cohorts where there is much to do and the model allows it, else exactly.
    #[default]
    Auto,
    /// Every caller by itself.
    Exact,
    /// Callers that are alike together.
    Cohort,
}

/// Runs with more calls than this are counted instead of followed, where that is the same.
const MANY: f64 = 2e6;

impl Choice {
    /// What computes this policy in this scenario. Cohorts that do not [fit](cohort::fits) are followed exactly.
    pub fn engine(self, scenario: &Scenario, subject: &Subject) -> Engine {
        let wanted = match self {
            Self::Auto => scenario.calls() > MANY,
            Self::Exact => false,
            Self::Cohort => true,
        };
        if wanted && cohort::fits(scenario, subject).is_ok() {
            Engine::Cohort
        } else {
            Engine::Exact
        }
    }
}

/// What computes a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// [`exact`].
    #[default]
    Exact,
    /// [`cohort`].
    Cohort,
}

impl Engine {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Cohort => "cohort",
        }
    }
}

/// How far it is, and whether somebody has seen enough.
#[derive(Debug, Default)]
pub struct Watch {
    stopped: AtomicBool,
    /// In billionths of a run.
    done: AtomicU64,
}

impl Watch {
    /// Ends it. What has been done by then is the result.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it has been ended.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// How many runs have been made, those that are under way in part.
    pub fn runs_done(&self) -> f64 {
        self.done.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// A run has come further by this share of itself.
    pub(crate) fn advance(&self, share: f64) {
        self.done.fetch_add((share * 1e9) as u64, Ordering::Relaxed);
    }
}

/// Runs a scenario with one policy. Runs that were not made because somebody stopped it are not in the summary;
/// if none was made, it is of no runs.
pub fn simulate(
    scenario: &Scenario,
    subject: &Subject,
    settings: &Settings,
    watch: &Watch,
) -> Summary {
    let mut summaries = turns(&[(scenario, subject)], settings, watch, |run| run);
    summaries.pop().unwrap_or_else(|| Summary::of(&[]))
}

/// Runs a scenario with each of these policies. What comes of each is what [`simulate`] makes of it alone.
pub fn simulate_all(
    scenario: &Scenario,
    subjects: &[Subject],
    settings: &Settings,
    watch: &Watch,
) -> Vec<Summary> {
    let jobs: Vec<_> = subjects.iter().map(|subject| (scenario, subject)).collect();
    turns(&jobs, settings, watch, |run| run)
}

/// Makes the first run of every job, then the second of every job, and so on. `keep` is what is kept of a run until
/// all are made.
pub(crate) fn turns(
    jobs: &[(&Scenario, &Subject)],
    settings: &Settings,
    watch: &Watch,
    keep: impl Fn(Run) -> Run + Sync,
) -> Vec<Summary> {
    let engine =
        |(scenario, subject): &(&Scenario, &Subject)| settings.engine.engine(scenario, subject);
    let engines: Vec<Engine> = jobs.iter().map(engine).collect();
    let next = AtomicU64::new(0);
    let count = u64::from(settings.runs.max(1)) * jobs.len() as u64;
    // Only what has been made takes space: a sweep that is to be stopped may be of ten billion runs.
    let made: Vec<Mutex<Vec<(u64, Run)>>> = jobs.iter().map(|_| Mutex::default()).collect();
    thread::scope(|scope| {
        for _ in 0..(settings.threads.max(1) as u64).min(count) {
            scope.spawn(|| {
                loop {
                    let turn = next.fetch_add(1, Ordering::Relaxed);
                    if turn >= count || watch.is_stopped() {
                        return;
                    }
                    let (number, job) =
                        (turn / jobs.len() as u64, (turn % jobs.len() as u64) as usize);
                    let seed = Stream::new(settings.seed).of(number).bits();
                    let run = match engines[job] {
                        Engine::Exact => exact::run,
                        Engine::Cohort => cohort::run,
                    };
                    let run = run(jobs[job].0, jobs[job].1, seed, watch);
                    if !watch.is_stopped() {
                        let mut made = made[job].lock().unwrap_or_else(PoisonError::into_inner);
                        made.push((number, keep(run)));
                    }
                }
            });
        }
    });
    let summaries = made.into_iter().zip(engines).map(|(made, engine)| {
        let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Sums of floating-point numbers depend on their order, and threads end in any.
        made.sort_unstable_by_key(|(number, _)| *number);
        Summary { engine, ..Summary::of(&made.into_iter().map(|(_, run)| run).collect::<Vec<_>>()) }
    });
    summaries.collect()
}
