use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};

use super::claim::read_rule;
use super::row::{self, COLUMNS, micros, number_of, signed, span, unsigned};
use super::{PostgresStore, error};
use crate::durable::job::check_queue;
use crate::durable::text::write_headers;
use crate::durable::{Counts, Edit, Filter, Job, JobId, Redrive, Settings, State, StoreError};

/// How long a step with any number of jobs may take.
const BULK: Duration = Duration::from_secs(600);

impl PostgresStore {
    pub(super) async fn one(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        let filter = Filter { ids: vec![id], most: 1, ..Filter::default() };
        Ok(self.many(&filter).await?.pop())
    }

    pub(super) async fn many(&self, filter: &Filter) -> Result<Vec<Job>, StoreError> {
        check(filter)?;
        let columns = format!("{COLUMNS}, q.name");
        let rows = self.bulk(async |client, schema| find(client, schema, &columns, filter).await);
        let rows = rows.await?;
        let one = |row: &Row| row::read(row, row.try_get("name")?).map(|(job, _)| job);
        rows.iter().map(one).collect::<Result<_, Error>>().map_err(|error| error::store(&error))
    }

    pub(super) async fn change(&self, id: JobId, edit: Edit) -> Result<bool, StoreError> {
        edit.check()?;
        let text = format!(
            "update {}.job set payload = coalesce($2, payload), headers = coalesce($3::text::json, headers), \
             policy = case when $4 then $5 else policy end, priority = coalesce($6, priority) \
             where id = $1 and state <> 2",
            self.pool.schema()
        );
        let headers = edit.headers.as_deref().map(write_headers);
        let (with_policy, policy) = (edit.policy.is_some(), edit.policy.flatten());
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
            self.bulk(async |client, _| client.execute_typed(&text, &params).await).await?;
        Ok(changed > 0)
    }

    pub(super) async fn discard(&self, filter: &Filter) -> Result<u64, StoreError> {
        let state = filter.state.map(number_of);
        self.each(filter, "remove_jobs($1, $2)", &[(&state, Type::INT2)]).await
    }

    pub(super) async fn again(&self, filter: &Filter, redrive: Redrive) -> Result<u64, StoreError> {
        if filter.state.is_some_and(|state| state != State::Dead) {
            return Ok(0);
        }
        let filter = Filter { state: Some(State::Dead), ..filter.clone() };
        let (after, apart) = (span(redrive.after), span(redrive.apart));
        let times: [(&(dyn ToSql + Sync), Type); 2] = [(&after, Type::INT8), (&apart, Type::INT8)];
        self.each(&filter, "redrive_jobs($1, $2, $3)", &times).await
    }

