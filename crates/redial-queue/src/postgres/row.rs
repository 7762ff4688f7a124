//! Jobs as rows of the tables.

use std::time::{Duration, SystemTime};

use redial_core::{Progress, Span};
use tokio_postgres::{Error, Row};

use crate::durable::text::{read_headers, read_history};
use crate::durable::{Job, JobId, State};
use crate::memory::Priority;

/// The columns that [`read`] needs, of the tables `job j` and `queue q`.
pub(super) const COLUMNS: &str = "j.id, j.state, j.priority, case when j.state = 2 then j.until else j.due end as due, \
     j.created, j.begun, j.attempts, j.step, j.drawn, j.key, j.policy, j.idempotency_key, j.reason, \
     j.headers::text as headers, j.history::text as history, j.payload, j.poll::int as status";

/// A job, and whether its headers and history could be read; they are empty if not.
pub(super) fn read(row: &Row, queue: String) -> Result<(Job, bool), Error> {
    let headers = read_headers(row.try_get("headers")?);
    let history = read_history(row.try_get("history")?);
    let whole = headers.is_some() && history.is_some();
    let count = |name: &str| row.try_get::<_, i32>(name).map(|n| u32::try_from(n).unwrap_or(0));
    let drawn: i64 = row.try_get("drawn")?;
    let state: i16 = row.try_get("state")?;
    let priority: i16 = row.try_get("priority")?;
    let job = Job {
        id: JobId(row.try_get("id")?),
        queue,
        state: state_of(state),
        payload: row.try_get("payload")?,
        headers: headers.unwrap_or_default(),
        key: row.try_get("key")?,
        priority: Priority::new(u8::try_from(priority).unwrap_or(0)),
        policy: row.try_get("policy")?,
        idempotency_key: row.try_get("idempotency_key")?,
        created: row.try_get("created")?,
        due: row.try_get::<_, Option<SystemTime>>("due")?.unwrap_or(SystemTime::UNIX_EPOCH),
        begun: row.try_get("begun")?,
        progress: Progress {
            attempts: count("attempts")?,
            step: count("step")?,
            drawn: Span::from_nanos(u64::try_from(drawn).unwrap_or(0)),
            // Functions of version 1 return null.
            poll: row.try_get::<_, Option<i32>>("status")? == Some(1),
        },
        history: history.unwrap_or_default(),
        reason: row.try_get("reason")?,
    };
    Ok((job, whole))
}

/// A state as the tables store it.
pub(super) fn number_of(state: State) -> i16 {
    match state {
        State::Waiting => 0,
        State::Held => 1,
        State::Running => 2,
        State::Dead => 3,
    }
}

fn state_of(number: i16) -> State {
    match number {
        0 => State::Waiting,
        1 => State::Held,
        2 => State::Running,
        _ => State::Dead,
    }
}

/// A duration in microseconds, at most a century: the server's calendar ends.
pub(super) fn span(time: Duration) -> i64 {
    const CENTURY: i64 = 36_525 * 24 * 3_600 * 1_000_000;
    i64::try_from(time.as_micros()).unwrap_or(CENTURY).min(CENTURY)
}

/// A duration from microseconds.
pub(super) fn micros(count: i64) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or(0))
}

/// A count as the tables store it.
pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count from the tables.
pub(super) fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
