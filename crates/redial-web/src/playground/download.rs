//! Results as files: the figure and the JSON of `redial sim`.

use std::sync::Arc;

use axum::Extension;
use axum::response::{IntoResponse, Response};
use http::header;
use redial_sim::report::{Case, Report, SimulationSetup};
use redial_sim::scenario::Set;

use super::{Ask, Playground, Question};
use crate::body::Body;
use crate::clock::Stopwatch;
use crate::error::ApiError;

/// A report, of what the visitor sees.
struct Ready {
    question: Question,
    sets: Vec<Set>,
    cases: Vec<Case>,
    wall_ms: f64,
}

impl Ready {
    fn with_report<T>(&self, of: impl FnOnce(&Report<'_>) -> T) -> T {
        let setting = &self.question.setting;
        let command = self.question.command();
        let engines: Vec<_> = self.cases.iter().map(|case| case.summary.engine).collect();
        let engine = engines.first().copied().filter(|first| engines.iter().all(|it| it == first));
        let report = Report {
            question: SimulationSetup {
                name: setting.story.scenario,
                text: setting.text,
                sets: &self.sets,
                seed: self.question.seed,
                runs: 1,
                engine,
                command: &command,
            },
            scenario: &setting.scenario,
            cases: self.cases.clone(),
            series: true,
            wall_ms: self.wall_ms,
        };
        of(&report)
    }
}

async fn ready(playground: &Playground, ask: &Ask) -> Result<Ready, ApiError> {
    let question = ask.question()?;
    let sets = question.setting.parsed_sets()?;
    let compute = move |watch: &_| {
        let stopwatch = Stopwatch::start();
        let cases = question.run(watch)?.into_iter().map(|(case, _)| case).collect();
        Ok(Ready { question, sets, cases, wall_ms: stopwatch.ms() })
    };
    // Not the visitor's name: a download does not replace what is being drawn.
    let visitor = format!("{} download", ask.visitor()?);
    playground.simulation_thread.compute(&visitor, compute).await?
}

fn file(kind: &'static str, name: &str, body: String) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    ([(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_DISPOSITION, disposition)], body)
        .into_response()
}

pub(super) async fn svg(
    Extension(playground): Extension<Arc<Playground>>,
    Body(ask): Body<Ask>,
) -> Result<Response, ApiError> {
    let ready = ready(&playground, &ask).await?;
    Ok(file("image/svg+xml", "redial-sim.svg", ready.with_report(|report| report.svg())))
}

pub(super) async fn json(
    Extension(playground): Extension<Arc<Playground>>,
    Body(ask): Body<Ask>,
) -> Result<Response, ApiError> {
    let ready = ready(&playground, &ask).await?;
    let text = ready.with_report(|report| serde_json::to_string(report));
    let text = text.map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(file("application/json", "redial-sim.json", text))
}
