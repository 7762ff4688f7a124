//! What takes longer than a moment: exact runs, several of them, and the map of where a policy collapses. A run has progress
//! and can be cancelled. Runs are computed one after the other, on a thread of their own.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::Path;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use http::StatusCode;
use redial_sim::report::Case;
use redial_sim::scale_model::MOST_CALLS;
use redial_sim::simulate::{Choice, Method, Settings, Watch, simulate_all};
use serde::{Deserialize, Serialize};

use super::answer::{self, Answer, PolicyAnswer};
use super::map::{Map, MapAnswer};
use super::simulation_thread::FAILED;
use super::{Ask, Playground, Question, SimulationThread, sentence, work};
use crate::app::App;
use crate::body::Body;
use crate::clock::Stopwatch;
use crate::error::ApiError;

/// How many runs are remembered.
const MOST_KEPT: usize = 16;
/// The most runs of each policy.
const MOST_RUNS: u32 = 100;
/// The most clients that are followed one by one, of two kilobytes each.
const MOST_CLIENTS: u32 = 50_000;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/runs", post(start))
        .route("/runs/{id}", get(show))
        .route("/runs/{id}/cancel", post(cancel))
}

/// The longer runs of all visitors.
#[derive(Debug)]
pub(crate) struct Runs {
    simulation_thread: SimulationThread,
    all: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    last: u64,
    kept: VecDeque<Arc<LongRun>>,
}

#[derive(Debug)]
struct LongRun {
    id: u64,
    watch: Watch,
    /// How many runs there are in all.
    count: f64,
    outcome: Mutex<Option<Outcome>>,
}

#[derive(Clone, Debug)]
enum Outcome {
    Done(RunResult),
    /// It panicked, or was refused although it had been checked.
    Failed,
}

/// What a longer run computes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(untagged)]
pub(super) enum RunResult {
    Exact(Box<Answer>),
    Map(Box<MapAnswer>),
}

/// What computes the result.
type Compute = Box<dyn FnOnce(&Watch) -> Result<RunResult, ApiError> + Send>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    kind: Kind,
    ask: Ask,
    /// How often each policy is run.
    #[serde(default = "ten")]
    runs: u32,
}

