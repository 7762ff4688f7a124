use std::time::Duration;

use redial_sqlite::{SqliteFault, damaged, span};
use rusqlite::{OptionalExtension, params};

use super::claim::queue_of;
use super::step::Step;
use crate::durable::text::{self, read_history, remember, time, write_history};
use crate::durable::{JobLease, JobVerdict, Settled, Settlement, Tried};

/// A claim that still has its lease.
struct Running {
    id: i64,
    queue: i64,
    priority: u8,
    begun: i64,
    attempts: u32,
}

impl Step<'_> {
    pub(super) fn settle(
        &mut self,
        settlements: &[Settlement],
    ) -> Result<Vec<Settled>, SqliteFault> {
        settlements.iter().map(|settlement| self.settle_one(settlement)).collect()
    }

    fn settle_one(&mut self, settlement: &Settlement) -> Result<Settled, SqliteFault> {
        let Some(running) = self.end_claim(settlement.lease)? else {
            self.tally(queue_of(settlement.lease.fence)).stale += 1;
            return Ok(Settled::Stale);
        };
        match &settlement.verdict {
            JobVerdict::Done => {
                self.tally(running.queue).done += 1;
                let key = self.key(running.id)?;
                let sql = "DELETE FROM redial_job WHERE id = ?1";
                self.conn.prepare_cached(sql)?.execute([running.id])?;
                self.release_next(running.queue, key)?;
            }
            JobVerdict::Retry { wait, progress } => {
                let history = self.history(&running, settlement)?;
                let sql = "UPDATE redial_job SET history = ?2, step = ?3, drawn = ?4, poll = ?5 \
                           WHERE id = ?1";
                let drawn = i64::try_from(progress.drawn.as_nanos()).unwrap_or(i64::MAX);
                let values = params![running.id, history, progress.step, drawn, progress.poll];
                self.conn.prepare_cached(sql)?.execute(values)?;
                self.put_back(&running, running.attempts, *wait)?;
                self.tally(running.queue).retried += 1;
            }
            JobVerdict::Postpone { wait } => {
                self.put_back(&running, running.attempts.saturating_sub(1), *wait)?;
            }
            JobVerdict::Dead { reason } => self.give_up(&running, reason, settlement)?,
        }
        Ok(Settled::Taken)
    }

    /// Ends a claim, unless the job has been claimed again since.
    fn end_claim(&self, lease: JobLease) -> Result<Option<Running>, SqliteFault> {
        let sql = "SELECT queue, priority, begun, attempts FROM redial_running \
                   WHERE id = ?1 AND fence = ?2";
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Running {
                id: lease.id.0,
                queue: row.get(0)?,
                priority: row.get(1)?,
                begun: row.get(2)?,
                attempts: row.get(3)?,
            })
        };
        let mut select = self.conn.prepare_cached(sql)?;
        let running = select.query_row([lease.id.0, lease.fence], read).optional()?;
        if running.is_some() {
            let sql = "DELETE FROM redial_running WHERE id = ?1";
            self.conn.prepare_cached(sql)?.execute([lease.id.0])?;
        }
        Ok(running)
    }

    /// The key of a job that must exist.
    fn key(&self, id: i64) -> Result<Option<String>, SqliteFault> {
        let sql = "SELECT key FROM redial_job WHERE id = ?1";
        let key = self.conn.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?;
        key.ok_or_else(|| missing(id))
    }

    /// The history of the job, including this attempt.
    fn history(&self, running: &Running, settlement: &Settlement) -> Result<String, SqliteFault> {
        let sql = "SELECT history FROM redial_job WHERE id = ?1";
        let history: Option<String> =
            self.conn.prepare_cached(sql)?.query_row([running.id], |row| row.get(0)).optional()?;
        let history = history.ok_or_else(|| missing(running.id))?;
        let mut history = read_history(&history).unwrap_or_default();
        let tried = Tried {
            number: running.attempts,
            ended: time(self.now),
            took: settlement.took,
            outcome: settlement.outcome.clone(),
        };
        remember(&mut history, tried);
        Ok(write_history(&history))
    }

    fn put_back(
        &mut self,
        running: &Running,
        attempts: u32,
        wait: Duration,
    ) -> Result<(), SqliteFault> {
        let due = self.now.saturating_add(span(wait));
        let sql = "UPDATE redial_job SET due = ?2, attempts = ?3, begun = ?4 WHERE id = ?1";
        let values = params![running.id, due, attempts, running.begun];
        match self.conn.prepare_cached(sql)?.execute(values)? {
            1 => self.make_ready(running.queue, running.priority, due, running.id),
            _ => Err(missing(running.id)),
        }
    }

    fn give_up(
        &mut self,
        running: &Running,
        reason: &str,
        settlement: &Settlement,
    ) -> Result<(), SqliteFault> {
        let history = self.history(running, settlement)?;
        let sql = "UPDATE redial_job SET state = 2, due = ?2, attempts = ?3, begun = ?4, history = ?5, \
                   reason = ?6 WHERE id = ?1";
        let Running { id, attempts, begun, .. } = *running;
        let values = params![id, self.now, attempts, begun, history, text::reason(reason)];
        self.conn.prepare_cached(sql)?.execute(values)?;
        let tally = self.tally(running.queue);
        (tally.dead, tally.died) = (tally.dead + 1, tally.died + 1);
        let key = self.key(running.id)?;
        self.release_next(running.queue, key)
    }

    /// Releases the next held job of the key of a job that has ended.
    pub(super) fn release_next(
        &mut self,
        queue: i64,
        key: Option<String>,
    ) -> Result<(), SqliteFault> {
        match key {
            Some(key) => self.release(queue, &key, self.per_key(queue)?),
            None => Ok(()),
        }
    }

    pub(super) fn beat(
        &mut self,
        leases: &[JobLease],
        lease: Duration,
    ) -> Result<Vec<bool>, SqliteFault> {
        let sql = "UPDATE redial_running SET until = ?3 WHERE id = ?1 AND fence = ?2";
        let until = self.now.saturating_add(span(lease));
        let mut update = self.conn.prepare_cached(sql)?;
        let mut beat = |lease: &JobLease| {
            let found = update.execute([lease.id.0, lease.fence, until])? == 1;
            if !found {
                self.tally(queue_of(lease.fence)).stale += 1;
            }
            Ok(found)
        };
        leases.iter().map(&mut beat).collect()
    }
}

fn missing(id: i64) -> SqliteFault {
    damaged(&format!("job {id} is running, but does not exist"))
}
