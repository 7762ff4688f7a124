//! Queries that change nothing.

use std::time::Duration;

use redial_sqlite::{SqliteFault, between, span};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::group::LAST_OUTCOME;
use super::row::{self, COLUMNS, TABLES};
use super::step::find_queue;
use crate::durable::{Counts, Filter, Job, JobId, QueueSettings, State};

pub(super) fn get(conn: &Connection, id: JobId) -> Result<Option<Job>, SqliteFault> {
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE job.id = ?1");
    let found = conn.prepare_cached(&sql)?.query_row([id.0], row::read).optional()?;
    Ok(found.map(|found| found.job))
}

pub(super) fn list(conn: &Connection, filter: &Filter, now: i64) -> Result<Vec<Job>, SqliteFault> {
    let selection = Selection::new(conn, filter, now)?;
    let mut select = conn.prepare(&selection.select(COLUMNS))?;
    let found = select.query_map(params_from_iter(&selection.values), row::read)?;
    Ok(found.map(|found| found.map(|found| found.job)).collect::<Result<_, _>>()?)
}

pub(super) fn queues(conn: &Connection) -> Result<Vec<String>, SqliteFault> {
    let mut select = conn.prepare_cached("SELECT name FROM redial_queue ORDER BY name")?;
    let names = select.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

pub(super) fn settings(conn: &Connection, queue: &str) -> Result<QueueSettings, SqliteFault> {
    Ok(find_queue(conn, queue)?.map(|queue| queue.settings).unwrap_or_default())
}

pub(super) fn counts(conn: &Connection, queue: &str, now: i64) -> Result<Counts, SqliteFault> {
    // One snapshot for all counts.
    let conn = conn.unchecked_transaction()?;
    let sql = "SELECT id, dead, enqueued, done, retried, died, lost, stale, dropped, waiting \
               FROM redial_queue WHERE name = ?1";
    let read = |row: &rusqlite::Row<'_>| {
        let counts = Counts {
            dead: row.get(1)?,
            enqueued: row.get(2)?,
            done: row.get(3)?,
            retried: row.get(4)?,
            died: row.get(5)?,
            lost: row.get(6)?,
            stale: row.get(7)?,
            dropped: row.get(8)?,
            ..Counts::default()
        };
        Ok((row.get::<_, i64>(0)?, counts, row.get::<_, u64>(9)?))
    };
    let found = conn.prepare_cached(sql)?.query_row([queue], read).optional()?;
    let Some((id, mut counts, waiting)) = found else { return Ok(Counts::default()) };
    let number = |sql: &str| -> rusqlite::Result<u64> {
        conn.prepare_cached(sql)?.query_row([id], |row| row.get(0))
    };
    counts.held = number("SELECT count(*) FROM redial_job WHERE queue = ?1 AND state = 1")?;
    counts.running = number("SELECT count(*) FROM redial_running WHERE queue = ?1")?;
    counts.due = due(&conn, id, waiting, now)?;
    counts.later = waiting.saturating_sub(counts.due);
    counts.oldest = oldest_of(&conn, id, now)?;
    Ok(counts)
}

pub(super) fn oldest(conn: &Connection, queue: &str, now: i64) -> Result<Duration, SqliteFault> {
    let sql = "SELECT id FROM redial_queue WHERE name = ?1";
    let id = conn.prepare_cached(sql)?.query_row([queue], |row| row.get(0)).optional()?;
    Ok(id.map_or(Ok(Duration::ZERO), |id| oldest_of(conn, id, now))?)
}

/// The age of the oldest due job, from the first index entry of each priority.
fn oldest_of(conn: &Connection, queue: i64, now: i64) -> rusqlite::Result<Duration> {
    let sql = "SELECT min(due) FROM redial_ready WHERE queue = ?1 AND priority = ?2";
    let mut head = conn.prepare_cached(sql)?;
    let mut oldest = Duration::ZERO;
    for priority in 0..8 {
        let first: Option<i64> = head.query_row([queue, priority], |row| row.get(0))?;
        oldest = oldest.max(first.map(|due| between(due, now)).unwrap_or_default());
    }
    Ok(oldest)
}

/// The number of a queue's waiting jobs that are due. There may be millions that are due, and millions that are not; usually
/// there are few of one kind, and those are counted.
fn due(conn: &Connection, queue: i64, waiting: u64, now: i64) -> rusqlite::Result<u64> {
    const MANY: i64 = 10_000;
    let count = |which: &str, most: i64| -> rusqlite::Result<u64> {
        let sql = format!(
            "SELECT count(*) FROM (SELECT 1 FROM redial_ready \
             WHERE queue = ?1 AND priority = ?2 AND due {which} ?3 LIMIT ?4)"
        );
        let mut select = conn.prepare_cached(&sql)?;
        let level = |priority: i64| {
            select.query_row([queue, priority, now, most], |row| row.get::<_, u64>(0))
        };
        (0..8).map(level).sum()
    };
    let due = count("<=", MANY)?;
    if due < MANY.unsigned_abs() {
        Ok(due)
    } else {
        Ok(waiting.saturating_sub(count(">", i64::MAX)?))
    }
}

/// The ID of a queue, and how many jobs it has; held jobs are counted up to [`FEW`].
fn size(conn: &Connection, queue: &str) -> Result<(i64, i64), SqliteFault> {
    let sql = "SELECT id, waiting + dead + (SELECT count(*) FROM (SELECT 1 FROM redial_job AS job \
               WHERE job.queue = queue.id AND job.state = 1 LIMIT ?2)) FROM redial_queue AS queue WHERE name = ?1";
    let mut select = conn.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    Ok(select.query_row(params![queue, FEW], read).optional()?.unwrap_or_default())
}