fn ten() -> u32 {
    10
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Exact,
    Map,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct RunStarted {
    id: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct RunStatus {
    state: &'static str,
    /// From 0 to 1.
    progress: f64,
    result: Option<RunResult>,
    /// Why there is no result; absent unless it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    error: Option<&'static str>,
}

impl Runs {
    pub(super) fn new() -> Self {
        Self { simulation_thread: SimulationThread::new("playground-runs"), all: Mutex::default() }
    }

    /// Submits a run and remembers it. The oldest one that has ended is forgotten.
    fn start(&self, count: f64, compute: Compute) -> Result<u64, ApiError> {
        let mut log = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = log.kept.iter().position(|run| run.has_ended());
        if log.kept.len() >= MOST_KEPT && ended.is_none() {
            let why = "too many longer runs are under way: cancel one, or try again later";
            return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        let id = log.last + 1;
        let run = LongRun { id, watch: Watch::default(), count, outcome: Mutex::default() };
        let run = Arc::new(run);
        let submitted = Arc::clone(&run);
        self.simulation_thread.submit(Box::new(move || submitted.make(compute)))?;
        if log.kept.len() >= MOST_KEPT {
            ended.and_then(|at| log.kept.remove(at));
        }
        log.last = id;
        log.kept.push_back(run);
        Ok(id)
    }

    fn find(&self, id: u64) -> Result<Arc<LongRun>, ApiError> {
        let log = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let run = log.kept.iter().find(|run| run.id == id).cloned();
        run.ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, format!("there is no run {id}")))
    }
}

impl LongRun {
    fn make(&self, compute: Compute) {
        if self.watch.is_stopped() {
            return;
        }
        let computed = catch_unwind(AssertUnwindSafe(|| compute(&self.watch)));
        let computed = computed.ok().and_then(Result::ok);
        let outcome = computed.map_or(Outcome::Failed, Outcome::Done);
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }

    fn outcome(&self) -> Option<Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn has_ended(&self) -> bool {
        self.watch.is_stopped() || self.outcome().is_some()
    }

    fn status(&self) -> RunStatus {
        let made = (self.watch.runs_done() / self.count.max(1.0)).min(1.0);
        let status = |state, progress, result| RunStatus { state, progress, result, error: None };
        match self.outcome() {
            // What was computed before it was cancelled.
            Some(Outcome::Done(part)) if self.watch.is_stopped() => {
                status("cancelled", made, Some(part))
            }
            _ if self.watch.is_stopped() => status("cancelled", made, None),
            // The shares of runs are rounded.
            Some(Outcome::Done(result)) => status("done", 1.0, Some(result)),
            Some(Outcome::Failed) => {
                RunStatus { error: Some(FAILED), ..status("failed", made, None) }
            }
            None => status("running", made, None),
        }
    }
}

async fn start(
    Extension(playground): Extension<Arc<Playground>>,
    Body(Start { kind, ask, runs }): Body<Start>,
) -> Result<Json<RunStarted>, ApiError> {
    if !(1..=MOST_RUNS).contains(&runs) {
        return Err(ApiError::bad_request(format!(
            "runs is {runs}, and has to be from 1 to {MOST_RUNS}"
        )));
    }
    let question = ask.question()?;
    let (count, compute): (f64, Compute) = match kind {
        Kind::Exact => {
            let exact = Exact::new(question, runs)?;
            let count = f64::from(runs) * exact.question.subjects().count() as f64;
            (
                count,
                Box::new(move |watch| {
                    exact.answer(watch).map(|answer| RunResult::Exact(Box::new(answer)))
                }),
            )
        }
        Kind::Map => {
            let map = Map::new(question)?;
            (
                map.runs(),
                Box::new(move |watch| {
                    map.answer(watch).map(|answer| RunResult::Map(Box::new(answer)))
                }),
            )
        }
    };
    let id = playground.runs.start(count, compute)?;
    Ok(Json(RunStarted { id }))
}

async fn show(
    Extension(playground): Extension<Arc<Playground>>,
    Path(id): Path<u64>,
) -> Result<Json<RunStatus>, ApiError> {
    Ok(Json(playground.runs.find(id)?.status()))
}

async fn cancel(
    Extension(playground): Extension<Arc<Playground>>,
    Path(id): Path<u64>,
) -> Result<Json<RunStatus>, ApiError> {
    let run = playground.runs.find(id)?;
    if run.outcome().is_none() {
        run.watch.stop();
    }
    Ok(Json(run.status()))
}

/// Every call followed one by one, in several runs; above two million calls in a run, a scale model with so many.
struct Exact {
    question: Question,
    runs: u32,
}

impl Exact {
    fn new(question: Question, runs: u32) -> Result<Self, ApiError> {
        let exact = Self { question, runs };
        let scenario = &exact.question.setting.scenario;
        let clients = scenario.clients.instances;
        if exact.choice() == Choice::Exact && clients > MOST_CLIENTS {
            return Err(ApiError::bad_request(format!(
                "{clients} clients are too many for an exact run: use at most {MOST_CLIENTS}"
            )));
        }
        exact.methods()?;
        Ok(exact)
    }

    fn methods(&self) -> Result<Vec<Method<'_>>, ApiError> {
        let scenario = &self.question.setting.scenario;
        let subjects = self.question.subjects().map(|subject| (scenario, subject));
        work::methods(self.choice(), subjects, self.runs, "use fewer runs or less traffic")
    }

    fn choice(&self) -> Choice {
        let is_large = self.question.setting.scenario.calls() > MOST_CALLS;
        if is_large { Choice::Scale } else { Choice::Exact }
    }

    fn answer(&self, watch: &Watch) -> Result<Answer, ApiError> {
        let (question, stopwatch) = (&self.question, Stopwatch::start());
        let scenario = &question.setting.scenario;
        let settings = Settings { runs: self.runs, seed: question.seed, threads: 1 };
        let summaries = simulate_all(&self.methods()?, &settings, watch);
        let cases = question.subjects().cloned().zip(summaries);
        let cases: Vec<Case> = cases.map(|(subject, summary)| Case { subject, summary }).collect();
        let picture = answer::picture(scenario, &cases);
        let each_ms = stopwatch.ms() / cases.len().max(1) as f64;
        let rows = cases.iter().zip(&picture.rows);
        let policies: Vec<PolicyAnswer> =
            rows.map(|(case, points)| PolicyAnswer::of(scenario, case, points, each_ms)).collect();
        let figures: Vec<_> = policies
            .iter()
            .filter_map(|it| Some((it.name.as_str(), &it.result.as_ref()?.figures)))
            .collect();
        let engine = if self.choice() == Choice::Scale { "scale" } else { "exact" };
        Ok(Answer {
            sentence: sentence::sentence(scenario, &figures),
            command: question.command_with(&format!("--runs {} --engine {engine}", self.runs)),
            point_ms: picture.point_ms,
            capacity: answer::capacity(scenario),
            steady: scenario.rate(),
            bands: answer::bands(scenario),
            notes: question.setting.notes.clone(),
            policies,
            wall_ms: stopwatch.ms(),
        })
    }
}
