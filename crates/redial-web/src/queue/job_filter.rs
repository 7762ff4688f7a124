//! Which jobs are meant: the filter of the page, in an address or in a body.

use std::time::Duration;

use redial_queue::durable::{Filter, JobId, State};
use serde::Deserialize;

use crate::error::ApiError;

/// The most jobs that can be named by their numbers.
const MOST_IDS: usize = 1000;

/// A filter as the page sends it. An empty text is no condition.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct JobFilter {
    queue: String,
    state: String,
    /// Numbers, separated by commas.
    ids: String,
    key: String,
    reason: String,
    outcome: String,
    older_ms: Option<u64>,
    after: Option<i64>,
    most: Option<usize>,
}

impl JobFilter {
    /// At most this many jobs, whatever the page asks for.
    pub(super) fn filter(&self, most: usize) -> Result<Filter, ApiError> {
        Ok(Filter {
            queue: some(&self.queue),
            state: self.state()?,
            ids: self.ids()?,
            key: some(&self.key),
            reason: some(&self.reason),
            outcome: some(&self.outcome),
            older: self.older_ms.map(Duration::from_millis),
            after: self.after.map(JobId),
            most: self.most.unwrap_or(most).min(most),
        })
    }

    /// The same among dead letters alone, which are all that a redrive or a purge changes.
    pub(super) fn dead(&self, most: usize) -> Result<Filter, ApiError> {
        let filter = self.filter(most)?;
        if filter.state.is_some_and(|state| state != State::Dead) {
            return Err(ApiError::bad_request(
                "state: only dead letters can be redriven or purged; set it to dead",
            ));
        }
        Ok(Filter { state: Some(State::Dead), after: None, most, ..filter })
    }

    fn state(&self) -> Result<Option<State>, ApiError> {
        if self.state.is_empty() {
            return Ok(None);
        }
        let unknown = || {
            let names = State::ALL.map(State::name).join(", ");
            ApiError::bad_request(format!("state: {:?} is none of {names}", self.state))
        };
        State::from_name(&self.state).map(Some).ok_or_else(unknown)
    }

    fn ids(&self) -> Result<Vec<JobId>, ApiError> {
        let wrong = |part: &str| ApiError::bad_request(format!("ids: {part:?} is not a number"));
        let one = |part: &str| part.trim().parse().map(JobId).map_err(|_| wrong(part));
        let ids: Vec<_> = self
            .ids
            .split(',')
            .filter(|part| !part.is_empty())
            .map(one)
            .collect::<Result<_, _>>()?;
        if ids.len() > MOST_IDS {
            let why = format!("ids: at most {MOST_IDS} at once; use a filter for more");
            return Err(ApiError::bad_request(why));
        }
        Ok(ids)
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
