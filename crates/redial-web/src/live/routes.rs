use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};

use super::Live;
use super::events::Events;
use super::ring::STEP_MS;
use crate::demo::Demo;
use crate::error::ApiError;

/// What is live, and the fault of the demo.
type Parts = (Option<Live>, Option<Arc<Demo>>);

pub(crate) fn routes<S>(live: Option<Live>, demo: Option<Arc<Demo>>) -> Router<S> {
    let routes = Router::new().route("/live", get(self::live)).route("/history", get(history));
    routes.with_state((live, demo))
}

#[derive(Deserialize)]
struct After {
    after: Option<String>,
}

/// Samples as server-sent events, from where the visitor was.
async fn live(
    State((live, demo)): State<Parts>,
    Query(query): Query<After>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let live = shown(live.as_ref())?;
    // A browser that connects again by itself knows better than the address that it began with.
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let after = match header.or(query.after.as_deref()) {
        None | Some("") => None,
        Some(id) => Some(id.parse().map_err(|_| {
            ApiError::bad_request(format!("after = {id}: must be the id of a sample"))
        })?),
    };
    let events = Events::after(live, demo, after);
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((kind, Body::new(events)).into_response())
}

#[derive(Deserialize)]
struct Range {
    range: Option<String>,
}

/// The last ten minutes by seconds, or the last three hours in steps of ten seconds.
async fn history(
    State((live, _)): State<Parts>,
    Query(query): Query<Range>,
) -> Result<Response, ApiError> {
    let live = shown(live.as_ref())?;
    match query.range.as_deref().unwrap_or("3h") {
        // The lock is released before the samples are serialised: the sampler needs it once a second.
        "10m" => {
            let samples = live.seen().ring.after(0);
            Ok(steps(1000, &samples))
        }
        "3h" => {
            let samples = live.seen().ring.steps();
            Ok(steps(STEP_MS, &samples))
        }
        other => Err(ApiError::bad_request(format!("range = {other}: must be 10m or 3h"))),
    }
}

/// The time of a step, and the steps.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct History<T> {
    step_ms: u32,
    samples: Vec<T>,
}

fn steps<T: Serialize>(step_ms: u32, samples: &[Arc<T>]) -> Response {
    let samples: Vec<&T> = samples.iter().map(Arc::as_ref).collect();
    Json(History { step_ms, samples }).into_response()
}

fn shown(live: Option<&Live>) -> Result<&Live, ApiError> {
    let why = "there is nothing live: this server shows the playground alone";
    live.ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, why))
}
