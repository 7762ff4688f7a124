//! Many runs of one policy, on all processors.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::measure::{Run, Summary};
use crate::{Scenario, Stream, Subject, exact};

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
    let next = AtomicUsize::new(0);
    let count = settings.runs.max(1) as usize;
    let runs: Mutex<Vec<Option<Run>>> = Mutex::new(vec![None; count]);
    thread::scope(|scope| {
        for _ in 0..settings.threads.clamp(1, count) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count || watch.is_stopped() {
                        return;
                    }
                    let seed = Stream::new(settings.seed).of(number as u64).bits();
                    let run = exact::run(scenario, subject, seed, watch);
                    if !watch.is_stopped() {
                        runs.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(run);
                    }
                }
            });
        }
    });
    let runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    Summary::of(&runs.into_iter().flatten().collect::<Vec<_>>())
}
