//! How a row is read. Somebody may have changed it by hand, or the disk has: whoever looks at jobs sees what is left of them,
//! and whoever claims one gets it whole or not at all.

use std::borrow::Cow;
use std::cell::Cell;

use redial_core::Progress;
use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::Priority;
use crate::durable::text::{read_headers, read_history, time};
use crate::durable::{Job, JobId, State};

/// The columns of [`read`], from `redial_job AS job`, `redial_queue AS queue` and `redial_running AS running`.
pub(super) const COLUMNS: &str = "job.id, queue.name, job.state, job.priority, job.due, job.created, job.begun, \
    job.attempts, job.step, job.drawn, job.key, job.policy, job.idempotency_key, job.reason, job.headers, job.history, \
    job.payload, running.until, running.begun, running.attempts";

/// What [`COLUMNS`] are columns of.
pub(super) const TABLES: &str = "redial_job AS job JOIN redial_queue AS queue ON queue.id = job.queue \
    LEFT JOIN redial_running AS running ON running.id = job.id";

/// A job, and what could not be read of it.
pub(super) struct Found {
    pub(super) job: Job,
    pub(super) headers_broken: bool,
    pub(super) history_broken: bool,
    pub(super) other_broken: bool,
}

impl Found {
    pub(super) fn is_broken(&self) -> bool {
        self.headers_broken || self.history_broken || self.other_broken
    }
}

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Found> {
    let other_broken = Cell::new(false);
    let text = |at: usize| -> rusqlite::Result<Option<String>> {
        Ok(match row.get_ref(at)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                other_broken.set(other_broken.get() || matches!(text, Cow::Owned(_)));
                Some(text.into_owned())
            }
            ValueRef::Null => None,
            _ => {
                other_broken.set(true);
                None
            }
        })
    };
    let number = |at: usize| -> rusqlite::Result<Option<i64>> {
        let value = row.get_ref(at)?;
        let broken = !matches!(value, ValueRef::Integer(_) | ValueRef::Null);
        other_broken.set(other_broken.get() || broken);
        Ok(value.as_i64_or_null().unwrap_or(None))
    };
    let certain = |at: usize| -> rusqlite::Result<i64> {
        let value = number(at)?;
        other_broken.set(other_broken.get() || value.is_none());
        Ok(value.unwrap_or(0))
    };
    let headers = text(14)?.and_then(|text| read_headers(&text));
    let history = text(15)?.and_then(|text| read_history(&text));
    let (queue, key, policy) = (text(1)?.unwrap_or_default(), text(10)?, text(11)?);
    let (idempotency_key, reason) = (text(12)?.unwrap_or_default(), text(13)?);
    let until = number(17)?;
    let state = match (certain(2)?, until) {
        (_, Some(_)) => State::Running,
        (0, None) => State::Waiting,
        (1, None) => State::Held,
        (_, None) => State::Dead,
    };
    let begun = number(18)?.or(number(6)?);
    let attempts = number(19)?.unwrap_or(certain(7)?);
    let progress = Progress {
        attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
        step: u32::try_from(certain(8)?).unwrap_or(u32::MAX),
        drawn: u64::try_from(certain(9)?).unwrap_or(0),
    };
    let payload = match row.get_ref(16)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        _ => {
            other_broken.set(true);
            Vec::new()
        }
    };
    let (headers_broken, history_broken) = (headers.is_none(), history.is_none());
    let job = Job {
        id: JobId(row.get(0)?),
        queue,
        state,
        payload,
        headers: headers.unwrap_or_default(),
        key,
        priority: Priority::new(u8::try_from(certain(3)?).unwrap_or(0)),
        policy,
        idempotency_key,
        created: time(certain(5)?),
        due: time(until.unwrap_or(certain(4)?)),
        begun: begun.map(time),
        progress,
        history: history.unwrap_or_default(),
        reason,
    };
    Ok(Found { job, headers_broken, history_broken, other_broken: other_broken.get() })
}
