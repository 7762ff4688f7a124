//! Jobs in rows, and one with everything.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Path, State};
use http::StatusCode;
use redial_queue::durable::{Filter, Job, JobId, Tried};
use serde::Serialize;

use super::payload::{ShownPayload, shown};
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

/// A job in a row: where it stands and what went wrong last.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct JobRow {
    id: i64,
    queue: String,
    state: &'static str,
    key: Option<String>,
    priority: u8,
    policy: Option<String>,
    attempts: u32,
    /// In Unix milliseconds, as all times.
    created: u64,
    due: u64,
    begun: Option<u64>,
    /// Why it was given up.
    reason: Option<String>,
    last: Option<TriedRow>,
    /// What a delivery is about: method and address.
    about: Option<String>,
    payload: ShownPayload,
}

/// An attempt.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct TriedRow {
    attempt: u32,
    ended: u64,
    took_ms: u64,
    outcome: String,
}

/// A job with its history, headers and payload.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct WholeJob {
    #[serde(flatten)]
    row: JobRow,
    now: u64,
    history: Vec<TriedRow>,
    headers: Vec<HeaderRow>,
    idempotency_key: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct HeaderRow {
    name: String,
    /// `None` if it is secret.
    value: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct JobList {
    now: u64,
    jobs: Vec<JobRow>,
    /// The number to continue after, if there are more.
    next: Option<i64>,
}

/// A page of rows, by number.
pub(super) async fn list(
    state: State<Arc<App>>,
    QueryParams(which): QueryParams<JobFilter>,
) -> Result<Json<JobList>, ApiError> {
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
    let now = ms(store.time().await?);
    Ok(Json(JobList { now, jobs: rows, next: next.map(|id| id.0) }))
}

/// One job.
pub(super) async fn show(
    state: State<Arc<App>>,
    Path(id): Path<i64>,
) -> Result<Json<WholeJob>, ApiError> {
    let store = store(state)?;
    let job = store.get(JobId(id)).await?.ok_or_else(|| gone(id))?;
    Ok(Json(WholeJob {
        row: JobRow { payload: shown(&job.payload, IN_VIEW), ..row(&job) },
        now: ms(store.time().await?),
        history: job.history.iter().map(tried).collect(),
        headers: job.headers.iter().map(|(name, value)| header(name, value)).collect(),
        idempotency_key: job.idempotency_key.clone(),
    }))
}

pub(super) fn gone(id: i64) -> ApiError {
    let why = format!("job {id} is gone: it is done, or was removed");
    ApiError::new(StatusCode::NOT_FOUND, why)
}

pub(super) fn row(job: &Job) -> JobRow {
    JobRow {
        id: job.id.0,
        queue: job.queue.clone(),
        state: job.state.name(),
        key: job.key.clone(),
        priority: job.priority.level(),
        policy: job.policy.clone(),
        attempts: job.progress.attempts,
        created: ms(job.created),
        due: ms(job.due),
        begun: job.begun.map(ms),
        reason: job.reason.clone(),
        last: job.history.last().map(tried),
        about: about(job),
        payload: shown(&job.payload, IN_ROW),
    }
}

fn about(job: &Job) -> Option<String> {
    let header = |wanted: &str| job.headers.iter().find(|(name, _)| name == wanted);
    let ((_, method), (_, url)) = (header(":method")?, header(":url")?);
    Some(format!("{method} {url}"))
}

fn tried(tried: &Tried) -> TriedRow {
    TriedRow {
        attempt: tried.number,
        ended: ms(tried.ended),
        took_ms: millis(tried.took),
        outcome: tried.outcome.clone(),
    }
}

/// The value of a secret one does not leave the server.
fn header(name: &str, value: &str) -> HeaderRow {
    HeaderRow { name: name.to_owned(), value: (!is_secret(name)).then(|| value.to_owned()) }
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
