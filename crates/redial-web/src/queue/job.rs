//! Jobs in rows, and one with everything.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Path, State};
use http::StatusCode;
use redial_queue::durable::{Filter, Job, JobId, Tried};
use serde_json::{Value, json};

use super::payload::shown;
use super::{job_filter::JobFilter, store};
use crate::app::App;
use crate::body::QueryParams;
use crate::error::ApiError;

/// The most rows of a page.
const ROWS: usize = 100;
/// The most jobs that are read at once: each may be large.
const READ: usize = 8;
/// How much of a payload is in a row, and in the view of its job.
const IN_ROW: usize = 200;
const IN_VIEW: usize = 256 << 10;

/// A page of rows, by number. `next` continues after the last one.
pub(super) async fn list(
    state: State<Arc<App>>,
    QueryParams(which): QueryParams<JobFilter>,
) -> Result<Json<Value>, ApiError> {
    let store = store(state)?;
    let filter = which.filter(ROWS)?;
    let (most, mut rows) = (filter.most, Vec::new());
    let mut page = Filter { most: READ, ..filter };
    let mut next = None;
    while rows.len() < most {
        page.most = READ.min(most - rows.len());
        let jobs = store.list(&page).await?;
        rows.extend(jobs.iter().map(row));
        next = jobs.last().map(|job| job.id).filter(|_| jobs.len() == page.most);
        match next {
            Some(last) => page.after = Some(last),
            None => break,
        }
    }
    Ok(Json(json!({ "now": ms(store.time().await?), "jobs": rows, "next": next.map(|id| id.0) })))
}

/// A job with its history, headers and payload.
pub(super) async fn show(
    state: State<Arc<App>>,
    Path(id): Path<i64>,
) -> Result<Json<Value>, ApiError> {
    let store = store(state)?;
    let job = store.get(JobId(id)).await?.ok_or_else(|| gone(id))?;
    let mut all = row(&job);
    all["history"] = job.history.iter().map(tried).collect();
    all["headers"] = job.headers.iter().map(|(name, value)| header(name, value)).collect();
    all["idempotency_key"] = job.idempotency_key.clone().into();
    all["payload"] = json!(shown(&job.payload, IN_VIEW));
    all["now"] = ms(store.time().await?).into();
    Ok(Json(all))
}

pub(super) fn gone(id: i64) -> ApiError {
    let why = format!("job {id} is gone: it is done, or was removed");
    ApiError::new(StatusCode::NOT_FOUND, why)
}

/// A job in a row: where it stands and what went wrong last.
pub(super) fn row(job: &Job) -> Value {
    json!({
        "id": job.id.0,
        "queue": job.queue,
        "state": job.state.name(),
        "key": job.key,
        "priority": job.priority.level(),
        "policy": job.policy,
        "attempts": job.progress.attempts,
        "created": ms(job.created),
        "due": ms(job.due),
        "begun": job.begun.map(ms),
        "reason": job.reason,
        "last": job.history.last().map(tried),
        "about": about(job),
        "payload": shown(&job.payload, IN_ROW),
    })
}

/// What a delivery is about: method and address.
fn about(job: &Job) -> Option<String> {
    let header = |wanted: &str| job.headers.iter().find(|(name, _)| name == wanted);
    let ((_, method), (_, url)) = (header(":method")?, header(":url")?);
    Some(format!("{method} {url}"))
}

fn tried(tried: &Tried) -> Value {
    json!({
        "attempt": tried.number,
        "ended": ms(tried.ended),
        "took_ms": millis(tried.took),
        "outcome": tried.outcome,
    })
}

/// The value of a secret one does not leave the server.
fn header(name: &str, value: &str) -> Value {
    match is_secret(name) {
        true => json!({ "name": name, "value": null }),
        false => json!({ "name": name, "value": value }),
    }
}

pub(super) fn is_secret(name: &str) -> bool {
    ["authorization", "cookie", "proxy-authorization"]
        .iter()
        .any(|secret| name.eq_ignore_ascii_case(secret))
}

/// Unix milliseconds.
pub(super) fn ms(time: SystemTime) -> u64 {
    millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
