use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, Transaction};

use super::claim::read_rule;
use super::pool::{Connection, Params};
use super::row::{self, COLUMNS, micros, number_of, signed, span, unsigned};
use super::{PostgresStore, error};
use crate::durable::job::check_queue;
use crate::durable::text::write_headers;
use crate::durable::{
    Counts, Edit, Filter, Job, JobId, NewPolicy, QueueSettings, Redrive, State, StoreError,
};

/// The time limit of a step on any number of jobs.
const BULK: Duration = Duration::from_secs(600);

impl PostgresStore {
    pub(super) async fn get_job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        let filter = Filter { ids: vec![id], most: 1, ..Filter::default() };
        Ok(self.list_jobs(&filter).await?.pop())
    }

    pub(super) async fn list_jobs(&self, filter: &Filter) -> Result<Vec<Job>, StoreError> {
        check(filter)?;
        let columns = format!("{COLUMNS}, q.name");
        let schema = self.pool.schema();
        let rows = self.bulk(async |transaction| find(transaction, schema, &columns, filter).await);
        let rows = rows.await?;
        let one = |row: &Row| row::read(row, row.try_get("name")?).map(|(job, _)| job);
        rows.iter().map(one).collect::<Result<_, Error>>().map_err(|error| error::store(&error))
    }

    pub(super) async fn edit_job(&self, id: JobId, edit: Edit) -> Result<bool, StoreError> {
        edit.check()?;
        let text = format!(
            "update {}.job set payload = coalesce($2, payload), headers = coalesce($3::text::json, headers), \
             policy = case when $4 then $5 else policy end, priority = coalesce($6, priority) \
             where id = $1 and state <> 2",
            self.pool.schema()
        );
        let headers = edit.headers.as_deref().map(write_headers);
        let (with_policy, policy) =
            (edit.policy.is_some(), edit.policy.and_then(NewPolicy::into_name));
        let priority = edit.priority.map(|priority| i16::from(priority.level()));
        let params: [(&(dyn ToSql + Sync), Type); 6] = [
            (&id.0, Type::INT8),
            (&edit.payload, Type::BYTEA),
            (&headers, Type::TEXT),
            (&with_policy, Type::BOOL),
            (&policy, Type::TEXT),
            (&priority, Type::INT2),
        ];
        let changed =
            self.bulk(async |transaction| transaction.execute_typed(&text, &params).await).await?;
        Ok(changed > 0)
    }

    pub(super) async fn remove_jobs(&self, filter: &Filter) -> Result<u64, StoreError> {
        let state = filter.state.map(number_of);
        self.each(filter, "remove_jobs($1, $2)", &[(&state, Type::INT2)]).await
    }

    pub(super) async fn redrive_jobs(
        &self,
        filter: &Filter,
        redrive: Redrive,
    ) -> Result<u64, StoreError> {
        if filter.state.is_some_and(|state| state != State::Dead) {
            return Ok(0);
        }
        let filter = Filter { state: Some(State::Dead), ..filter.clone() };
        let (after, apart) = (span(redrive.after), span(redrive.apart));
        let times: [(&(dyn ToSql + Sync), Type); 2] = [(&after, Type::INT8), (&apart, Type::INT8)];
        self.each(&filter, "redrive_jobs($1, $2, $3)", &times).await
    }

    /// Finds jobs and calls a function with their numbers, which skips jobs that have changed meanwhile.
    async fn each(
        &self,
        filter: &Filter,
        call: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<u64, StoreError> {
        check(filter)?;
        let schema = self.pool.schema();
        let work = async |transaction: &Transaction<'_>| {
            let found = find(transaction, schema, "j.id", filter).await?;
            let ids = found.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
            let mut all: Vec<(&(dyn ToSql + Sync), Type)> = vec![(&ids, Type::INT8_ARRAY)];
            all.extend(params.iter().cloned());
            let text = format!("select * from {schema}.{call}");
            let row = transaction.query_typed_one(&text, &all).await?;
            Ok((row.try_get::<_, i64>(0)?, row.try_get::<_, Vec<String>>(1)?))
        };
        let (count, woken) = self.bulk(work).await?;
        self.changes.notify(&self.pool, &woken).await;
        Ok(unsigned(count))
    }

    pub(super) async fn server_time(&self) -> Result<SystemTime, StoreError> {
        self.pool.query_value("select clock_timestamp()").await
    }

    pub(super) async fn queue_names(&self) -> Result<Vec<String>, StoreError> {
        let text =
            format!("select name from {}.queue order by name collate \"C\"", self.pool.schema());
        let query = async |transaction: &Transaction<'_>| transaction.query_typed(&text, &[]).await;
        let rows = self.bulk(query).await?;
        let names = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>();
        names.map_err(|error| error::store(&error))
    }

    pub(super) async fn queue_settings(&self, queue: &str) -> Result<QueueSettings, StoreError> {
        let text = format!(
            "select rate_count, rate_per, rate_burst, paused, per_key, most_dead from {}.queue where name = $1",
            self.pool.schema()
        );
        let read = async |transaction: &Transaction<'_>| {
            let params = [(&queue as &(dyn ToSql + Sync), Type::TEXT)];
            let Some(row) = transaction.query_typed_opt(&text, &params).await? else {
                return Ok(QueueSettings::default());
            };
            Ok(QueueSettings {
                paused: row.try_get(3)?,
                rate: read_rule(&row)?,
                per_key: NonZeroU32::new(
                    u32::try_from(row.try_get::<_, i64>(4)?).unwrap_or(u32::MAX),
                ),
                most_dead: row.try_get::<_, Option<i64>>(5)?.map(unsigned),
            })
        };
        self.bulk(read).await
    }

    pub(super) async fn change_queue(
        &self,
        queue: &str,
        settings: &QueueSettings,
    ) -> Result<(), StoreError> {
        check_queue(queue)?;
        let rate = settings.rate;
        let count = rate.map(|rule| i64::from(rule.rate.count));
        let per = rate.map(|rule| signed(rule.rate.per.as_nanos()));
        let burst = rate.map(|rule| i64::from(rule.burst));
        let (per_key, most_dead) =
            (i64::from(settings.per_key_number()), settings.most_dead.map(signed));
        let params: Params<'_> =
            &[&queue, &settings.paused, &count, &per, &burst, &per_key, &most_dead];
        self.pool.call("change_queue", params).await?;
        self.changes.notify(&self.pool, &[queue.to_owned()]).await;
        Ok(())
    }

    pub(super) async fn queue_counts(&self, queue: &str) -> Result<Counts, StoreError> {
        let text = format!("select * from {}.counts($1)", self.pool.schema());
        let read = async |transaction: &Transaction<'_>| {
            let params = [(&queue as &(dyn ToSql + Sync), Type::TEXT)];
            let Some(row) = transaction.query_typed_opt(&text, &params).await? else {
                return Ok(Counts::default());
            };
            let count = |column: usize| {
                row.try_get::<_, Option<i64>>(column).map(Option::unwrap_or_default)
            };
            let n = |column| count(column).map(unsigned);
            Ok(Counts {
                due: n(0)?,
                later: n(1)?,
                held: n(2)?,
                running: n(3)?,
                dead: n(4)?,
                oldest: micros(count(5)?),
                enqueued: n(6)?,
                done: n(7)?,
                retried: n(8)?,
                died: n(9)?,
                lost: n(10)?,
                stale: n(11)?,
                dropped: n(12)?,
            })
        };
        self.bulk(read).await
    }

    /// The age of the oldest due job, from the first index entry of each priority.
    pub(super) async fn oldest_due(&self, queue: &str) -> Result<Duration, StoreError> {
        let schema = self.pool.schema();
        let text = format!(
            "select greatest(0, (extract(epoch from clock_timestamp() - min(f.due)) * 1000000)::bigint) \
             from {schema}.queue q cross join generate_series(0, 7) p cross join lateral ( \
                 select j.due from {schema}.job j \
                 where j.queue = q.number and j.priority = p and j.state = 0 order by j.due, j.id limit 1 \
             ) f where q.name = $1"
        );
        let read = async |connection: &mut Connection| {
            let row = connection.client.query_typed_one(&text, &[(&queue, Type::TEXT)]).await?;
            row.try_get::<_, Option<i64>>(0)
        };
        Ok(self.pool.run(read).await?.map(micros).unwrap_or_default())
    }

    /// Runs a transaction with the time limit of bulk steps.
    pub(super) async fn bulk<T>(
        &self,
        work: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let limit = format!("set local statement_timeout = {}", BULK.as_millis());
        let step = async |connection: &mut Connection| {
            let transaction = connection.client.transaction().await?;
            transaction.batch_execute(&limit).await?;
            let done = work(&transaction).await?;
            transaction.commit().await?;
            Ok::<_, Error>(done)
        };
        self.pool.run_within(BULK, step).await
    }
}

