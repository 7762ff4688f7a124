//! Runs every policy in every cell, on all processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::candidates::candidates;
use super::cell::Cell;
use super::outage::outage_runs;
use super::score::{Measure, Score, Scores, Trouble};
use crate::measure::{Run, Usual};
use crate::scale_model::ScaleModel;
use crate::simulate::{Watch, usual_of};
use crate::{Stream, Subject, exact};

/// The most load in trouble that an oracle may cause.
const MOST_LOAD: f64 = 1.5;
/// How many of the candidates are tried with further seeds before one of them is chosen.
const FINALISTS: usize = 6;
/// How many further seeds.
const TRIALS: u32 = 2;
/// Runs that choose the oracle are numbered from here, those that are scored from 0. Its luck is not counted.
const CHOOSING: u64 = 1 << 32;

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The cells.
    pub cells: &'a [Cell],
    /// Whether [`outages`](super::outages) are run too.
    pub outages: bool,
    /// The policies that are compared, each with the patience of the cell.
    pub subjects: &'a [Subject],
    /// Runs of each policy in each cell.
    pub runs: u32,
    /// The seed.
    pub seed: u64,
    /// How many cells are run at the same time. It does not change the result.
    pub threads: usize,
}

impl Plan<'_> {
    /// About how many runs there will be.
    pub fn total_runs(&self) -> f64 {
        let runs = f64::from(self.runs.max(1));
        let choosing = 1.0 + f64::from(TRIALS) * (1.0 + FINALISTS as f64);
        let of_cell = |cell| {
            (self.subjects.len() as f64 + 3.0) * runs + choosing + candidates(cell).len() as f64
        };
        self.cells.iter().map(of_cell).sum::<f64>() + outage_runs(self) as f64
    }
}

/// A policy in a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyScores {
    /// Its name.
    pub name: String,
    /// Its scores.
    pub scores: Scores,
}

/// The results of a cell.
#[derive(Clone, Debug)]
pub struct CellResult {
    /// The place of the cell in the plan.
    pub cell: usize,
    /// One attempt, with the whole deadline or with the timeout of the cell.
    pub one_attempt: Scores,
    /// The best of the candidates.
    pub oracle: PolicyScores,
    /// The policies that are compared, in the order of the plan.
    pub policies: Vec<PolicyScores>,
}

impl CellResult {
    /// By how much a policy loses more than the best comparator.
    pub fn regret(&self, by: Measure, of: &Scores) -> f64 {
        let least = by.of(&self.one_attempt).min(by.of(&self.oracle.scores));
        (by.of(of) - least).max(0.0)
    }

    /// What a policy gains over one attempt, as a share of what the oracle gains; `None` where that is less than a
    /// point.
    pub fn capture(&self, of: &Scores) -> Option<f64> {
        let one = self.one_attempt.loss();
        let gain = one - self.oracle.scores.loss();
        (gain >= 0.01).then(|| (one - of.loss()) / gain)
    }
}

/// Runs all cells. The results are those of the cells that were completed before a stop, in the order of the plan.
///
/// # Errors
///
/// A policy cannot have the patience of a cell.
pub fn bench(plan: &Plan<'_>, watch: &Watch) -> Result<Vec<CellResult>, String> {
    for cell in plan.cells {
        for subject in plan.subjects {
            cell.with_patience(subject).map_err(|why| format!("{}: {why}", cell.name))?;
        }
    }
    let job = |number: usize| Bench::new(plan, &plan.cells[number]).run(number, watch);
    in_parallel(plan.cells.len(), plan.threads, watch, job).into_iter().collect()
}

/// Does the jobs with numbers below `count`. The results are those of the jobs that were completed before a stop, in
/// order.
pub(super) fn in_parallel<T: Send>(
    count: usize,
    threads: usize,
    watch: &Watch,
    job: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let result = job(number);
                    if watch.is_stopped() {
                        return;
                    }
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// One cell.
struct Bench<'a> {
    plan: &'a Plan<'a>,
    cell: &'a Cell,
    one_attempt: Subject,
    usual: Usual,
    /// The scale of the model that is run.
    k: u32,
}

