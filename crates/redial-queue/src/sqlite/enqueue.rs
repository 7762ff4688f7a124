use std::num::NonZeroU32;

use redial_sqlite::{SqliteFault, ahead_of_wall, damaged, span};
use rusqlite::{OptionalExtension, params};

use super::step::{Queue, Step};
use crate::durable::text::{micros, write_headers};
use crate::durable::{Enqueued, JobId, NewJob, Start, WhenWaiting};

/// A job with the same key that has not started.
struct Other {
    id: i64,
    held: bool,
    priority: u8,
    due: i64,
    attempts: u32,
}

impl Step<'_> {
    pub(super) fn enqueue(
        &mut self,
        queue: &str,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, SqliteFault> {
        jobs.iter().try_for_each(NewJob::check)?;
        let queue = self.queue(queue)?;
        jobs.iter().map(|job| self.enqueue_one(&queue, job)).collect()
    }

    fn enqueue_one(&mut self, queue: &Queue, job: &NewJob) -> Result<Enqueued, SqliteFault> {
        if let Some(key) = job.key.as_deref().filter(|_| job.when_waiting != WhenWaiting::Append)
            && let Some(other) = self.other(queue.id, key)?
        {
            let id = JobId(other.id);
            return match job.when_waiting {
                WhenWaiting::Keep => Ok(Enqueued::Kept(id)),
                WhenWaiting::Refuse => Ok(Enqueued::Refused(id)),
                WhenWaiting::Append | WhenWaiting::Replace => {
                    self.replace(queue, &other, job)?;
                    Ok(Enqueued::Replaced(id))
                }
            };
        }
        let waits = match &job.key {
            Some(key) => self.admit(queue.id, key, queue.settings.per_key)?,
            None => true,
        };
        let sql = "INSERT INTO redial_job (queue, state, priority, due, created, key, policy, \
                   idempotency_key, headers, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        let (priority, due) = (job.priority.level(), self.due(job.start));
        self.conn.prepare_cached(sql)?.execute(params![
            queue.id,
            if waits { 0 } else { 1 },
            priority,
            due,
            self.now,
            job.key,
            job.policy,
            job.idempotency_key,
            write_headers(&job.headers),
            job.payload,
        ])?;
        let id = self.conn.last_insert_rowid();
        if waits {
            self.make_ready(queue.id, priority, due, id)?;
        }
        self.tally(queue.id).enqueued += 1;
        Ok(Enqueued::Added(JobId(id)))
    }

    fn due(&self, start: Start) -> i64 {
        match start {
            Start::Now => self.now,
            Start::After(wait) => self.now.saturating_add(span(wait)),
            Start::At(time) => micros(time).saturating_add(ahead_of_wall(self.now)),
        }
    }

    /// The newest job of a key that has not started.
    fn other(&self, queue: i64, key: &str) -> Result<Option<Other>, SqliteFault> {
        let sql = "SELECT id, state, priority, due, attempts FROM redial_job AS job \
                   WHERE queue = ?1 AND key = ?2 AND state IN (0, 1) \
                   AND NOT EXISTS (SELECT 1 FROM redial_running AS running WHERE running.id = job.id) \
                   ORDER BY id DESC LIMIT 1";
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Other {
                id: row.get(0)?,
                held: row.get::<_, i64>(1)? == 1,
                priority: row.get(2)?,
                due: row.get(3)?,
                attempts: row.get(4)?,
            })
        };
        let mut select = self.conn.prepare_cached(sql)?;
        Ok(select.query_row(params![queue, key], read).optional()?)
    }

    fn replace(&mut self, queue: &Queue, other: &Other, job: &NewJob) -> Result<(), SqliteFault> {
        let mut due = self.due(job.start);
        if other.attempts > 0 {
            due = due.max(other.due);
        }
        let sql = "UPDATE redial_job SET payload = ?2, headers = ?3, priority = ?4, policy = ?5, \
                   idempotency_key = ?6, due = ?7, attempts = 0, step = 0, drawn = 0, poll = 0, begun = NULL, \
                   history = '[]' WHERE id = ?1";
        let priority = job.priority.level();
        self.conn.prepare_cached(sql)?.execute(params![
            other.id,
            job.payload,
            write_headers(&job.headers),
            priority,
            job.policy,
            job.idempotency_key,
            due
        ])?;
        if !other.held {
            self.make_unready(queue.id, other.priority, other.due, other.id)?;
            self.make_ready(queue.id, priority, due, other.id)?;
        }
        Ok(())
    }

    /// Whether another job of a key may be waiting or running. Held jobs go first.
    pub(super) fn admit(
        &mut self,
        queue: i64,
        key: &str,
        per_key: Option<NonZeroU32>,
    ) -> Result<bool, SqliteFault> {
        if per_key.is_none() {
            return Ok(true);
        }
        if !self.has_room(queue, key, per_key)? {
            return Ok(false);
        }
        self.release(queue, key, per_key)?;
        self.has_room(queue, key, per_key)
    }

    /// Whether fewer jobs of a key than the limit are waiting or running.
    fn has_room(
        &self,
        queue: i64,
        key: &str,
        per_key: Option<NonZeroU32>,
    ) -> Result<bool, SqliteFault> {
        let Some(most) = per_key.map(NonZeroU32::get) else { return Ok(true) };
        let sql = "SELECT count(*) FROM (SELECT 1 FROM redial_job \
                   WHERE queue = ?1 AND key = ?2 AND state = 0 LIMIT ?3)";
        let mut select = self.conn.prepare_cached(sql)?;
        let active: u32 = select.query_row(params![queue, key, most], |row| row.get(0))?;
        Ok(active < most)
    }

    /// Releases held jobs of a key, oldest first, as many as there is room for.
    pub(super) fn release(
        &mut self,
        queue: i64,
        key: &str,
        per_key: Option<NonZeroU32>,
    ) -> Result<(), SqliteFault> {
        while self.has_room(queue, key, per_key)? {
            let sql = "SELECT id, priority, due FROM redial_job \
                       WHERE queue = ?1 AND key = ?2 AND state = 1 ORDER BY id LIMIT 1";
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            let mut select = self.conn.prepare_cached(sql)?;
            let held: Option<(i64, u8, i64)> =
                select.query_row(params![queue, key], read).optional()?;
            let Some((id, priority, due)) = held else { return Ok(()) };
            let sql = "UPDATE redial_job SET state = 0 WHERE id = ?1";
            self.conn.prepare_cached(sql)?.execute([id])?;
            self.make_ready(queue, priority, due, id)?;
        }
        Ok(())
    }

    pub(super) fn make_ready(
        &mut self,
        queue: i64,
        priority: u8,
        due: i64,
        id: i64,
    ) -> Result<(), SqliteFault> {
        let sql = "INSERT INTO redial_ready (queue, priority, due, id) VALUES (?1, ?2, ?3, ?4)";
        self.conn.prepare_cached(sql)?.execute(params![queue, priority, due, id])?;
        self.tally(queue).waiting += 1;
        self.mark_changed(queue);
        Ok(())
    }

    /// Removes a waiting job from the ready list. If it is not in there, the file is damaged.
    pub(super) fn make_unready(
        &mut self,
        queue: i64,
        priority: u8,
        due: i64,
        id: i64,
    ) -> Result<(), SqliteFault> {
        let sql =
            "DELETE FROM redial_ready WHERE queue = ?1 AND priority = ?2 AND due = ?3 AND id = ?4";
        match self.conn.prepare_cached(sql)?.execute(params![queue, priority, due, id])? {
            1 => {
                self.tally(queue).waiting -= 1;
                Ok(())
            }
            _ => Err(damaged(&format!("job {id} is waiting, but not queued"))),
        }
    }
}