pub(super) fn check(filter: &Filter) -> Result<(), StoreError> {
    let texts = [&filter.queue, &filter.key, &filter.reason, &filter.outcome];
    if texts.into_iter().flatten().any(|text| text.contains('\0')) {
        return Err(StoreError::Invalid(
            "a filter contains a NUL character, which no stored text has".to_owned(),
        ));
    }
    Ok(())
}

/// The jobs that match a filter.
async fn find(
    transaction: &Transaction<'_>,
    schema: &str,
    columns: &str,
    filter: &Filter,
) -> Result<Vec<Row>, Error> {
    find_in(transaction, schema, columns, filter, str::to_owned).await
}

/// The rows of a query about the jobs that match a filter, which is made around the statement that finds them.
pub(super) async fn find_in(
    transaction: &Transaction<'_>,
    schema: &str,
    columns: &str,
    filter: &Filter,
    around: impl Fn(&str) -> String,
) -> Result<Vec<Row>, Error> {
    let number = match &filter.queue {
        None => None,
        Some(name) => {
            let text = format!("select number from {schema}.queue where name = $1");
            match transaction.query_typed_opt(&text, &[(name, Type::TEXT)]).await? {
                Some(row) => Some(row.try_get(0)?),
                None => return Ok(Vec::new()),
            }
        }
    };
    let query = Query::new(schema, columns, number, filter);
    let params = query.params.iter();
    let typed = params.map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()));
    transaction.query_typed(&around(&query.text), &typed.collect::<Vec<_>>()).await
}

