use std::time::Duration;

use redial_core::{Span, Time};
use redial_sqlite::{SqliteFault, between, damaged, span};
use rusqlite::{OptionalExtension, params};

use super::row::{self, COLUMNS, Found, TABLES};
use super::step::{Queue, Step};
use crate::durable::text::{micros, remember, time, write_history};
use crate::durable::{Claim, Claimed, Claims, Job, JobId, JobLease, State, Tried};
use crate::memory::Priority;

/// Being due this long, in microseconds, is worth one level of priority.
const AGING: i64 = 10_000_000;

/// The lower bits of a fence hold the queue, so that a settlement of a job that is gone can be counted for it.
const QUEUE_BITS: u32 = 20;

/// A job that can be claimed.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: i64,
    priority: u8,
    due: i64,
    lost: bool,
}

impl Candidate {
    /// The candidate with the lowest rank goes first.
    fn rank(&self) -> (i64, i64) {
        let below = i64::from(Priority::HIGHEST.level().saturating_sub(self.priority));
        (self.due.saturating_add(below * AGING), self.id)
    }
}

/// The queue of a fence.
pub(super) fn queue_of(fence: i64) -> i64 {
    fence & ((1 << QUEUE_BITS) - 1)
}

impl Step<'_> {
    pub(super) fn claim(&mut self, claim: &Claim) -> Result<Claims, SqliteFault> {
        let Some(queue) = self.find_queue(&claim.queue)? else { return Ok(Claims::default()) };
        if queue.settings.paused {
            return Ok(Claims::default());
        }
        let most = claim.most.min(1 << 20);
        let (mut candidates, mut next) = self.waiting(queue.id, most)?;
        let mut expires = self.next_expiry(queue.id)?;
        let lost = expires.is_some_and(|until| until <= self.now);
        if lost {
            candidates.append(&mut self.expired(queue.id, most + 1)?);
        }
        candidates.sort_unstable_by_key(Candidate::rank);
        let wanted = candidates.len().min(most);
        let (taken, token) = self.take(&queue, wanted)?;
        if candidates.len() > taken {
            next = Some(self.now);
        }
        candidates.truncate(taken);
        let mut jobs = Vec::with_capacity(taken);
        let mut fence = if taken > 0 { self.fences(queue.id, taken)? } else { 0 };
        for candidate in candidates {
            jobs.extend(self.lease(candidate, fence, claim.lease, queue.id)?);
            fence += 1 << QUEUE_BITS;
        }
        if lost {
            expires = self.next_expiry(queue.id)?;
        } else if !jobs.is_empty() {
            let until = self.now.saturating_add(span(claim.lease));
            expires = Some(expires.map_or(until, |expires| expires.min(until)));
        }
        let next = [next, expires].into_iter().flatten().min();
        let next = next.map(|due| between(self.now, due));
        let next = next.map(|wait| wait.max(token.unwrap_or_default()));
        Ok(Claims { jobs, next, limited: taken < wanted, ..Claims::default() })
    }

    /// Up to `most` due jobs of each priority, and when the first of the others is due.
    fn waiting(
        &self,
        queue: i64,
        most: usize,
    ) -> Result<(Vec<Candidate>, Option<i64>), SqliteFault> {
        let sql = "SELECT priority, due, id FROM redial_ready WHERE queue = ?1 AND priority > ?2 \
                   ORDER BY priority, due, id LIMIT ?3";
        let mut heads = self.conn.prepare_cached(sql)?;
        let (mut candidates, mut next, mut below) = (Vec::new(), None::<i64>, -1_i64);
        while below < i64::from(Priority::HIGHEST.level()) {
            let mut rows = heads.query(params![queue, below, most + 1])?;
            let (mut level, mut taken) = (None, 0);
            while let Some(row) = rows.next()? {
                let (priority, due): (i64, i64) = (row.get(0)?, row.get(1)?);
                if *level.get_or_insert(priority) != priority {
                    break;
                }
                if due > self.now || taken == most {
                    next = Some(next.map_or(due, |next| next.min(due)));
                    break;
                }
                let priority = u8::try_from(priority).unwrap_or(0);
                candidates.push(Candidate { id: row.get(2)?, priority, due, lost: false });
                taken += 1;
            }
            let Some(level) = level else { break };
            below = level;
        }
        Ok((candidates, next))
    }

    /// Running jobs whose lease has run out.
    fn expired(&self, queue: i64, most: usize) -> Result<Vec<Candidate>, SqliteFault> {
        let sql = "SELECT id, priority, due FROM redial_running WHERE queue = ?1 AND until <= ?2 \
                   ORDER BY due - priority * ?4, id LIMIT ?3";
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Candidate { id: row.get(0)?, priority: row.get(1)?, due: row.get(2)?, lost: true })
        };
        let mut select = self.conn.prepare_cached(sql)?;
        let found = select.query_map(params![queue, self.now, most, AGING], read)?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    fn next_expiry(&self, queue: i64) -> Result<Option<i64>, SqliteFault> {
        let sql = "SELECT min(until) FROM redial_running WHERE queue = ?1";
        Ok(self.conn.prepare_cached(sql)?.query_row([queue], |row| row.get(0))?)
    }

    /// How many of `wanted` the rate of the queue allows, and the time until it allows another one.
    fn take(&self, queue: &Queue, wanted: usize) -> Result<(usize, Option<Duration>), SqliteFault> {
        let Some(rate) = queue.settings.rate else { return Ok((wanted, None)) };
        let unsigned = |at: i64| u64::try_from(at).unwrap_or(0);
        let now = Time::at(Span::from_micros(unsigned(self.now)));
        let full_at = Time::from_nanos(unsigned(queue.full_at));
        let (taken, full_at) = rate.take_up_to(wanted as u64, full_at, now);
        if taken > 0 {
            let sql = "UPDATE redial_queue SET full_at = ?2 WHERE id = ?1";
            let full_at = i64::try_from(full_at.as_nanos()).unwrap_or(i64::MAX);
            self.conn.prepare_cached(sql)?.execute([queue.id, full_at])?;
        }
        let wait = rate.next(full_at, now).map_or(Span::MAX, |next| next - now);
        Ok((usize::try_from(taken).unwrap_or(wanted), Some(wait.into())))
    }

    /// The first of `count` new fences.
    fn fences(&self, queue: i64, count: usize) -> Result<i64, SqliteFault> {
        // Not `RETURNING`, here and elsewhere: it materialises its rows in a temporary table, and two statements take less time.
        let sql = "SELECT fence FROM redial_store";
        let last: i64 = self.conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        let sql = "UPDATE redial_store SET fence = fence + ?1";
        self.conn.prepare_cached(sql)?.execute([count])?;
        Ok(((last + 1) << QUEUE_BITS) | queue_of(queue))
    }

    /// Leases a job, if it can be read.
    fn lease(
        &mut self,
        candidate: Candidate,
        fence: i64,
        lease: Duration,
        queue: i64,
    ) -> Result<Option<Claimed>, SqliteFault> {
        let Candidate { id, priority, due, lost } = candidate;
        let sql = format!("SELECT {COLUMNS}, running.since FROM {TABLES} WHERE job.id = ?1");
        let read = |row: &rusqlite::Row<'_>| Ok((row::read(row)?, row.get::<_, Option<i64>>(21)?));
        let found = self.conn.prepare_cached(&sql)?.query_row([id], read).optional()?;
        let Some((found, since)) = found else {
            return Err(damaged(&format!("job {id} is queued, but does not exist")));
        };
        let state = if lost { State::Running } else { State::Waiting };
        if found.job.state != state && !found.is_broken() {
            let is = found.job.state.name();
            return Err(damaged(&format!("job {id} is queued, but its state is {is}")));
        }
        if !lost {
            self.make_unready(queue, priority, due, id)?;
        }
        if found.is_broken() {
            self.reject(queue, &found)?;
            return Ok(None);
        }
        let mut job = found.job;
        if lost {
            self.record_lost(&mut job, since.unwrap_or(due), queue)?;
        }
        job.progress.attempts = job.progress.attempts.saturating_add(1);
        let begun = job.begun.map_or(self.now, micros);
        let until = self.now.saturating_add(span(lease));
        let sql = "INSERT OR REPLACE INTO redial_running \
                   (id, queue, priority, due, fence, since, until, begun, attempts) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let attempts = job.progress.attempts;
        let values = params![id, queue, priority, due, fence, self.now, until, begun, attempts];
        self.conn.prepare_cached(sql)?.execute(values)?;
        (job.state, job.due, job.begun) = (State::Running, time(until), Some(time(begun)));
        let lease = JobLease { id: JobId(id), fence };
        Ok(Some(Claimed { job, lease, age: between(begun, self.now) }))
    }

    /// Records that the lease of a job ran out.
    fn record_lost(&mut self, job: &mut Job, since: i64, queue: i64) -> Result<(), SqliteFault> {
        let lost = Tried {
            number: job.progress.attempts,
            ended: job.due,
            took: between(since, micros(job.due)),
            outcome: Tried::LOST.to_owned(),
        };
        remember(&mut job.history, lost);
        job.progress.poll = false;
        let sql = "UPDATE redial_job SET history = ?2, poll = 0 WHERE id = ?1";
        let history = write_history(&job.history);
        self.conn.prepare_cached(sql)?.execute(params![job.id.0, history])?;
        self.tally(queue).lost += 1;
        Ok(())
    }

    /// Moves a job whose row is unreadable to the dead letters, so that it does not block others.
    fn reject(&mut self, queue: i64, found: &Found) -> Result<(), SqliteFault> {
        let id = found.job.id.0;
        self.conn.prepare_cached("DELETE FROM redial_running WHERE id = ?1")?.execute([id])?;
        let sql = "UPDATE redial_job SET state = 2, due = ?2, reason = 'unreadable', attempts = ?3, \
                   history = iif(?4, '[]', history) WHERE id = ?1";
        let attempts = found.job.progress.attempts;
        let values = params![id, self.now, attempts, found.history_broken];
        self.conn.prepare_cached(sql)?.execute(values)?;
        let tally = self.tally(queue);
        (tally.dead, tally.died) = (tally.dead + 1, tally.died + 1);
        match &found.job.key {
            Some(key) => self.release(queue, key, self.per_key(queue)?),
            None => Ok(()),
        }
    }
}
