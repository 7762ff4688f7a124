use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Demo;
use crate::app::App;
use crate::error::ApiError;

/// The longest fault.
const LONGEST: f64 = 600.0;
/// Switches the fault off, and restarts the naive callers.
const NONE: &str = "none";

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/demo/fault", post(fail))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    kind: String,
    seconds: Option<f64>,
}

async fn fail(
    State(app): State<Arc<App>>,
    wanted: Result<Json<Wanted>, JsonRejection>,
) -> Result<Json<Value>, ApiError> {
    let Some(demo) = &app.demo else {
        let why = "there is no demo backend: the upstreams are those of your file";
        return Err(ApiError::new(StatusCode::NOT_FOUND, why));
    };
    let Json(wanted) = wanted.map_err(|error| ApiError::new(error.status(), error.body_text()))?;
    let fault = Demo::FAULTS.iter().find(|fault| fault.kind == wanted.kind);
    if fault.is_none() && wanted.kind != NONE {
        let known: Vec<&str> = Demo::FAULTS.iter().map(|fault| fault.kind).collect();
        let why = format!("no fault `{}`: there are {} and {NONE}", wanted.kind, known.join(", "));
        return Err(ApiError::bad_request(why));
    }
    let lasts = match wanted.seconds {
        None => None,
        Some(seconds) if seconds > 0.0 && seconds <= LONGEST => {
            Some(Duration::from_secs_f64(seconds))
        }
        Some(seconds) => {
            let why = format!("seconds = {seconds}: must be above 0 and at most {LONGEST}");
            return Err(ApiError::bad_request(why));
        }
    };
    match fault {
        Some(fault) => demo.fail(Some(fault), lasts),
        None => demo
            .repair()
            .await
            .map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?,
    }
    Ok(Json(json!({ "fault": demo.fault() })))
}
