use std::time::Duration;

use redial_core::admit::RateRule;
use redial_core::{Rate, Span, Time};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, Transaction};

use super::pool::{Connection, Params};
use super::row::{self, micros, signed, span, unsigned};
use super::{PostgresStore, error};
use crate::durable::{Claim, Claimed, Claims, JobId, JobLease, JobVerdict, Settlement, StoreError};

/// The maximum number of jobs in one claim.
const MAX_CLAIMED_JOBS: usize = 10_000;

/// The result of a claim.
struct Found {
    claims: Claims,
    unreadable: Vec<JobLease>,
    /// Nothing was claimed because the queue has a rate.
    rated: bool,
}

impl PostgresStore {
    pub(super) async fn claim_jobs(&self, claim: &Claim) -> Result<Claims, StoreError> {
        let seen = self.changes.now(&claim.queue);
        let most = i32::try_from(claim.most.min(MAX_CLAIMED_JOBS)).unwrap_or(i32::MAX);
        let lease = span(claim.lease);
        let rows = self.pool.call("claim", &[&claim.queue, &most, &lease, &None::<i32>]).await?;
        let mut found = read(&rows, &claim.queue)?;
        if found.rated {
            found = self.claim_rated(claim, most, lease).await?;
        }
        if !found.unreadable.is_empty() {
            self.reject(&found.unreadable).await?;
        }
        Ok(Claims { seen, ..found.claims })
    }

    /// Claims as many as the rate allows. The queue's row is locked meanwhile, so that workers together stay within the rate.
    async fn claim_rated(&self, claim: &Claim, most: i32, lease: i64) -> Result<Found, StoreError> {
        let schema = self.pool.schema();
        let step = async |connection: &mut Connection| {
            let statement = connection.prepare(schema, "claim", 4).await?;
            let transaction = connection.client.transaction().await?;
            let (bucket, now) = bucket(&transaction, schema, &claim.queue).await?;
            let allowed = match &bucket {
                Some((rule, full_at)) => {
                    let wanted = u64::from(most.unsigned_abs());
                    i32::try_from(rule.take_up_to(wanted, *full_at, now).0).unwrap_or(most)
                }
                None => most,
            };
            let params: Params<'_> = &[&claim.queue, &most, &lease, &allowed];
            let rows = transaction.query(&statement, params).await?;
            let taken = rows.len().saturating_sub(1) as u64;
            let after =
                bucket.map(|(rule, full_at)| (rule, rule.take_up_to(taken, full_at, now).1));
            if let Some((_, full_at)) = after.filter(|_| taken > 0) {
                let text = format!("update {schema}.queue set full_at = $1 where name = $2");
                let full_at = signed(full_at.as_nanos());
                let params: [(&(dyn ToSql + Sync), Type); 2] =
                    [(&full_at, Type::INT8), (&claim.queue, Type::TEXT)];
                transaction.execute_typed(&text, &params).await?;
            }
            transaction.commit().await?;
            let token = after.and_then(|(rule, full_at)| Some(rule.next(full_at, now)? - now));
            Ok::<_, Error>((rows, token, allowed))
        };
        let (rows, token, allowed) = self.pool.run(step).await?;
        let mut found = read(&rows, &claim.queue)?;
        // The rate was used up, and more jobs are due.
        found.claims.limited = allowed < most && found.claims.next == Some(Duration::ZERO);
        let token = token.map(Duration::from);
        found.claims.next = found.claims.next.map(|next| next.max(token.unwrap_or(next)));
        Ok(found)
    }

    /// Moves unreadable jobs to the dead letters.
    async fn reject(&self, leases: &[JobLease]) -> Result<(), StoreError> {
        let outcome = "its headers or its history cannot be read";
        let one = |lease: &JobLease| Settlement {
            lease: *lease,
            verdict: JobVerdict::Dead { reason: "unreadable".to_owned() },
            took: Duration::ZERO,
            outcome: outcome.to_owned(),
        };
        self.settle_claims(leases.iter().map(one).collect()).await.map(|_| ())
    }
}

/// The queue's token bucket, if it has one, and the server's time in nanoseconds since 1970. Locks the queue's row.
async fn bucket(
    transaction: &Transaction<'_>,
    schema: &str,
    queue: &String,
) -> Result<(Option<(RateRule, Time)>, Time), Error> {
    let text = format!(
        "select rate_count, rate_per, rate_burst, full_at, \
         (extract(epoch from clock_timestamp()) * 1000000)::bigint * 1000 \
         from {schema}.queue where name = $1 for no key update"
    );
    let Some(row) = transaction.query_typed_opt(&text, &[(queue, Type::TEXT)]).await? else {
        return Ok((None, Time::ZERO));
    };
    let rule = read_rule(&row)?;
    let time = |column| Ok::<_, Error>(Time::from_nanos(unsigned(row.try_get(column)?)));
    let full_at = time(3)?;
    Ok((rule.map(|rule| (rule, full_at)), time(4)?))
}

/// The rule in the first three columns.
pub(super) fn read_rule(row: &Row) -> Result<Option<RateRule>, Error> {
    let Some(count) = row.try_get::<_, Option<i64>>(0)? else {
        return Ok(None);
    };
    let narrow = |n: i64| u32::try_from(n).unwrap_or(0);
    let per: Option<i64> = row.try_get(1)?;
    let burst: Option<i64> = row.try_get(2)?;
    let rate = Rate { count: narrow(count), per: Span::from_nanos(unsigned(per.unwrap_or(0))) };
    Ok(Some(RateRule::new(rate, narrow(burst.unwrap_or(0)))))
}

fn read(rows: &[Row], queue: &str) -> Result<Found, StoreError> {
    let one = |row: &Row, found: &mut Found| {
        let Some(id) = row.try_get::<_, Option<i64>>("id")? else {
            found.rated = row.try_get::<_, Option<i32>>("status")? == Some(1);
            found.claims.next = row.try_get::<_, Option<i64>>("micros")?.map(micros);
            return Ok(());
        };
        let lease = JobLease { id: JobId(id), fence: row.try_get("fence")? };
        match row::read(row, queue.to_owned()) {
            Ok((job, true)) => {
                let age = micros(row.try_get("micros")?);
                found.claims.jobs.push(Claimed { job, lease, age });
            }
            _ => found.unreadable.push(lease),
        }
        Ok(())
    };
    let mut found = Found { claims: Claims::default(), unreadable: Vec::new(), rated: false };
    rows.iter()
        .try_for_each(|row| one(row, &mut found))
        .map_err(|error: Error| error::store(&error))?;
    Ok(found)
}
