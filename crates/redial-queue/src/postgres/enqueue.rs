use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Transaction};

use super::pool::calling;
use super::row::span;
use super::{PostgresStore, error};
use crate::durable::job::check_queue;
use crate::durable::text::{micros, write_headers};
use crate::durable::{Enqueued, JobId, NewJob, Start, StoreError, WhenWaiting};

/// What one step can carry: the server has a limit of a gigabyte for a value.
const MOST_BYTES: usize = 512 << 20;
/// So many jobs at once may take their time.
const MANY: usize = 1000;
/// The last moment that we ask the server for, at the end of the year 9999.
const LAST: i64 = 253_402_300_799_000_000;

impl PostgresStore {
    /// Puts jobs into a queue as a part of the caller's own transaction: they are there when it is committed, and never were when
    /// it is rolled back. The database must be the store's, and the role must be allowed to use its schema.
    ///
    /// Until the transaction ends, others who enqueue or settle jobs with the same keys wait for it. Two transactions that
    /// enqueue keys in several steps, each in another order, may deadlock; the server ends one of them.
    ///
    /// # Errors
    ///
    /// The name of the queue or a job is not possible, or the server refused; then the transaction can only be rolled back.
    pub async fn enqueue_in(
        &self,
        transaction: &Transaction<'_>,
        queue: &str,
        jobs: Vec<NewJob>,
    ) -> Result<Vec<Enqueued>, StoreError> {
        check_queue(queue)?;
        let columns = Columns::new(jobs)?;
        let text = calling(self.pool.schema(), "enqueue", Columns::COUNT);
        let params = columns.params(&queue);
        let typed: Vec<_> = params.into_iter().zip(Columns::TYPES).collect();
        let wrong = |error: tokio_postgres::Error| error::store(&error);
        let rows = transaction.query_typed(&text, &typed).await.map_err(wrong)?;
        let (channel, message) = self.changes.message(queue);
        let tell = [(&channel as &(dyn ToSql + Sync), Type::TEXT), (&message, Type::TEXT)];
        transaction.query_typed("select pg_notify($1, $2)", &tell).await.map_err(wrong)?;
        read(&rows)
    }

    pub(super) async fn put(
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
                let text = calling(self.pool.schema(), "enqueue", Columns::COUNT);
                let typed: Vec<_> = params.into_iter().zip(Columns::TYPES).collect();
                self.bulk(async |client, _| client.query_typed(&text, &typed).await).await?
            }
        };
        self.changes.tell(&self.pool, &[queue.to_owned()]).await;
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

/// Jobs, by column: one array each, however many there are.
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
            let why =
                "the payloads of all jobs together may have at most 512 MiB; enqueue fewer at once";
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
