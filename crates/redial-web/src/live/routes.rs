use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Live;
use super::events::Events;
use super::ring::STEP_MS;
use crate::app::App;
use crate::error::ApiError;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/live", get(live)).route("/history", get(history))
}

#[derive(Deserialize)]
struct After {
    after: Option<String>,
}

/// Samples as server-sent events, from where the visitor was.
async fn live(
    State(app): State<Arc<App>>,
    Query(query): Query<After>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let live = shown(&app)?;
    // A browser that connects again by itself knows better than the address that it began with.
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let after = match header.or(query.after.as_deref()) {
        None | Some("") => None,
        Some(id) => Some(id.parse().map_err(|_| {
            ApiError::bad_request(format!("after = {id}: must be the id of a sample"))
        })?),
    };
    let events = Events::after(live, app.demo.clone(), after);
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((kind, Body::new(events)).into_response())
}

#[derive(Deserialize)]
struct Range {
    range: Option<String>,
}

/// The last ten minutes by seconds, or the last three hours in steps of ten seconds.
async fn history(
    State(app): State<Arc<App>>,
    Query(query): Query<Range>,
) -> Result<Json<Value>, ApiError> {
    let live = shown(&app)?;
    match query.range.as_deref().unwrap_or("3h") {
        // The lock is released before the samples are serialised: the sampler needs it once a second.
        "10m" => {
            let samples = live.seen().ring.after(0);
            Ok(Json(steps(1000, &samples)))
        }
        "3h" => {
            let samples = live.seen().ring.steps();
            Ok(Json(steps(STEP_MS, &samples)))
        }
        other => Err(ApiError::bad_request(format!("range = {other}: must be 10m or 3h"))),
    }
}

fn steps<T: Serialize>(step_ms: u32, samples: &[Arc<T>]) -> Value {
    let samples: Vec<&T> = samples.iter().map(Arc::as_ref).collect();
    json!({ "step_ms": step_ms, "samples": samples })
}

fn shown(app: &App) -> Result<&Live, ApiError> {
    let why = "there is nothing live: this server shows the playground alone";
    app.live.as_ref().ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, why))
}
