//! Many runs of several policies, on all processors.
//!
//! Policies take turns: the first run of every policy is made before the second run of any. A comparison that is
//! stopped early then has the same number of runs of each.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use redial_core::Nanos;

use crate::cohort::Refused;
use crate::measure::{Run, Summary, Usual};
use crate::report::count;
use crate::scale_model::{self, ScaleModel};
use crate::{Scenario, Stream, Subject, cohort, exact};

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

/// Which engine to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Cohorts where they fit and are faster, else the exact engine; a scale model if that would follow more than
    /// [`MOST_CALLS_FOLLOWED`].
    #[default]
    Auto,
    /// The exact engine.
    Exact,
    /// Cohorts.
    Cohort,
    /// A scale model, with at most [`scale_model::MOST_CALLS`] in a run.
    Scale,
}

/// [`Choice::Auto`] follows at most this many calls of a run one by one: about ten seconds of work.
pub const MOST_CALLS_FOLLOWED: f64 = 3e7;
/// The most calls of a run that the exact engine can follow.
pub const MOST_EXACT_CALLS: f64 = 2e9;
/// A tick of the cohorts takes about as long as this many calls of the exact engine.
const CALLS_PER_TICK: f64 = 4.0;

/// What is usual is measured with about this many calls, over at least this time.
const ENOUGH_CALLS: f64 = 20_000.0;
const LEAST_TIME: Nanos = 10_000_000_000;

impl Choice {
    /// How this policy is simulated in this scenario.
    ///
    /// # Errors
    ///
    /// It is not possible with this choice. The message says what to change.
    pub fn method<'a>(
        self,
        scenario: &'a Scenario,
        subject: &'a Subject,
    ) -> Result<Method<'a>, String> {
        let calls = scenario.calls();
        let is_dense = calls > CALLS_PER_TICK * cohort::ticks(scenario, subject) as f64;
        let model = || cohort::Model::new(scenario, subject);
        match self {
            Self::Exact => Method::exact(scenario, subject, None).checked(),
            Self::Cohort => model().map(Method::cohort).map_err(|why| why.to_string()),
            Self::Scale => Method::scale(scenario, subject, None),
            Self::Auto if is_dense || calls > MOST_EXACT_CALLS => match model() {
                Ok(model) => Ok(Method::cohort(model)),
                Err(why) if calls > MOST_CALLS_FOLLOWED => {
                    Method::scale(scenario, subject, Some(why))
                }
                Err(why) => Method::exact(scenario, subject, Some(why)).checked(),
            },
            Self::Auto => Method::exact(scenario, subject, None).checked(),
        }
    }
}

/// How the runs of a policy are computed.
#[derive(Clone, Debug)]
pub struct Method<'a> {
    model: Model<'a>,
    /// Why it is not done by cohorts, and what is distorted.
    notes: Vec<String>,
}

#[derive(Clone, Debug)]
enum Model<'a> {
    Exact(&'a Scenario, &'a Subject),
    Cohort(Box<cohort::Model<'a>>),
    Scale(Box<ScaleModel>),
}

impl<'a> Method<'a> {
    fn exact(scenario: &'a Scenario, subject: &'a Subject, why: Option<Refused>) -> Self {
        let notes = why.iter().map(ToString::to_string).collect();
        Self { model: Model::Exact(scenario, subject), notes }
    }

    fn cohort(model: cohort::Model<'a>) -> Self {
        Self { model: Model::Cohort(Box::new(model)), notes: Vec::new() }
    }

    fn scale(
        scenario: &'a Scenario,
        subject: &'a Subject,
        why: Option<Refused>,
    ) -> Result<Self, String> {
        let k = scale_model::scale_of(scenario, scale_model::MOST_CALLS);
        if k == 1 {
            return Ok(Self::exact(scenario, subject, why));
        }
        let model = ScaleModel::new(scenario, subject, k)?;
        let notes = why.iter().map(ToString::to_string);
        let notes = notes.chain(model.distortions().iter().cloned()).collect();
        Ok(Self { model: Model::Scale(Box::new(model)), notes })
    }