impl<'a> Bench<'a> {
    fn new(plan: &'a Plan<'a>, cell: &'a Cell) -> Self {
        let no_retry = Subject::no_retry();
        let one_attempt = cell.with_patience(&no_retry).unwrap_or(no_retry);
        let usual = usual_of(&cell.scenario, &one_attempt, plan.seed);
        Self { plan, cell, one_attempt, usual, k: cell.scale() }
    }

    fn run(&self, number: usize, watch: &Watch) -> Result<CellResult, String> {
        let scored: Vec<u64> = (0..u64::from(self.plan.runs.max(1))).collect();
        let troubles = self.troubles(&scored, watch);
        let scores = |subject: &Subject| self.scores(subject, &scored, &troubles, watch);
        let entry =
            |subject: Subject| PolicyScores { scores: scores(&subject), name: subject.name };
        let policies = self.subjects()?.into_iter().map(entry).collect();
        let oracle = entry(self.choose(watch));
        Ok(CellResult { cell: number, one_attempt: scores(&self.one_attempt), oracle, policies })
    }

    /// The policies that are compared, with the patience of the cell.
    fn subjects(&self) -> Result<Vec<Subject>, String> {
        self.plan.subjects.iter().map(|subject| self.cell.with_patience(subject)).collect()
    }

    /// The candidate with the least loss, by other seeds than those that are scored.
    fn choose(&self, watch: &Watch) -> Subject {
        let all = candidates(self.cell);
        let first = [CHOOSING];
        let troubles = self.troubles(&first, watch);
        let mut ranked: Vec<(Subject, Scores)> = Vec::with_capacity(all.len());
        for subject in all {
            let scores = self.scores(&subject, &first, &troubles, watch);
            ranked.push((subject, scores));
        }
        ranked.retain(|(_, scores)| is_eligible(scores));
        ranked.sort_by(|(_, one), (_, other)| one.loss().total_cmp(&other.loss()));
        ranked.truncate(FINALISTS);
        let more: Vec<u64> = (1..=u64::from(TRIALS)).map(|n| CHOOSING + n).collect();
        let troubles = self.troubles(&more, watch);
        for (subject, scores) in &mut ranked {
            scores.0.extend(self.scores(subject, &more, &troubles, watch).0);
        }
        ranked.retain(|(_, scores)| is_eligible(scores));
        let best = ranked.into_iter().min_by(|(_, a), (_, b)| a.loss().total_cmp(&b.loss()));
        best.map_or_else(|| self.one_attempt.clone(), |(subject, _)| subject)
    }

    fn troubles(&self, numbers: &[u64], watch: &Watch) -> Vec<Trouble> {
        let runs = numbers.iter().map(|number| self.run_of(&self.one_attempt, *number, watch));
        runs.map(|run| Trouble::of(self.cell, &run, &self.usual)).collect()
    }

    fn scores(
        &self,
        subject: &Subject,
        numbers: &[u64],
        troubles: &[Trouble],
        watch: &Watch,
    ) -> Scores {
        let runs = numbers.iter().zip(troubles).map(|(number, trouble)| {
            let run = self.run_of(subject, *number, watch);
            Score::of(self.cell, &run, *trouble, &self.usual)
        });
        Scores(runs.collect())
    }

    fn run_of(&self, subject: &Subject, number: u64, watch: &Watch) -> Run {
        let seed = Stream::new(self.plan.seed).of(number).bits();
        let scenario = &self.cell.scenario;
        let scaled = || ScaleModel::new(scenario, subject, self.k);
        let run = match (self.k > 1).then(scaled) {
            Some(Ok(model)) => model.run(seed, watch),
            // The policies of a cell can be divided: `Cell::with_patience` has tried.
            Some(Err(_)) | None => exact::run(scenario, subject, seed, watch),
        };
        run.compared(&self.usual)
    }
}

/// One attempt always counts; a candidate only if it does no harm of its own.
fn is_eligible(scores: &Scores) -> bool {
    !scores.collapses() && scores.load() <= MOST_LOAD
}
