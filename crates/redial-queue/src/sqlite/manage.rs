//! Operations of users on jobs and queues: edit, remove, redrive, change settings.

use redial_sqlite::{SqliteFault, span};
use rusqlite::{OptionalExtension, params};

use super::read::Selection;
use super::step::Step;
use crate::durable::text::write_headers;
use crate::durable::{Edit, Filter, JobId, QueueSettings, Redrive};

/// A job that is not running.
struct Idle {
    id: i64,
    queue: i64,
    state: i64,
    priority: u8,
    due: i64,
    key: Option<String>,
}

impl Step<'_> {
    /// The job with this number, unless it is running.
    fn idle(&self, id: i64) -> Result<Option<Idle>, SqliteFault> {
        let sql = "SELECT queue, state, priority, due, key FROM redial_job AS job WHERE id = ?1 \
                   AND NOT EXISTS (SELECT 1 FROM redial_running AS running WHERE running.id = job.id)";
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Idle {
                id,
                queue: row.get(0)?,
                state: row.get(1)?,
                priority: row.get(2)?,
                due: row.get(3)?,
                key: row.get(4)?,
            })
        };
        Ok(self.conn.prepare_cached(sql)?.query_row([id], read).optional()?)
    }

    pub(super) fn edit(&mut self, id: JobId, edit: &Edit) -> Result<bool, SqliteFault> {
        edit.check()?;
        let Some(job) = self.idle(id.0)? else { return Ok(false) };
        if let Some(payload) = &edit.payload {
            self.write("payload", id, payload)?;
        }
        if let Some(headers) = &edit.headers {
            self.write("headers", id, &write_headers(headers))?;
        }
        if let Some(policy) = &edit.policy {
            self.write("policy", id, &policy.clone().into_name())?;
        }
        if let Some(priority) = edit.priority {
            self.write("priority", id, &priority.level())?;
            if job.state == 0 {
                self.make_unready(job.queue, job.priority, job.due, job.id)?;
                self.make_ready(job.queue, priority.level(), job.due, job.id)?;
            }
        }
        Ok(true)
    }

    fn write(
        &self,
        column: &str,
        id: JobId,
        value: &dyn rusqlite::ToSql,
    ) -> Result<(), SqliteFault> {
        let sql = format!("UPDATE redial_job SET {column} = ?2 WHERE id = ?1");
        self.conn.prepare_cached(&sql)?.execute(params![id.0, value])?;
        Ok(())
    }

    pub(super) fn remove(&mut self, filter: &Filter) -> Result<u64, SqliteFault> {
        let mut selection = Selection::new(self.conn, filter, self.now)?;
        selection.add("running.id IS NULL", []);
        let mut removed = 0;
        for id in selection.ids(self.conn)? {
            let Some(job) = self.idle(id)? else { continue };
            match job.state {
                0 => self.make_unready(job.queue, job.priority, job.due, id)?,
                2 => self.tally(job.queue).dead -= 1,
                _ => {}
            }
            self.conn.prepare_cached("DELETE FROM redial_job WHERE id = ?1")?.execute([id])?;
            if job.state == 0 {
                self.release_next(job.queue, job.key)?;
            }
            removed += 1;
        }
        Ok(removed)
    }

    pub(super) fn redrive(
        &mut self,
        filter: &Filter,
        redrive: Redrive,
    ) -> Result<u64, SqliteFault> {
        let mut selection = Selection::new(self.conn, filter, self.now)?;
        selection.add("job.state = 2", []);
        let mut due = self.now.saturating_add(span(redrive.after));
        let mut redriven = 0;
        for id in selection.ids(self.conn)? {
            let Some(job) = self.idle(id)? else { continue };
            let waits = match &job.key {
                Some(key) => self.admit(job.queue, key, self.per_key(job.queue)?)?,
                None => true,
            };
            let sql = "UPDATE redial_job SET state = ?2, due = ?3, attempts = 0, step = 0, drawn = 0, \
                       poll = 0, begun = NULL, reason = NULL WHERE id = ?1";
            let state = if waits { 0 } else { 1 };
            self.conn.prepare_cached(sql)?.execute(params![id, state, due])?;
            if waits {
                self.make_ready(job.queue, job.priority, due, id)?;
            }
            self.tally(job.queue).dead -= 1;
            due = due.saturating_add(span(redrive.apart));
            redriven += 1;
        }
        Ok(redriven)
    }

    pub(super) fn set(&mut self, queue: &str, settings: &QueueSettings) -> Result<(), SqliteFault> {
        let id = self.queue(queue)?.id;
        let sql = "UPDATE redial_queue SET paused = ?2, rate_count = ?3, rate_per = ?4, rate_burst = ?5, \
                   per_key = ?6, most_dead = ?7 WHERE id = ?1";
        let most = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.conn.prepare_cached(sql)?.execute(params![
            id,
            settings.paused,
            settings.rate.map(|rule| rule.rate.count),
            settings.rate.map(|rule| most(rule.rate.per.as_nanos())),
            settings.rate.map(|rule| rule.burst),
            settings.per_key_number(),
            settings.most_dead.map(most),
        ])?;
        self.mark_changed(id);
        self.trim(id)
    }
}