    /// Refuses more calls than the exact engine can follow.
    fn checked(self) -> Result<Self, String> {
        if self.work() <= MOST_EXACT_CALLS {
            return Ok(self);
        }
        Err(format!(
            "{} calls in a run are too many for the exact engine (at most {}); omit --engine exact, or lower the rate, \
             the number of callers or the duration",
            count(self.work()),
            count(MOST_EXACT_CALLS)
        ))
    }

    /// The engine.
    pub fn engine(&self) -> Engine {
        match &self.model {
            Model::Exact(..) => Engine::Exact,
            Model::Cohort(_) => Engine::Cohort,
            Model::Scale(model) => Engine::Scale(model.k()),
        }
    }

    /// The work of a run, as the number of calls that the exact engine would follow in the same time.
    pub fn work(&self) -> f64 {
        match &self.model {
            Model::Exact(scenario, _) => scenario.calls(),
            Model::Cohort(model) => model.ticks() as f64 * CALLS_PER_TICK,
            Model::Scale(model) => model.calls(),
        }
    }

    fn run(&self, seed: u64, watch: &Watch) -> Run {
        match &self.model {
            Model::Exact(scenario, subject) => exact::run(scenario, subject, seed, watch),
            Model::Cohort(model) => model.run(seed, watch),
            Model::Scale(model) => model.run(seed, watch),
        }
    }
}

/// An engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// [`exact`].
    #[default]
    Exact,
    /// [`cohort`].
    Cohort,
    /// [`exact`], for a [scale model](scale_model) 1:k.
    Scale(u32),
}

impl Engine {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Cohort => "cohort",
            Self::Scale(_) => "scale",
        }
    }

    /// By how much the scenario was divided.
    pub fn scale(self) -> u32 {
        if let Self::Scale(k) = self { k } else { 1 }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale(k) => write!(f, "exact engine, a scale model 1:{k}"),
            other => write!(f, "{} engine", other.name()),
        }
    }
}

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

/// What a caller with the patience of this policy achieves by one attempt when nothing is wrong. It is measured by a
/// run without faults, which is shorter where there are many calls.
pub fn usual_of(scenario: &Scenario, subject: &Subject, settings: &Settings) -> Usual {
    let Some(rate) = scenario.rate() else { return Usual::default() };
    let enough = (ENOUGH_CALLS / rate * 1e9) as Nanos;
    let healthy = Scenario {
        duration: scenario.duration.min(enough.max(LEAST_TIME)),
        ..scenario.without_faults()
    };
    let one = subject.one_attempt();
    let method = settings.engine.method(&healthy, &one);
    method.map_or_else(
        |_| Usual::default(),
        |method| method.run(settings.seed, &Watch::default()).outcomes.usual(),
    )
}

/// Makes the first run of every job, then the second of every job, and so on. `keep` selects what is kept of a run
/// until the end.
pub(crate) fn turns<'a>(
    jobs: &[(&'a Scenario, &'a Subject)],
    settings: &Settings,
    watch: &Watch,
    keep: impl Fn(Run) -> Run + Sync,
) -> Vec<Summary> {
    let usual: Vec<OnceLock<Usual>> = jobs.iter().map(|_| OnceLock::new()).collect();
    // Policies with the same deadline are compared with the same run.
    let first_like = |(scenario, subject): &(&Scenario, &Subject)| {
        let is_like = |(other, with): &(&Scenario, &Subject)| {
            std::ptr::eq(*other, *scenario) && with.policy.deadline() == subject.policy.deadline()
        };
        jobs.iter().position(is_like).unwrap_or_default()
    };
    let measure: Vec<usize> = jobs.iter().map(first_like).collect();
    let method = |(scenario, subject): &(&'a Scenario, &'a Subject)| {
        let method = settings.engine.method(scenario, subject);
        method.unwrap_or_else(|why| Method {
            model: Model::Exact(scenario, subject),
            notes: vec![why],
        })
    };
    let methods: Vec<Method<'a>> = jobs.iter().map(method).collect();
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
                    let usual =
                        usual[measure[job]].get_or_init(|| usual_of(scenario, subject, settings));
                    let run = methods[job].run(seed, watch).compared(usual);
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
        Summary { engine: method.engine(), notes: method.notes.clone(), ..Summary::of(&made) }
    });
    summaries.collect()
}
