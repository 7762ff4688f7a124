use std::collections::BTreeMap;
use std::num::NonZeroU32;

use redial_core::admit::RateRule;
use redial_core::{Rate, Span};
use redial_sqlite::{Access, SqliteFault};
use rusqlite::{Connection, OptionalExtension, params};

use crate::durable::QueueSettings;
use crate::durable::job::check_queue;

/// One request in a transaction, and the counts of queues that it changes.
pub(super) struct Step<'a> {
    pub(super) conn: &'a Connection,
    /// The store's time, the same for the whole request.
    pub(super) now: i64,
    /// Changes of the counts, by queue.
    tallies: BTreeMap<i64, Tally>,
    /// Queues in which there may be something new to claim.
    changed: Vec<i64>,
}

/// Added to the counts of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) waiting: i64,
    pub(super) dead: i64,
    pub(super) enqueued: i64,
    pub(super) done: i64,
    pub(super) retried: i64,
    pub(super) died: i64,
    pub(super) lost: i64,
    pub(super) stale: i64,
}

/// A queue and its settings.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) id: i64,
    pub(super) settings: QueueSettings,
    /// When the token bucket of its rate is full again, in nanoseconds.
    pub(super) full_at: i64,
}

impl<'a> Step<'a> {
    /// Executes a request, and writes the changed counts.
    pub(super) fn run<T>(
        access: &mut Access<'a>,
        work: impl FnOnce(&mut Self) -> Result<T, SqliteFault>,
    ) -> Result<T, SqliteFault> {
        let Access { conn, now, .. } = *access;
        let mut step = Self { conn, now, tallies: BTreeMap::new(), changed: Vec::new() };
        let value = work(&mut step)?;
        step.finish()?;
        access.changed = step.changed;
        Ok(value)
    }

    pub(super) fn tally(&mut self, queue: i64) -> &mut Tally {
        self.tallies.entry(queue).or_default()
    }

    /// There may be something new to claim.
    pub(super) fn mark_changed(&mut self, queue: i64) {
        if !self.changed.contains(&queue) {
            self.changed.push(queue);
        }
    }

    /// The queue with this name, if there is one.
    pub(super) fn find_queue(&self, name: &str) -> Result<Option<Queue>, SqliteFault> {
        Ok(find_queue(self.conn, name)?)
    }

    /// The queue with this name, created if it does not exist.
    pub(super) fn queue(&self, name: &str) -> Result<Queue, SqliteFault> {
        if let Some(queue) = self.find_queue(name)? {
            return Ok(queue);
        }
        check_queue(name)?;
        let mut insert = self.conn.prepare_cached("INSERT INTO redial_queue (name) VALUES (?1)")?;
        insert.execute([name])?;
        let id = self.conn.last_insert_rowid();
        Ok(Queue { id, settings: QueueSettings::default(), full_at: 0 })
    }

    /// How many jobs of a key may be waiting or running.
    pub(super) fn per_key(&self, queue: i64) -> Result<Option<NonZeroU32>, SqliteFault> {
        let sql = "SELECT per_key FROM redial_queue WHERE id = ?1";
        let number = self.conn.prepare_cached(sql)?.query_row([queue], |row| row.get(0))?;
        Ok(NonZeroU32::new(number))
    }

    fn finish(&mut self) -> Result<(), SqliteFault> {
        for (queue, tally) in std::mem::take(&mut self.tallies) {
            let sql = "UPDATE redial_queue SET dead = dead + ?2, enqueued = enqueued + ?3, done = done + ?4, \
                       retried = retried + ?5, died = died + ?6, lost = lost + ?7, stale = stale + ?8, waiting = waiting + ?9 \
                       WHERE id = ?1";
            let Tally { waiting, dead, enqueued, done, retried, died, lost, stale } = tally;
            let values = params![queue, dead, enqueued, done, retried, died, lost, stale, waiting];
            self.conn.prepare_cached(sql)?.execute(values)?;
            if dead > 0 {
                self.trim(queue)?;
            }
        }
        Ok(())
    }

    /// Drops the oldest dead letters that exceed the limit.
    pub(super) fn trim(&self, queue: i64) -> Result<(), SqliteFault> {
        let sql = "SELECT dead - most_dead FROM redial_queue WHERE id = ?1";
        let surplus: Option<i64> =
            self.conn.prepare_cached(sql)?.query_row([queue], |row| row.get(0))?;
        let Some(surplus) = surplus.filter(|surplus| *surplus > 0) else { return Ok(()) };
        let sql = "DELETE FROM redial_job WHERE id IN (SELECT id FROM redial_job \
                   WHERE queue = ?1 AND state = 2 ORDER BY due, id LIMIT ?2)";
        let dropped = self.conn.prepare_cached(sql)?.execute([queue, surplus])?;
        let sql = "UPDATE redial_queue SET dead = dead - ?2, dropped = dropped + ?2 WHERE id = ?1";
        self.conn.prepare_cached(sql)?.execute(params![queue, dropped])?;
        Ok(())
    }
}

/// The queue with this name, if there is one.
pub(super) fn find_queue(conn: &Connection, name: &str) -> rusqlite::Result<Option<Queue>> {
    let sql = "SELECT id, paused, rate_count, rate_per, rate_burst, full_at, per_key, most_dead \
               FROM redial_queue WHERE name = ?1";
    let read = |row: &rusqlite::Row<'_>| {
        let rate: (Option<u32>, Option<u64>, Option<u32>) = (row.get(2)?, row.get(3)?, row.get(4)?);
        let rate = match rate {
            (Some(count), Some(per), Some(burst)) => {
                let per = Span::from_nanos(per);
                Some(RateRule::new(Rate { count, per }, burst))
            }
            _ => None,
        };
        let settings = QueueSettings {
            paused: row.get(1)?,
            rate,
            per_key: NonZeroU32::new(row.get(6)?),
            most_dead: row.get(7)?,
        };
        Ok(Queue { id: row.get(0)?, settings, full_at: row.get(5)? })
    };
    conn.prepare_cached(sql)?.query_row([name], read).optional()
}