/// A filter as a statement. It contains only the conditions that are set, so that the server can choose an index for them.
struct Query {
    text: String,
    params: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
}

impl Query {
    /// The number of the queue is a literal, so that the planner knows how many of all jobs the queue has. Without a state, all
    /// states are listed, because each has an index of its own.
    fn new(schema: &str, columns: &str, queue: Option<i32>, filter: &Filter) -> Self {
        let from = format!("from {schema}.job j join {schema}.queue q on q.number = j.queue");
        let mut this =
            Self { text: format!("select {columns} {from} where true"), params: Vec::new() };
        if let Some(number) = queue {
            let _ = write!(this.text, " and j.queue = {number}");
        }
        this.text += &match filter.state {
            Some(state) => format!(" and j.state = {}", number_of(state)),
            None if queue.is_some() && filter.ids.is_empty() && filter.key.is_none() => {
                " and (j.state = 0 or j.state = 2 or j.state = 3 or j.state = 1 and j.key is not null)"
                    .to_owned()
            }
            None => String::new(),
        };
        if !filter.ids.is_empty() {
            let ids: Vec<_> = filter.ids.iter().map(|id| id.0).collect();
            this.and("j.id = any($)", ids, Type::INT8_ARRAY);
        }
        if let Some(key) = &filter.key {
            this.and("j.key = $", key.clone(), Type::TEXT);
        }
        if let Some(reason) = &filter.reason {
            this.and("j.reason = $", reason.clone(), Type::TEXT);
        }
        if let Some(outcome) = &filter.outcome {
            this.and("position($ in j.history -> -1 ->> 3) > 0", outcome.clone(), Type::TEXT);
        }
        if let Some(older) = filter.older {
            let old = "j.due <= clock_timestamp() - $ * interval '1 microsecond'";
            this.and(old, span(older), Type::INT8);
        }
        if let Some(after) = filter.after {
            this.and("j.id > $", after.0, Type::INT8);
        }
        let most = i64::try_from(filter.most).unwrap_or(i64::MAX);
        let _ = write!(this.text, " order by j.id limit {most}");
        this
    }

    fn and(&mut self, condition: &str, value: impl ToSql + Sync + Send + 'static, kind: Type) {
        self.params.push((Box::new(value), kind));
        let number = format!("${}", self.params.len());
        let _ = write!(self.text, " and {}", condition.replace('$', &number));
    }
}
