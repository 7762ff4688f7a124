//! Many runs of several policies, on all processors.
//!
//! Policies take turns: the first run of every policy is made before the second run of any. A comparison that is
//! stopped early then has the same number of runs of each.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use redial_core::Nanos;

pub use crate::method::{Choice, Detail, Engine, MOST_CALLS_FOLLOWED, MOST_EXACT_CALLS, Method};

use crate::measure::{Run, Summary, Usual};
use crate::scale_model::{ScaleModel, scale_of};
use crate::scenario::Arrivals;
use crate::{Scenario, Stream, Subject};

/// How many runs, with which seed, and on how many threads.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Runs of each policy, each with its own random numbers.
    pub runs: u32,
    /// The seed.
    pub seed: u64,
    /// How many runs are made at the same time. It does not change the result.
    pub threads: usize,
    /// The engine to use.
    pub engine: Choice,
}

/// What is usual is measured with about this many calls, over at least this time.
const ENOUGH_CALLS: f64 = 20_000.0;
const LEAST_TIME: Nanos = 10_000_000_000;
/// With more calls than this it is measured by a scale model.
const MOST_CALLS_OF_USUAL: f64 = 2e5;

/// The progress of a simulation, and a way to stop it.
#[derive(Debug, Default)]
pub struct Watch {
    stopped: AtomicBool,
    /// In billionths of a run.
    done: AtomicU64,
}

impl Watch {
    /// Stops it. The runs made by then are the result.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// How many runs were made, including fractions of those under way.
    pub fn runs_done(&self) -> f64 {
        self.done.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// A run has progressed by this share.
    pub fn advance(&self, share: f64) {
        self.done.fetch_add((share * 1e9) as u64, Ordering::Relaxed);
    }
}

/// Runs a scenario with one policy. The summary covers the runs that were made before a stop, possibly none.
pub fn simulate(
    scenario: &Scenario,
    subject: &Subject,
    settings: &Settings,
    watch: &Watch,
) -> Summary {
    let mut summaries = turns(&[(scenario, subject)], settings, watch, |run| run);
    summaries.pop().unwrap_or_else(|| Summary::of(&[]))
}

/// Runs a scenario with each of these policies. The result for each is the same as that of [`simulate`].
pub fn simulate_all(
    scenario: &Scenario,
    subjects: &[Subject],
    settings: &Settings,
    watch: &Watch,
) -> Vec<Summary> {
    let jobs: Vec<_> = subjects.iter().map(|subject| (scenario, subject)).collect();
    turns(&jobs, settings, watch, |run| run)
}

/// What one attempt achieves when nothing is wrong. It is measured by a run without faults, which is shorter where
/// there are many calls.
pub fn usual_of(scenario: &Scenario, one_attempt: &Subject, seed: u64) -> Usual {
    usual_with(scenario, one_attempt, seed, MOST_CALLS_OF_USUAL)
}

/// The same, with at most so many calls.
fn usual_with(scenario: &Scenario, one_attempt: &Subject, seed: u64, most_calls: f64) -> Usual {
    let Some(rate) = scenario.rate() else { return Usual::default() };
    let enough = (ENOUGH_CALLS / rate * 1e9) as Nanos;
    let is_steady = !matches!(scenario.clients.arrivals, Arrivals::Ramp { .. });
    let longest = if is_steady { enough.max(LEAST_TIME) } else { Nanos::MAX };
    let healthy =
        Scenario { duration: scenario.duration.min(longest), ..scenario.without_faults() };
    // It is not part of the progress, so it is short.
    let auto = Choice::Auto.method(&healthy, one_attempt).ok();
    let model = || ScaleModel::new(&healthy, one_attempt, scale_of(&healthy, most_calls)).ok();
    let outcomes = match auto.filter(|method| method.work() <= most_calls) {
        Some(method) => Some(method.run(seed, &Watch::default()).outcomes),
        None => model().map(|model| model.run(seed, &Watch::default()).outcomes),
    };
    outcomes.map_or_else(Usual::default, |outcomes| outcomes.usual())
}

/// Makes the first run of every job, then the second of every job, and so on. `keep` selects what is kept of a run
/// until the end.
pub(crate) fn turns<'a>(
    jobs: &[(&'a Scenario, &'a Subject)],
    settings: &Settings,
    watch: &Watch,
    keep: impl Fn(Run) -> Run + Sync,
) -> Vec<Summary> {
    let method = |(scenario, subject): &(&'a Scenario, &'a Subject)| {
        let method = settings.engine.method(scenario, subject);
        method.unwrap_or_else(|why| Method::exact(scenario, subject, Some(why)))
    };
    let methods: Vec<Method<'a>> = jobs.iter().map(method).collect();
    let usual: Vec<OnceLock<Usual>> = jobs.iter().map(|_| OnceLock::new()).collect();
    // Policies with the same patience are compared with the same run.
    let first_like = |(scenario, subject): &(&Scenario, &Subject)| {
        let is_like = |(other, with): &(&Scenario, &Subject)| {
            std::ptr::eq(*other, *scenario) && with.one_attempt() == subject.one_attempt()
        };
        jobs.iter().position(is_like).unwrap_or_default()
    };
    let measure: Vec<usize> = jobs.iter().map(first_like).collect();
    let most_of_usual = match settings.engine {
        Choice::Quick(Detail::Coarse) => ENOUGH_CALLS / 4.0,
        Choice::Quick(Detail::Full) => ENOUGH_CALLS,
        _ => MOST_CALLS_OF_USUAL,
    };
    let next = AtomicU64::new(0);
    let count = u64::from(settings.runs.max(1)) * jobs.len() as u64;
    // Memory grows with the runs that were made: a sweep that will be stopped may have ten billion.
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
                    let (scenario, subject) = jobs[job];
                    let usual = usual[measure[job]].get_or_init(|| {
                        usual_with(scenario, &subject.one_attempt(), settings.seed, most_of_usual)
                    });
                    let run = methods[job].run(seed, watch).compared(usual);
                    // It depends on when single calls began.
                    let is_counted = methods[job].engine() == Engine::Cohort;
                    let recover_ms = run.recover_ms.filter(|_| !is_counted);
                    let run = Run { recover_ms, ..run };
                    if !watch.is_stopped() {
                        let mut made = made[job].lock().unwrap_or_else(PoisonError::into_inner);
                        made.push((number, keep(run)));
                    }
                }
            });
        }
    });
    let summaries = made.into_iter().zip(&methods).map(|(made, method)| {
        let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Floating-point sums depend on their order, and threads end in any order.
        made.sort_unstable_by_key(|(number, _)| *number);
        let made: Vec<Run> = made.into_iter().map(|(_, run)| run).collect();
        Summary { engine: method.engine(), notes: method.notes().to_vec(), ..Summary::of(&made) }
    });
    summaries.collect()
}