    /// Finds jobs and does something to those of them that are still what they were.
    async fn each(
        &self,
        filter: &Filter,
        call: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<u64, StoreError> {
        check(filter)?;
        let work = async |client: &Client, schema: &str| {
            let found = find(client, schema, "j.id", filter).await?;
            let ids = found.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
            let mut all: Vec<(&(dyn ToSql + Sync), Type)> = vec![(&ids, Type::INT8_ARRAY)];
            all.extend(params.iter().cloned());
            let row =
                client.query_typed_one(&format!("select * from {schema}.{call}"), &all).await?;
            Ok((row.try_get::<_, i64>(0)?, row.try_get::<_, Vec<String>>(1)?))
        };
        let (count, woken) = self.bulk(work).await?;
        self.changes.tell(&self.pool, &woken).await;
        Ok(unsigned(count))
    }

    pub(super) async fn server_time(&self) -> Result<SystemTime, StoreError> {
        let text = "select clock_timestamp()";
        let rows = self.bulk(async |client, _| client.query_typed(text, &[]).await).await?;
        let time = rows.first().map(|row| row.try_get(0)).transpose();
        let silent = || StoreError::Unavailable("the server did not tell the time".into());
        time.map_err(|error| error::store(&error))?.ok_or_else(silent)
    }

    pub(super) async fn names(&self) -> Result<Vec<String>, StoreError> {
        let text =
            format!("select name from {}.queue order by name collate \"C\"", self.pool.schema());
        let rows = self.bulk(async |client, _| client.query_typed(&text, &[]).await).await?;
        let names = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>();
        names.map_err(|error| error::store(&error))
    }

    pub(super) async fn rules(&self, queue: &str) -> Result<Settings, StoreError> {
        let text = format!(
            "select rate_count, rate_per, rate_burst, paused, per_key, most_dead from {}.queue where name = $1",
            self.pool.schema()
        );
        let read = async |client: &Client, _: &str| {
            let Some(row) = client.query_typed_opt(&text, &[(&queue, Type::TEXT)]).await? else {
                return Ok(Settings::default());
            };
            Ok(Settings {
                paused: row.try_get(3)?,
                rate: read_rule(&row)?,
                per_key: u32::try_from(row.try_get::<_, i64>(4)?).unwrap_or(u32::MAX),
                most_dead: row.try_get::<_, Option<i64>>(5)?.map(unsigned),
            })
        };
        self.bulk(read).await
    }

    pub(super) async fn rule(&self, queue: &str, settings: &Settings) -> Result<(), StoreError> {
        check_queue(queue)?;
        let rate = settings.rate;
        let count = rate.map(|rule| i64::from(rule.rate.count));
        let per = rate.map(|rule| signed(rule.rate.per));
        let burst = rate.map(|rule| i64::from(rule.burst));
        let (per_key, most_dead) = (i64::from(settings.per_key), settings.most_dead.map(signed));
        let params: super::pool::Params<'_> =
            &[&queue, &settings.paused, &count, &per, &burst, &per_key, &most_dead];
        self.pool.call("change_queue", params).await?;
        self.changes.tell(&self.pool, &[queue.to_owned()]).await;
        Ok(())
    }

    pub(super) async fn tally(&self, queue: &str) -> Result<Counts, StoreError> {
        let read = async |client: &Client, schema: &str| {
            let text = format!("select * from {schema}.counts($1)");
            let Some(row) = client.query_typed_opt(&text, &[(&queue, Type::TEXT)]).await? else {
                return Ok(Counts::default());
            };
            let count = |place: usize| row.try_get::<_, Option<i64>>(place).map(|n| n.unwrap_or(0));
            let n = |place| count(place).map(unsigned);
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

    /// How long the job has been due that is so longest: the first of each level is at the head of an index.
    pub(super) async fn first_due(&self, queue: &str) -> Result<Duration, StoreError> {
        let mut lent = self.pool.lend().await?;
        let (client, schema) = (&lent.get()?.client, self.pool.schema());
        let text = format!(
            "select greatest(0, (extract(epoch from clock_timestamp() - min(f.due)) * 1000000)::bigint) \
             from {schema}.queue q cross join generate_series(0, 7) p cross join lateral ( \
                 select j.due from {schema}.job j \
                 where j.queue = q.number and j.priority = p and j.state = 0 order by j.due, j.id limit 1 \
             ) f where q.name = $1"
        );
        let row = self.pool.within(client.query_typed_one(&text, &[(&queue, Type::TEXT)])).await?;
        let read = row.and_then(|row| row.try_get::<_, Option<i64>>(0));
        let waited = read.map_err(|error| error::store(&error))?;
        lent.give_back();
        Ok(waited.map(micros).unwrap_or_default())
    }

    /// A transaction that may take its time.
    pub(super) async fn bulk<T>(
        &self,
        work: impl AsyncFnOnce(&Client, &str) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let mut lent = self.pool.lend().await?;
        let connection = lent.get()?;
        let (client, schema) = (&connection.client, self.pool.schema());
        let begin = format!("begin; set local statement_timeout = {}", BULK.as_millis());
        let all = async {
            client.batch_execute(&begin).await?;
            let done = work(client, schema).await?;
            client.batch_execute("commit").await?;
            Ok(done)
        };
        let done = self.pool.within_time(BULK, all).await?;
        let done = done.map_err(|error| error::store(&error))?;
        lent.give_back();
        Ok(done)
    }
}

fn check(filter: &Filter) -> Result<(), StoreError> {
    let texts = [&filter.queue, &filter.key, &filter.reason, &filter.outcome];
    if texts.into_iter().flatten().any(|text| text.contains('\0')) {
        return Err(StoreError::Invalid("a filter's text has a NUL, which nothing has".to_owned()));
    }
    Ok(())
}

/// The jobs that a filter chooses.
async fn find(
    client: &Client,
    schema: &str,
    columns: &str,
    filter: &Filter,
) -> Result<Vec<Row>, Error> {
    let number = match &filter.queue {
        None => None,
        Some(name) => {
            let text = format!("select number from {schema}.queue where name = $1");
            match client.query_typed_opt(&text, &[(name, Type::TEXT)]).await? {
                Some(row) => Some(row.try_get(0)?),
                None => return Ok(Vec::new()),
            }
        }
    };
    let query = Query::new(schema, columns, number, filter);
    let params = query.params.iter();
    let typed = params.map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()));
    client.query_typed(&query.text, &typed.collect::<Vec<_>>()).await
}

/// A filter as a statement. Only what is said is in it, so that the server can choose the index for it.
struct Query {
    text: String,
    params: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
}

impl Query {
    /// The number of the queue is in the text, so that the server knows whether it has few of all jobs; and without a state all
    /// states are, as each has an index of its own.
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
