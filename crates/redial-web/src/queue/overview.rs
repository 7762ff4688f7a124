//! The queues at a glance: how much waits, since when, and what becomes of the attempts.
//!
//! The store counts totals. Rates are differences between two looks of any visitor, so that an unwatched queue costs nothing,
//! and a page that is opened again finds what was seen before.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::{Extension, Json};
use redial_queue::durable::{Counts, Group, QueueSettings};
use serde::{Deserialize, Serialize};

use super::job::{millis, ms};
use super::{job_filter::JobFilter, store};
use crate::app::App;
use crate::body::QueryParams;
use crate::error::ApiError;

/// The most queues that are shown.
const QUEUES: usize = 100;
/// The looks that are kept of each queue, and the least time between two of them.
const KEPT: usize = 600;
const APART_MS: u64 = 900;
/// The most dead letters that are grouped, and the most groups.
const GROUPED: usize = 200_000;
const GROUPS: usize = 100;

/// Totals at earlier looks, oldest first.
#[derive(Default)]
pub(super) struct Seen(Mutex<HashMap<String, VecDeque<(u64, Counts)>>>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Look {
    /// The last look that the page has: only later rates are sent. A page that has later ones than the server's clock
    /// gets all of them.
    after: Option<u64>,
}

/// The queues.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct Overview {
    /// When they were looked at, in Unix milliseconds of the store.
    now: u64,
    queues: Vec<QueueRow>,
    /// How many more there are.
    more: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct QueueRow {
    name: String,
    paused: bool,
    rate: Option<String>,
    per_key: u32,
    due: u64,
    later: u64,
    held: u64,
    running: u64,
    dead: u64,
    oldest_ms: u64,
    enqueued: u64,
    done: u64,
    retried: u64,
    died: u64,
    lost: u64,
    dropped: u64,
    rates: Vec<Rates>,
}

/// Time, and jobs a second that were enqueued, done, retried and given up.
type Rates = (u64, f64, f64, f64, f64);

pub(super) async fn show(
    state: State<Arc<App>>,
    QueryParams(Look { after }): QueryParams<Look>,
    Extension(seen): Extension<Arc<Seen>>,
) -> Result<Json<Overview>, ApiError> {
    let store = store(state)?;
    let names = store.queues().await?;
    let now = ms(store.time().await?);
    let after = after.filter(|after| *after <= now).unwrap_or(0);
    let mut queues = Vec::new();
    for name in names.iter().take(QUEUES) {
        let (counts, settings) = (store.counts(name).await?, store.settings(name).await?);
        let rates = seen.add(name, now, counts, after);
        queues.push(queue(name, &settings, &counts, rates));
    }
    seen.forget_others(&names);
    Ok(Json(Overview { now, queues, more: names.len().saturating_sub(QUEUES) }))
}

/// The dead letters by what went wrong, largest group first.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct Groups {
    groups: Vec<GroupRow>,
    /// How many dead letters are in no group.
    others: u64,
    /// The most dead letters that are grouped.
    most: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct GroupRow {
    reason: Option<String>,
    outcome: Option<String>,
    jobs: u64,
    oldest: u64,
    newest: u64,
    /// The number of its first job.
    first: i64,
}

/// Groups the dead letters that a filter selects.
pub(super) async fn groups(
    state: State<Arc<App>>,
    QueryParams(which): QueryParams<JobFilter>,
) -> Result<Json<Groups>, ApiError> {
    let store = store(state)?;
    let filter = which.dead(GROUPED)?;
    let group = |group: Group| GroupRow {
        reason: group.reason,
        outcome: group.outcome,
        jobs: group.jobs,
        oldest: ms(group.oldest),
        newest: ms(group.newest),
        first: group.first.0,
    };
    let groups = store.groups(&filter, GROUPS).await?;
    let jobs: u64 = groups.iter().map(|group| group.jobs).sum();
    let all = store.count(&filter).await?;
    let groups = groups.into_iter().map(group).collect();
    Ok(Json(Groups { groups, others: all.saturating_sub(jobs), most: GROUPED }))
}

impl Seen {
    /// Adds a look, and returns the rates between those after this time: time, and jobs a second that were enqueued, done,
    /// retried and given up.
    fn add(&self, queue: &str, now: u64, counts: Counts, after: u64) -> Vec<Rates> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let looks = seen.entry(queue.to_owned()).or_default();
        // The store's clock was set back: rates have one direction.
        if looks.back().is_some_and(|(last, _)| now < *last) {
            looks.clear();
        }
        if looks.back().is_none_or(|(last, _)| now >= last + APART_MS) {
            looks.push_back((now, counts));
        }
        while looks.len() > KEPT {
            looks.pop_front();
        }
        let pairs = looks.iter().zip(looks.iter().skip(1));
        pairs.filter(|(_, (to, _))| *to > after).map(|(from, to)| rates(from, to)).collect()
    }

    fn forget_others(&self, names: &[String]) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|queue, _| names.contains(queue));
    }
}

fn rates((from, before): &(u64, Counts), (to, after): &(u64, Counts)) -> Rates {
    let seconds = (to.saturating_sub(*from)) as f64 / 1000.0;
    let rate = |of: fn(&Counts) -> u64| of(after).saturating_sub(of(before)) as f64 / seconds;
    (*to, rate(|c| c.enqueued), rate(|c| c.done), rate(|c| c.retried), rate(|c| c.died))
}

fn queue(name: &str, settings: &QueueSettings, counts: &Counts, rates: Vec<Rates>) -> QueueRow {
    QueueRow {
        name: name.to_owned(),
        paused: settings.paused,
        rate: settings.rate.map(|rule| rule.rate.to_string()),
        per_key: settings.per_key_number(),
        due: counts.due,
        later: counts.later,
        held: counts.held,
        running: counts.running,
        dead: counts.dead,
        oldest_ms: millis(counts.oldest),
        enqueued: counts.enqueued,
        done: counts.done,
        retried: counts.retried,
        died: counts.died,
        lost: counts.lost,
        dropped: counts.dropped,
        rates,
    }
}
