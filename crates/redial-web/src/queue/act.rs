//! Actions on all dead letters that a filter selects. What is selected can change between the look and the click, so an
//! action names the number that was seen. It is refused if another number matches now, and changes no more than that.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use redial_core::Rate;
use redial_queue::durable::{
    Filter, QueueSettings, Redrive, Store, redrive_in_pages, remove_in_pages,
};
use serde::{Deserialize, Serialize};

use super::job::{JobRow, millis, row};
use super::{job_filter::JobFilter, store};
use crate::app::App;
use crate::body::Body;
use crate::error::ApiError;

/// The most jobs of one action.
const MAX_JOBS: usize = 1_000_000;
/// How many rows a preview shows.
const PREVIEW: usize = 5;

/// How many dead letters are meant, and the first of them.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct Preview {
    count: u64,
    jobs: Vec<JobRow>,
}

/// What an action would change.
pub(super) async fn preview(
    state: State<Arc<App>>,
    Body(which): Body<JobFilter>,
) -> Result<Json<Preview>, ApiError> {
    let store = store(state)?;
    let filter = which.dead(MAX_JOBS)?;
    let count = store.count(&filter).await?;
    let first = store.list(&Filter { most: PREVIEW, ..filter }).await?;
    Ok(Json(Preview { count, jobs: first.iter().map(row).collect() }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Again {
    which: JobFilter,
    /// How many the visitor has confirmed.
    expected: u64,
    /// Jobs a second; null starts all at once.
    per_second: Option<f64>,
    #[serde(default)]
    delay_ms: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct Redriven {
    redriven: u64,
    last_starts_in_ms: u64,
}

pub(super) async fn redrive(
    state: State<Arc<App>>,
    Body(again): Body<Again>,
) -> Result<Json<Redriven>, ApiError> {
    let store = store(state)?;
    let filter = again.which.dead(MAX_JOBS)?;
    let apart = again.per_second.map_or(Ok(Redrive::default()), at)?.apart;
    let after = Duration::from_millis(again.delay_ms);
    let filter = confirmed(&*store, filter, again.expected).await?;
    let done = redrive_in_pages(&*store, filter, Redrive { after, apart }).await?;
    Ok(Json(Redriven { redriven: done.jobs, last_starts_in_ms: millis(done.last) }))
}

fn at(per_second: f64) -> Result<Redrive, ApiError> {
    const MOST_PER_SECOND: f64 = 1e6;
    // A slower pace is written as jobs an hour, so that it stays a whole number.
    let (count, per) = if per_second >= 1.0 {
        (per_second, Duration::from_secs(1))
    } else {
        (per_second * 3600.0, Duration::from_secs(3600))
    };
    if !(count >= 1.0 && per_second <= MOST_PER_SECOND) {
        let why = format!("per_second: {per_second} is not from 1 an hour to 1 M a second");
        return Err(ApiError::bad_request(why));
    }
    let whole = format!("{}/{}s", count.round(), per.as_secs());
    let rate = whole.parse::<Rate>().map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(Redrive::at(rate)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Purge {
    which: JobFilter,
    /// How many the visitor has confirmed.
    expected: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct Purged {
    purged: u64,
}

pub(super) async fn purge(
    state: State<Arc<App>>,
    Body(purge): Body<Purge>,
) -> Result<Json<Purged>, ApiError> {
    let store = store(state)?;
    let filter = purge.which.dead(MAX_JOBS)?;
    let filter = confirmed(&*store, filter, purge.expected).await?;
    Ok(Json(Purged { purged: remove_in_pages(&*store, filter).await? }))
}

/// The filter, bounded by the number that was confirmed: more jobs may match before the action has ended.
async fn confirmed(store: &dyn Store, filter: Filter, expected: u64) -> Result<Filter, ApiError> {
    let count = store.count(&filter).await?;
    if count != expected {
        let why = format!("{count} dead letters match now, not {expected}: look again");
        return Err(ApiError::new(StatusCode::CONFLICT, why));
    }
    let most = usize::try_from(expected).unwrap_or(usize::MAX).min(filter.most);
    Ok(Filter { most, ..filter })
}

#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(deny_unknown_fields)]
pub(super) struct Pause {
    queue: String,
    paused: bool,
}

pub(super) async fn pause(
    state: State<Arc<App>>,
    Body(Pause { queue, paused }): Body<Pause>,
) -> Result<Json<Pause>, ApiError> {
    let store = store(state)?;
    // A setting of an unknown queue would make it.
    if !store.queues().await?.contains(&queue) {
        let why = format!("there is no queue {queue:?}");
        return Err(ApiError::new(StatusCode::NOT_FOUND, why));
    }
    let settings = store.settings(&queue).await?;
    store.set(&queue, &QueueSettings { paused, ..settings }).await?;
    Ok(Json(Pause { queue, paused }))
}
