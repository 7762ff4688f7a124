//! How many jobs match a filter, and what they have in common.

use tokio_postgres::{Error, Row, Transaction};

use super::manage::{check, find_in};
use super::row::unsigned;
use super::{PostgresStore, error};
use crate::durable::{Filter, Group, JobId, StoreError};

impl PostgresStore {
    pub(super) async fn count_jobs(&self, filter: &Filter) -> Result<u64, StoreError> {
        let rows = self.about(filter, "j.id", |found| format!("select count(*) from ({found}) f"));
        let read = |row: &Row| row.try_get(0).map(unsigned);
        // No row: the queue does not exist.
        rows.await?.first().map_or(Ok(0), read).map_err(|error| error::store(&error))
    }

    pub(super) async fn group_jobs(
        &self,
        filter: &Filter,
        most: usize,
    ) -> Result<Vec<Group>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let columns = "j.reason, j.history -> -1 ->> 3 as outcome, j.due, j.id";
        let rows = self.about(filter, columns, |found| {
            format!(
                "select reason, outcome, count(*), min(due), max(due), min(id) from ({found}) f \
                 group by reason, outcome order by count(*) desc, min(id) limit {most}"
            )
        });
        let groups = rows.await?.iter().map(read).collect::<Result<_, Error>>();
        groups.map_err(|error| error::store(&error))
    }

    /// Runs a query about the jobs that match a filter.
    async fn about(
        &self,
        filter: &Filter,
        columns: &str,
        query: impl Fn(&str) -> String,
    ) -> Result<Vec<Row>, StoreError> {
        check(filter)?;
        let schema = self.pool.schema();
        let work = async |transaction: &Transaction<'_>| {
            find_in(transaction, schema, columns, filter, query).await
        };
        self.bulk(work).await
    }
}

fn read(row: &Row) -> Result<Group, Error> {
    Ok(Group {
        reason: row.try_get(0)?,
        outcome: row.try_get(1)?,
        jobs: unsigned(row.try_get(2)?),
        oldest: row.try_get(3)?,
        newest: row.try_get(4)?,
        first: JobId(row.try_get(5)?),
    })
}
