//! At 3 a.m. an operator wants to know which jobs are stuck and why, and to start them again without a second storm. The
//! page's queue: what waits, what was given up and for which error, and actions on everything that a filter selects.
//!
//! An action is bounded by what was seen: it takes the number of jobs that the preview counted.

mod act;
mod edit;
mod job;
mod job_filter;
mod overview;
mod payload;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use http::StatusCode;
use redial_queue::durable::{Store, StoreError};

use crate::app::App;
use crate::error::ApiError;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/queue", get(overview::show))
        .route("/queue/jobs", get(job::list))
        .route("/queue/jobs/{id}", get(job::show).post(edit::edit))
        .route("/queue/groups", get(overview::groups))
        .route("/queue/preview", post(act::preview))
        .route("/queue/redrive", post(act::redrive))
        .route("/queue/purge", post(act::purge))
        .route("/queue/pause", post(act::pause))
        .layer(axum::Extension(Arc::new(overview::Seen::default())))
}

/// The store of the server.
fn store(State(app): State<Arc<App>>) -> Result<Arc<dyn Store>, ApiError> {
    let none = || {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "this server has no queue: start it without --page-only",
        )
    };
    app.store.clone().ok_or_else(none)
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let status = match error {
            StoreError::Invalid(_) => StatusCode::BAD_REQUEST,
            StoreError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            StoreError::Stopped(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

/// The types of these responses and requests.
#[cfg(feature = "typescript")]
pub(crate) fn visit_types(types: &mut impl ts_rs::TypeVisitor) {
    types.visit::<overview::Overview>();
    types.visit::<overview::Groups>();
    types.visit::<job::JobList>();
    types.visit::<job::WholeJob>();
    types.visit::<act::Preview>();
    types.visit::<act::Redriven>();
    types.visit::<act::Purged>();
    types.visit::<act::Pause>();
    types.visit::<edit::Edited>();
}
