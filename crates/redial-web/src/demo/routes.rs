use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::{ActiveFault, Demo};
use crate::error::ApiError;

/// The longest fault.
const MAX_FAULT_SECONDS: f64 = 600.0;
/// Switches the fault off, and restarts the naive callers.
const NONE: &str = "none";

pub(crate) fn routes<S>(demo: Option<Arc<Demo>>) -> Router<S> {
    Router::new().route("/demo/fault", post(fail)).with_state(demo)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    kind: String,
    seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct FaultAnswer {
    fault: Option<ActiveFault>,
}

async fn fail(
    State(demo): State<Option<Arc<Demo>>>,
    wanted: Result<Json<Wanted>, JsonRejection>,
) -> Result<Json<FaultAnswer>, ApiError> {
    let Some(demo) = demo else {
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
        Some(seconds) if seconds > 0.0 && seconds <= MAX_FAULT_SECONDS => {
            Some(Duration::from_secs_f64(seconds))
        }
        Some(seconds) => {
            let why =
                format!("seconds = {seconds}: must be above 0 and at most {MAX_FAULT_SECONDS}");
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
    Ok(Json(FaultAnswer { fault: demo.fault() }))
}
