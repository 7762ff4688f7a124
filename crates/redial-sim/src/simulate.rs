//! Many runs of several policies, on all processors.
//!
//! Policies take turns: the first run of every policy is made before the second run of any. A comparison that is
//! stopped early then has the same number of runs of each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use redial_core::Span;

pub use crate::method::{Choice, Detail, MOST_CALLS_FOLLOWED, MOST_EXACT_CALLS, Method};
pub use crate::watch::{PolicyAttempts, Watch};

use crate::measure::{Engine, Run, Summary, Usual};
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
}

/// What is usual is measured with about this many calls, over at least this time.
const ENOUGH_CALLS: f64 = 20_000.0;
const LEAST_TIME: Span = Span::from_secs(10);
/// With more calls than this it is measured by a scale model.
const MOST_CALLS_OF_USUAL: f64 = 2e5;

/// Runs a policy in a scenario. The summary covers the runs that were made before a stop, possibly none.
pub fn simulate(method: &Method<'_>, settings: &Settings, watch: &Watch) -> Summary {
    let mut summaries = simulate_all(std::slice::from_ref(method), settings, watch);
    summaries.pop().unwrap_or_else(|| Summary::of(&[]))
}

/// Runs each of these policies. The result for each is the same as that of [`simulate`].
pub fn simulate_all(methods: &[Method<'_>], settings: &Settings, watch: &Watch) -> Vec<Summary> {
    turns(methods, settings, watch, |run| run)
}

/// What one attempt achieves when nothing is wrong. It is measured by a run without faults, which is shorter where
/// there are many calls.
pub fn usual_of(scenario: &Scenario, one_attempt: &Subject, seed: u64) -> Usual {
    usual_with(scenario, one_attempt, seed, MOST_CALLS_OF_USUAL)
}

/// The same for the runs of this method.
fn usual_for(method: &Method<'_>, seed: u64) -> Usual {
    let most_calls = match method.choice {
        Choice::Quick(Detail::Coarse) => ENOUGH_CALLS / 4.0,
        Choice::Quick(Detail::Full) => ENOUGH_CALLS,
        _ => MOST_CALLS_OF_USUAL,
    };
    usual_with(method.scenario, &method.subject.one_attempt(), seed, most_calls)
}

/// The same, with at most so many calls.
fn usual_with(scenario: &Scenario, one_attempt: &Subject, seed: u64, most_calls: f64) -> Usual {
    let Some(rate) = scenario.rate() else { return Usual::default() };
    let enough = Span::from_secs_f64(ENOUGH_CALLS / rate);
    let is_steady = !matches!(scenario.clients.arrivals, Arrivals::Ramp { .. });
    let longest = if is_steady { enough.max(LEAST_TIME) } else { Span::MAX };
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

/// Makes the first run of every method, then the second of every method, and so on. `keep` selects what is kept of a run
/// until the end.
pub(crate) fn turns(
    methods: &[Method<'_>],
    settings: &Settings,
    watch: &Watch,
    keep: impl Fn(Run) -> Run + Sync,
) -> Vec<Summary> {
    let usual: Vec<OnceLock<Usual>> = methods.iter().map(|_| OnceLock::new()).collect();
    // Policies with the same patience are compared with the same run.
    let first_like = |method: &Method<'_>| {
        let is_like = |other: &Method<'_>| {
            std::ptr::eq(other.scenario, method.scenario)
                && other.choice == method.choice
                && other.subject.one_attempt() == method.subject.one_attempt()
        };
        methods.iter().position(is_like).unwrap_or_default()
    };
    let measure: Vec<usize> = methods.iter().map(first_like).collect();
    let next = AtomicU64::new(0);
    let count = u64::from(settings.runs.max(1)) * methods.len() as u64;
    // Memory grows with the runs that were made: a sweep that will be stopped may have ten billion.
    let made: Vec<Mutex<Vec<(u64, Run)>>> = methods.iter().map(|_| Mutex::default()).collect();
    thread::scope(|scope| {
        for _ in 0..(settings.threads.max(1) as u64).min(count) {
            scope.spawn(|| {
                loop {
                    let turn = next.fetch_add(1, Ordering::Relaxed);
                    if turn >= count || watch.is_stopped() {
                        return;
                    }
                    let (number, job) =
                        (turn / methods.len() as u64, (turn % methods.len() as u64) as usize);
                    let method = &methods[job];
                    let seed = Stream::new(settings.seed).of(number).bits();
                    let usual =
                        usual[measure[job]].get_or_init(|| usual_for(method, settings.seed));
                    let run = method.run(seed, watch).compared(usual);
                    // It depends on when single calls began.
                    let is_counted = method.engine() == Engine::Cohort;
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
    let summaries = made.into_iter().zip(methods).map(|(made, method)| {
        let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Floating-point sums depend on their order, and threads end in any order.
        made.sort_unstable_by_key(|(number, _)| *number);
        let made: Vec<Run> = made.into_iter().map(|(_, run)| run).collect();
        Summary { engine: method.engine(), notes: method.notes().to_vec(), ..Summary::of(&made) }
    });
    summaries.collect()
}
