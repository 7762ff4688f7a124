//! What takes longer than a moment: exact runs, several of them, and the map of where a policy collapses. A run has progress
//! and can be cancelled. Runs are computed one after the other, on a thread of their own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::Path;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use http::StatusCode;
use redial_sim::report::Case;
use redial_sim::scale_model::MOST_CALLS;
use redial_sim::simulate::{Choice, Settings, Watch, simulate_all};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::{self, Answer, PolicyAnswer};
use super::map::Map;
use super::{Ask, Playground, Question, Workshop, sentence};
use crate::app::App;
use crate::body::Body;
use crate::clock::Stopwatch;
use crate::error::ApiError;

/// How many runs are remembered.
const MOST_KEPT: usize = 16;
/// The most runs of each policy.
const MOST_RUNS: u32 = 100;
/// The most calls of a request, over all policies and runs: about a minute of work.
const MOST_WORK: f64 = 1e8;
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
    workshop: Workshop,
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
    outcome: Mutex<Option<Value>>,
}

/// What computes the result.
type Compute = Box<dyn FnOnce(&Watch) -> Value + Send>;

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
struct Started {
    id: u64,
}

#[derive(Debug, Serialize)]
struct Status {
    state: &'static str,
    /// From 0 to 1.
    progress: f64,
    result: Option<Value>,
}

impl Runs {
    pub(super) fn new() -> Self {
        Self { workshop: Workshop::new("playground-runs"), all: Mutex::default() }
    }

    /// Remembers a run, and forgets the oldest one.
    fn add(&self, count: f64) -> Arc<LongRun> {
        let mut log = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        log.last += 1;
        let run =
            LongRun { id: log.last, watch: Watch::default(), count, outcome: Mutex::default() };
        let run = Arc::new(run);
        log.kept.push_back(Arc::clone(&run));
        if log.kept.len() > MOST_KEPT
            && let Some(oldest) = log.kept.pop_front()
        {
            oldest.watch.stop();
        }
        run
    }

    fn find(&self, id: u64) -> Result<Arc<LongRun>, ApiError> {
        let log = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let run = log.kept.iter().find(|run| run.id == id).cloned();
        run.ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, format!("there is no run {id}")))
    }
}

impl LongRun {
    fn status(&self) -> Status {
        let result = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let state = match (self.watch.is_stopped(), &result) {
            (true, _) => "cancelled",
            (false, Some(_)) => "done",
            (false, None) => "running",
        };
        let made = (self.watch.runs_done() / self.count.max(1.0)).min(1.0);
        // The shares of runs are rounded.
        let progress = if result.is_some() { 1.0 } else { made };
        Status { state, progress, result }
    }
}

async fn start(
    Extension(playground): Extension<Arc<Playground>>,
    Body(Start { kind, ask, runs }): Body<Start>,
) -> Result<Json<Started>, ApiError> {
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
            (count, Box::new(move |watch| json!(exact.answer(watch))))
        }
        Kind::Map => {
            let map = Map::new(question)?;
            (map.runs(), Box::new(move |watch| json!(map.answer(watch))))
        }
    };
    let run = playground.runs.add(count);
    let id = run.id;
    let work = move || {
        if !run.watch.is_stopped() {
            let outcome = compute(&run.watch);
            *run.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        }
    };
    playground.runs.workshop.submit(Box::new(work))?;
    Ok(Json(Started { id }))
}

async fn show(
    Extension(playground): Extension<Arc<Playground>>,
    Path(id): Path<u64>,
) -> Result<Json<Status>, ApiError> {
    Ok(Json(playground.runs.find(id)?.status()))
}

async fn cancel(
    Extension(playground): Extension<Arc<Playground>>,
    Path(id): Path<u64>,
) -> Result<Json<Status>, ApiError> {
    let run = playground.runs.find(id)?;
    if run.outcome.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
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
                "{clients} clients are too many for an exact run: at most {MOST_CLIENTS}"
            )));
        }
        let mut work = 0.0;
        for subject in exact.question.subjects() {
            let method = exact.choice().method(scenario, subject);
            let method =
                method.map_err(|why| ApiError::bad_request(format!("{}: {why}", subject.name)))?;
            work += method.work() * f64::from(runs);
        }
        if work > MOST_WORK {
            return Err(ApiError::bad_request(format!(
                "{work:.0} calls are too many for one request: at most {MOST_WORK:.0}, so use fewer runs or less traffic"
            )));
        }
        Ok(exact)
    }

    fn choice(&self) -> Choice {
        let is_large = self.question.setting.scenario.calls() > MOST_CALLS;
        if is_large { Choice::Scale } else { Choice::Exact }
    }

    fn answer(&self, watch: &Watch) -> Answer {
        let (question, stopwatch) = (&self.question, Stopwatch::start());
        let scenario = &question.setting.scenario;
        let subjects: Vec<_> = question.subjects().cloned().collect();
        let settings =
            Settings { runs: self.runs, seed: question.seed, threads: 1, engine: self.choice() };
        let summaries = simulate_all(scenario, &subjects, &settings, watch);
        let cases = subjects.into_iter().zip(summaries);
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
        Answer {
            sentence: sentence::sentence(scenario, &figures),
            command: question.command_with(&format!("--runs {} --engine {engine}", self.runs)),
            point_ms: picture.point_ms,
            capacity: answer::capacity(scenario),
            steady: scenario.rate(),
            bands: answer::bands(scenario),
            notes: question.setting.notes.clone(),
            policies,
            wall_ms: stopwatch.ms(),
        }
    }
}
