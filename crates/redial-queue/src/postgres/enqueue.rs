use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Transaction};

use super::pool::call_statement;
use super::row::span;
use super::{PostgresStore, error};
use crate::durable::job::check_queue;
use crate::durable::text::{micros, write_headers};
use crate::durable::{Enqueued, JobId, NewJob, Start, StoreError, WhenWaiting};

/// The most bytes of one step: the server limits a value to a gigabyte.
const MOST_BYTES: usize = 512 << 20;
/// More jobs than this get the time limit of bulk steps.
const MANY: usize = 1000;
/// The latest time that is stored: the end of the year 9999.
const LAST: i64 = 253_402_300_799_000_000;

impl PostgresStore {
    /// Enqueues jobs in the caller's own transaction: they exist once it is committed, and not if it is rolled back. It must be a
    /// transaction of the store's database, and its role needs the privileges to use the store's schema.
    ///
    /// Until the transaction ends, other processes that enqueue or settle jobs with the same keys wait for it. Two transactions
    /// that enqueue keys in several steps and in different orders may deadlock; the server then rolls one of them back.
    ///
    /// # Errors
    ///
    /// The queue name or a job is invalid, or the server rejected the statement; the transaction can then only be rolled back.
    pub async fn enqueue_in(
        &self,
        transaction: &Transaction<'_>,
        queue: &str,
        jobs: Vec<NewJob>,
    ) -> Result<Vec<Enqueued>, StoreError> {
        check_queue(queue)?;
        let columns = Columns::new(jobs)?;
        let text = call_statement(self.pool.schema(), "enqueue", Columns::COUNT);
        let params = columns.params(&queue);
        let typed: Vec<_> = params.into_iter().zip(Columns::TYPES).collect();
        let wrong = |error: tokio_postgres::Error| error::store(&error);
        let rows = transaction.query_typed(&text, &typed).await.map_err(wrong)?;
        let (channel, message) = self.changes.message(queue);
        let notify = [(&channel as &(dyn ToSql + Sync), Type::TEXT), (&message, Type::TEXT)];
        transaction.query_typed("select pg_notify($1, $2)", &notify).await.map_err(wrong)?;
        read(&rows)
    }

    pub(super) async fn enqueue_jobs(
        &self,
        queue: &str,
        jobs: Vec<NewJob>,
    ) -> Result<Vec<Enqueued>, StoreError> {
        check_queue(queue)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let many = jobs.len() > MANY;
        let columns = Columns::new(jobs)?;
        let params = columns.params(&queue);
        let rows = match many {
            false => self.pool.call("enqueue", &params).await?,
            true => {
                let text = call_statement(self.pool.schema(), "enqueue", Columns::COUNT);
                let typed: Vec<_> = params.into_iter().zip(Columns::TYPES).collect();
                self.bulk(async |transaction| transaction.query_typed(&text, &typed).await).await?
            }
        };
        self.changes.notify(&self.pool, &[queue.to_owned()]).await;
        read(&rows)
    }
}

fn read(rows: &[Row]) -> Result<Vec<Enqueued>, StoreError> {
    let one = |row: &Row| {
        let id = JobId(row.try_get(1)?);
        Ok(match row.try_get::<_, i16>(0)? {
            0 => Enqueued::Added(id),
            1 => Enqueued::Replaced(id),
            2 => Enqueued::Kept(id),
            _ => Enqueued::Refused(id),
        })
    };
    rows.iter().map(one).collect::<Result<_, _>>().map_err(|error| error::store(&error))
}

/// Jobs by column: one array each.
#[derive(Default)]
struct Columns {
    payloads: Vec<Vec<u8>>,
    headers: Vec<String>,
    keys: Vec<Option<String>>,
    whens: Vec<i16>,
    priorities: Vec<i16>,
    delays: Vec<i64>,
    starts: Vec<Option<i64>>,
    policies: Vec<Option<String>>,
    idempotency_keys: Vec<String>,
}

impl Columns {
    const COUNT: usize = Self::TYPES.len();
    const TYPES: [Type; 10] = [
        Type::TEXT,
        Type::BYTEA_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT2_ARRAY,
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
    ];

    fn new(jobs: Vec<NewJob>) -> Result<Self, StoreError> {
        jobs.iter().try_for_each(NewJob::check)?;
        let bytes: usize = jobs.iter().map(|job| job.payload.len()).sum();
        if bytes > MOST_BYTES {
            let why = "the payloads exceed 512 MiB in total; enqueue fewer jobs at once";
            return Err(StoreError::Invalid(why.to_owned()));
        }
        let mut all = Self::default();
        for job in jobs {
            all.whens.push(match (&job.key, job.when_waiting) {
                (None, _) | (_, WhenWaiting::Append) => 0,
                (_, WhenWaiting::Replace) => 1,
                (_, WhenWaiting::Keep) => 2,
                (_, WhenWaiting::Refuse) => 3,
            });
            let (delay, start) = match job.start {
                Start::Now => (0, None),
                Start::After(wait) => (span(wait), None),
                Start::At(time) => (0, Some(micros(time).min(LAST))),
            };
            all.delays.push(delay);
            all.starts.push(start);
            all.headers.push(write_headers(&job.headers));
            all.payloads.push(job.payload);
            all.keys.push(job.key);
            all.priorities.push(i16::from(job.priority.level()));
            all.policies.push(job.policy);
            all.idempotency_keys.push(job.idempotency_key);
        }
        Ok(all)
    }

    fn params<'a>(&'a self, queue: &'a &'a str) -> [&'a (dyn ToSql + Sync); Self::COUNT] {
        [
            queue,
            &self.payloads,
            &self.headers,
            &self.keys,
            &self.whens,
            &self.priorities,
            &self.delays,
            &self.starts,
            &self.policies,
            &self.idempotency_keys,
        ]
    }
}
