//! Has the visitor understood it? The quiz and the exercise of the lesson "Retries & Exponential Backoff": the visitor answers
//! four questions, and writes a policy for a payment service, which is scored.

mod figures;
mod quiz;

use std::sync::Arc;

use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use redial_policy::rubric::{CRITERIA, RubricScore};
use redial_policy::{Finding, PositionCursor};
use serde::{Deserialize, Serialize};

use self::figures::{
    Amplification, AmplificationAsk, BackoffAsk, BackoffTable, BudgetAsk, BudgetFigures,
};
use self::quiz::{QUIZ, QuizQuestion};
use crate::app::App;
use crate::body::{Body, QueryParams};
use crate::error::ApiError;
use crate::playground::SimulationThread;
use crate::review::{self, Remark};

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/exercise", get(describe))
        .route("/exercise/answer", post(answer))
        .route("/exercise/score", post(score))
        .route("/exercise/backoff", get(backoff))
        .route("/exercise/amplification", get(amplification))
        .route("/exercise/budget", get(budget))
        .layer(Extension(Arc::new(SimulationThread::new("exercise"))))
}

const TASK: &str = "You are building a microservice that calls an external payment processor. It can return 500, 503, 429, 400 and 402. Which statuses are retried, with which backoff, and what keeps a fleet of 200 instances from amplifying an outage? Write the policy.";

/// What a visitor starts with: an answer that misses all five points.
const START: &str = "\
[setting]
clients = 200

[policy.payments]
attempts        = 4
attempt_timeout = \"10s\"
deadline        = \"60s\"
retry_on        = [\"connect\", \"reset\", \"timeout\", 400, 402, 429, 500, 503]
backoff         = { base = \"500ms\", cap = \"20s\", jitter = \"none\" }
hint            = \"ignore\"
budget          = \"none\"

[[route]]
path    = \"/charges\"
methods = [\"POST\"]
policy  = \"payments\"
";

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
struct ExerciseDescription {
    questions: &'static [QuizQuestion],
    task: &'static str,
    start: &'static str,
    rubric: Vec<RubricLine>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
struct RubricLine {
    name: &'static str,
    about: &'static str,
}

async fn describe() -> Json<ExerciseDescription> {
    let rubric = CRITERIA.map(|it| RubricLine { name: it.name, about: it.about }).into();
    Json(ExerciseDescription { questions: &QUIZ, task: TASK, start: START, rubric })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chosen {
    question: usize,
    option: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
struct Judged {
    is_right: bool,
    right: usize,
    explanation: &'static str,
    command: &'static str,
}

async fn answer(Body(chosen): Body<Chosen>) -> Result<Json<Judged>, ApiError> {
    let wrong = |what: &str, count: usize| {
        ApiError::bad_request(format!("{what} has to be from 0 to {}", count - 1))
    };
    let question = QUIZ.get(chosen.question).ok_or_else(|| wrong("question", QUIZ.len()))?;
    if chosen.option >= question.options.len() {
        return Err(wrong("option", question.options.len()));
    }
    Ok(Json(Judged {
        is_right: chosen.option == question.right,
        right: question.right,
        explanation: question.explanation,
        command: question.command,
    }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answered {
    toml: String,
}

/// The score of each policy, and what a review finds.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
struct Scored {
    scores: Vec<PolicyScore>,
    remarks: Vec<Remark>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
struct PolicyScore {
    policy: String,
    met: usize,
    of: usize,
    grade: &'static str,
    points: Vec<ScorePoint>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
struct ScorePoint {
    name: &'static str,
    about: &'static str,
    met: bool,
    why: String,
    line: usize,
}

async fn score(Body(Answered { toml }): Body<Answered>) -> Result<Json<Scored>, ApiError> {
    let reviewed = review::review("answer", &toml)?;
    let findings: Vec<&Finding> = reviewed.findings.iter().map(|(finding, _)| finding).collect();
    let scores = reviewed.found.iter().map(|found| {
        let score = RubricScore::of(found, findings.iter().copied());
        let points = score.points.iter().map(|point| ScorePoint {
            name: point.criterion.name,
            about: point.criterion.about,
            met: point.met,
            why: point.why.clone(),
            line: PositionCursor::new(&toml).go(point.place.span).line,
        });
        PolicyScore {
            policy: score.policy.clone(),
            met: score.met(),
            of: score.points.len(),
            grade: score.grade(),
            points: points.collect(),
        }
    });
    Ok(Json(Scored { scores: scores.collect(), remarks: review::remarks(&reviewed) }))
}

async fn backoff(
    QueryParams(ask): QueryParams<BackoffAsk>,
) -> Result<Json<BackoffTable>, ApiError> {
    ask.table().map(Json)
}

async fn budget(QueryParams(ask): QueryParams<BudgetAsk>) -> Result<Json<BudgetFigures>, ApiError> {
    ask.figures().map(Json)
}

async fn amplification(
    Extension(simulation_thread): Extension<Arc<SimulationThread>>,
    QueryParams(ask): QueryParams<AmplificationAsk>,
) -> Result<Json<Amplification>, ApiError> {
    ask.check()?;
    simulation_thread.compute("", move |watch| ask.compute(watch)).await?.map(Json)
}

/// The types of these responses and requests.
#[cfg(feature = "typescript")]
pub(crate) fn visit_types(types: &mut impl ts_rs::TypeVisitor) {
    types.visit::<ExerciseDescription>();
    types.visit::<Judged>();
    types.visit::<Scored>();
    types.visit::<BackoffTable>();
    types.visit::<Amplification>();
    types.visit::<BudgetFigures>();
}
