//! A row may have been damaged, by hand or by the disk. Listing jobs shows what can still be read of them; claiming a job
//! returns it complete or not at all.

use std::borrow::Cow;
use std::cell::Cell;

use redial_core::{Progress, Span};
use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::Priority;
use crate::durable::text::{read_headers, read_history, time};
use crate::durable::{Job, JobId, State};

/// The columns of [`read`], from `redial_job AS job`, `redial_queue AS queue` and `redial_running AS running`.
pub(super) const COLUMNS: &str = "job.id, queue.name, job.state, job.priority, job.due, job.created, job.begun, \
    job.attempts, job.step, job.drawn, job.key, job.policy, job.idempotency_key, job.reason, job.headers, job.history, \
    job.payload, running.until, running.begun, running.attempts, job.poll";

/// The tables of [`COLUMNS`].
pub(super) const TABLES: &str = "redial_job AS job JOIN redial_queue AS queue ON queue.id = job.queue \
    LEFT JOIN redial_running AS running ON running.id = job.id";

/// A job, and which parts of it could not be read.
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

/// The columns of a row, and whether one of them has an unexpected type.
struct Cells<'a> {
    row: &'a Row<'a>,
    broken: Cell<bool>,
}

impl Cells<'_> {
    fn text(&self, at: usize) -> rusqlite::Result<Option<String>> {
        Ok(match self.row.get_ref(at)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                self.flag(matches!(text, Cow::Owned(_)));
                Some(text.into_owned())
            }
            other => {
                self.flag(other != ValueRef::Null);
                None
            }
        })
    }

    fn bytes(&self, at: usize) -> rusqlite::Result<Vec<u8>> {
        Ok(match self.row.get_ref(at)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
            _ => {
                self.flag(true);
                Vec::new()
            }
        })
    }

    fn number(&self, at: usize) -> rusqlite::Result<Option<i64>> {
        let value = self.row.get_ref(at)?;
        self.flag(!matches!(value, ValueRef::Integer(_) | ValueRef::Null));
        Ok(value.as_i64_or_null().unwrap_or(None))
    }

    /// A number that must not be null.
    fn required(&self, at: usize) -> rusqlite::Result<i64> {
        let value = self.number(at)?;
        self.flag(value.is_none());
        Ok(value.unwrap_or(0))
    }

    fn flag(&self, broken: bool) {
        self.broken.set(self.broken.get() || broken);
    }
}

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Found> {
    let cells = Cells { row, broken: Cell::new(false) };
    let headers = cells.text(14)?.and_then(|text| read_headers(&text));
    let history = cells.text(15)?.and_then(|text| read_history(&text));
    let (queue, key, policy) =
        (cells.text(1)?.unwrap_or_default(), cells.text(10)?, cells.text(11)?);
    let (idempotency_key, reason) = (cells.text(12)?.unwrap_or_default(), cells.text(13)?);
    let until = cells.number(17)?;
    let state = match (cells.required(2)?, until) {
        (_, Some(_)) => State::Running,
        (0, None) => State::Waiting,
        (1, None) => State::Held,
        (_, None) => State::Dead,
    };
    let begun = cells.number(18)?.or(cells.number(6)?);
    let attempts = cells.number(19)?.unwrap_or(cells.required(7)?);
    let progress = Progress {
        attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
        step: u32::try_from(cells.required(8)?).unwrap_or(u32::MAX),
        drawn: Span::from_nanos(u64::try_from(cells.required(9)?).unwrap_or(0)),
        poll: cells.required(20)? != 0,
    };
    let payload = cells.bytes(16)?;
    let (headers_broken, history_broken) = (headers.is_none(), history.is_none());
    let job = Job {
        id: JobId(row.get(0)?),
        queue,
        state,
        payload,
        headers: headers.unwrap_or_default(),
        key,
        priority: Priority::new(u8::try_from(cells.required(3)?).unwrap_or(0)),
        policy,
        idempotency_key,
        created: time(cells.required(5)?),
        due: time(until.unwrap_or(cells.required(4)?)),
        begun: begun.map(time),
        progress,
        history: history.unwrap_or_default(),
        reason,
    };
    Ok(Found { job, headers_broken, history_broken, other_broken: cells.broken.get() })
}