/// A queue with fewer jobs is listed by the numbers of its jobs. In a larger one, a scan of all jobs of the file soon finds the
/// next one.
const FEW: i64 = 300_000;

/// A filter as SQL.
pub(super) struct Selection {
    terms: Vec<String>,
    values: Vec<Value>,
    most: i64,
}

impl Selection {
    pub(super) fn new(conn: &Connection, filter: &Filter, now: i64) -> Result<Self, SqliteFault> {
        let most = i64::try_from(filter.most).unwrap_or(i64::MAX);
        let mut selection = Self { terms: vec!["1".to_owned()], values: Vec::new(), most };
        if let Some(queue) = &filter.queue {
            let (id, jobs) = size(conn, queue)?;
            selection.add(&format!("job.queue = {id}"), []);
            if jobs < FEW && filter.ids.is_empty() && filter.key.is_none() {
                let these = "SELECT id FROM redial_ready WHERE queue = # UNION ALL \
                             SELECT id FROM redial_running WHERE queue = # UNION ALL \
                             SELECT id FROM redial_job WHERE queue = # AND state = 1 UNION ALL \
                             SELECT id FROM redial_job WHERE queue = # AND state = 2";
                let these = these.replace('#', &id.to_string());
                selection.add(&format!("job.id IN ({these})"), []);
            }
        }
        match filter.state {
            None => {}
            Some(State::Waiting) => selection.add("job.state = 0 AND running.id IS NULL", []),
            Some(State::Held) => selection.add("job.state = 1", []),
            Some(State::Running) => selection.add("job.id IN (SELECT id FROM redial_running)", []),
            Some(State::Dead) => selection.add("job.state = 2", []),
        }
        if !filter.ids.is_empty() {
            // As one value: a statement has a limit on the number of parameters.
            let ids = filter.ids.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(",");
            let term = "job.id IN (SELECT value FROM json_each(?))";
            selection.add(term, [Value::Text(format!("[{ids}]"))]);
        }
        if let Some(key) = &filter.key {
            selection.add("job.key = ?", [Value::Text(key.clone())]);
        }
        if let Some(reason) = &filter.reason {
            selection.add("job.state = 2 AND job.reason = ?", [Value::Text(reason.clone())]);
        }
        if let Some(outcome) = &filter.outcome {
            let term = format!("instr({LAST_OUTCOME}, ?) > 0");
            selection.add(&term, [Value::Text(outcome.clone())]);
        }
        if let Some(older) = filter.older {
            selection.add("job.due <= ?", [Value::Integer(now.saturating_sub(span(older)))]);
        }
        if let Some(after) = filter.after {
            selection.add("job.id > ?", [Value::Integer(after.0)]);
        }
        Ok(selection)
    }

    /// Adds a condition.
    pub(super) fn add<const N: usize>(&mut self, term: &str, values: [Value; N]) {
        self.terms.push(term.to_owned());
        self.values.extend(values);
    }

    pub(super) fn values(&self) -> &[Value] {
        &self.values
    }

    pub(super) fn select(&self, columns: &str) -> String {
        let terms = self.terms.join(" AND ");
        format!("SELECT {columns} FROM {TABLES} WHERE {terms} ORDER BY job.id LIMIT {}", self.most)
    }

    /// The numbers of the jobs.
    pub(super) fn ids(&self, conn: &Connection) -> Result<Vec<i64>, SqliteFault> {
        let mut select = conn.prepare(&self.select("job.id"))?;
        let ids = select.query_map(params_from_iter(&self.values), |row| row.get(0))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }
}

/// The inconsistencies in the file, at most 20 of each kind of check.
pub(super) fn verify(conn: &Connection) -> Result<Vec<String>, SqliteFault> {
    let mut wrong = Vec::new();
    let mut check = conn.prepare("PRAGMA integrity_check(20)")?;
    let mut rows = check.query([])?;
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        if text != "ok" {
            wrong.push(text);
        }
    }
    let all = "SELECT 'job ' || id || ' is waiting, but not queued' FROM redial_job AS job \
               WHERE state = 0 AND NOT EXISTS (SELECT 1 FROM redial_running AS running WHERE running.id = job.id) \
               AND NOT EXISTS (SELECT 1 FROM redial_ready AS ready WHERE ready.queue = job.queue \
               AND ready.priority = job.priority AND ready.due = job.due AND ready.id = job.id) \
               UNION ALL SELECT 'job ' || id || ' is queued, but does not exist' FROM redial_ready AS ready \
               WHERE NOT EXISTS (SELECT 1 FROM redial_job AS job WHERE job.id = ready.id AND job.state = 0) \
               UNION ALL SELECT 'job ' || id || ' is running, but does not exist' FROM redial_running AS running \
               WHERE NOT EXISTS (SELECT 1 FROM redial_job AS job WHERE job.id = running.id AND job.state = 0) \
               UNION ALL SELECT 'queue ' || name || ' has a wrong number of waiting jobs' FROM redial_queue AS queue \
               WHERE waiting != (SELECT count(*) FROM redial_ready AS ready WHERE ready.queue = queue.id) \
               UNION ALL SELECT 'queue ' || name || ' has a wrong number of dead letters' FROM redial_queue AS queue \
               WHERE dead != (SELECT count(*) FROM redial_job AS job WHERE job.queue = queue.id AND job.state = 2) \
               LIMIT 20";
    let mut check = conn.prepare(all)?;
    let found = check.query_map([], |row| row.get(0))?;
    for text in found {
        wrong.push(text?);
    }
    Ok(wrong)
}
