use std::time::Duration;

use redial_core::admit::RateRule;
use redial_core::{NEVER, Nanos, Rate};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::row::{self, micros, signed, span, unsigned};
use super::{PostgresStore, error};
use crate::durable::{Claim, Claimed, Claims, JobId, Lease, Settlement, StoreError, Verdict};

/// The most jobs of one claim.
const MOST: usize = 10_000;

/// What a claim found.
struct Found {
    claims: Claims,
    /// Jobs that nobody can make sense of.
    unreadable: Vec<Lease>,
    /// The queue has a rate, and nothing was claimed.
    rated: bool,
}

impl PostgresStore {
    pub(super) async fn take(&self, claim: &Claim) -> Result<Claims, StoreError> {
        let seen = self.changes.now(&claim.queue);
        let most = i32::try_from(claim.most.min(MOST)).unwrap_or(i32::MAX);
        let lease = span(claim.lease);
        let rows = self.pool.call("claim", &[&claim.queue, &most, &lease, &None::<i32>]).await?;
        let mut found = read(&rows, &claim.queue)?;
        if found.rated {
            found = self.take_rated(claim, most, lease).await?;
        }
        if !found.unreadable.is_empty() {
            self.bury(&found.unreadable).await?;
        }
        Ok(Claims { seen, ..found.claims })
    }

    /// Claims as many as the rate allows. The queue's row is locked meanwhile, so that what two workers get is no more.
    async fn take_rated(&self, claim: &Claim, most: i32, lease: i64) -> Result<Found, StoreError> {
        let mut lent = self.pool.lend().await?;
        let connection = lent.get()?;
        let schema = self.pool.schema();
        let work = async {
            connection.client.batch_execute("begin").await?;
            let (bucket, now) = bucket(&connection.client, schema, &claim.queue).await?;
            let allowed = match &bucket {
                Some((rule, full_at)) => {
                    let wanted = u64::from(most.unsigned_abs());
                    i32::try_from(rule.take_up_to(wanted, *full_at, now).0).unwrap_or(most)
                }
                None => most,
            };
            let params: super::pool::Params<'_> = &[&claim.queue, &most, &lease, &allowed];
            let rows = connection.call(schema, "claim", params).await?;
            let taken = rows.len().saturating_sub(1) as u64;
            let after =
                bucket.map(|(rule, full_at)| (rule, rule.take_up_to(taken, full_at, now).1));
            if let Some((_, full_at)) = after.filter(|_| taken > 0) {
                let text = format!("update {schema}.queue set full_at = $1 where name = $2");
                let params: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)] =
                    &[(&signed(full_at), Type::INT8), (&claim.queue, Type::TEXT)];
                connection.client.execute_typed(&text, params).await?;
            }
            connection.client.batch_execute("commit").await?;
            let token = after.map(|(rule, full_at)| rule.next(full_at, now).saturating_sub(now));
            Ok((rows, token, allowed))
        };
        let done: Result<_, tokio_postgres::Error> = self.pool.within(work).await?;
        let (rows, token, allowed) = done.map_err(|error| error::store(&error))?;
        lent.give_back();
        let mut found = read(&rows, &claim.queue)?;
        // It took all that it was allowed to, and there is more to be had at once.
        found.claims.limited = allowed < most && found.claims.next == Some(Duration::ZERO);
        let token = token.filter(|wait| *wait < NEVER).map(Duration::from_nanos);
        found.claims.next = found.claims.next.map(|next| next.max(token.unwrap_or(next)));
        Ok(found)
    }

    /// To the dead letters with them.
    async fn bury(&self, leases: &[Lease]) -> Result<(), StoreError> {
        let outcome = "its headers or its history cannot be read";
        let one = |lease: &Lease| Settlement {
            lease: *lease,
            verdict: Verdict::Dead { reason: "unreadable".to_owned() },
            took: Duration::ZERO,
            outcome: outcome.to_owned(),
        };
        self.end(leases.iter().map(one).collect()).await.map(|_| ())
    }
}

/// The queue's bucket, if it has one, and the server's time in nanoseconds since 1970. Locks the queue's row.
async fn bucket(
    client: &Client,
    schema: &str,
    queue: &String,
) -> Result<(Option<(RateRule, Nanos)>, Nanos), tokio_postgres::Error> {
    let text = format!(
        "select rate_count, rate_per, rate_burst, full_at, \
         (extract(epoch from clock_timestamp()) * 1000000)::bigint * 1000 \
         from {schema}.queue where name = $1 for no key update"
    );
    let Some(row) = client.query_typed_opt(&text, &[(queue, Type::TEXT)]).await? else {
        return Ok((None, 0));
    };
    let rule = read_rule(&row)?;
    let full_at = unsigned(row.try_get(3)?);
    Ok((rule.map(|rule| (rule, full_at)), unsigned(row.try_get(4)?)))
}

/// The rule in the first three columns.
pub(super) fn read_rule(row: &Row) -> Result<Option<RateRule>, tokio_postgres::Error> {
    let Some(count) = row.try_get::<_, Option<i64>>(0)? else {
        return Ok(None);
    };
    let narrow = |n: i64| u32::try_from(n).unwrap_or(0);
    let per: Option<i64> = row.try_get(1)?;
    let burst: Option<i64> = row.try_get(2)?;
    let rate = Rate { count: narrow(count), per: unsigned(per.unwrap_or(0)) };
    Ok(Some(RateRule::new(rate, narrow(burst.unwrap_or(0)))))
}

fn read(rows: &[Row], queue: &str) -> Result<Found, StoreError> {
    let one = |row: &Row, found: &mut Found| {
        let Some(id) = row.try_get::<_, Option<i64>>("id")? else {
            found.rated = row.try_get::<_, Option<i32>>("status")? == Some(1);
            found.claims.next = row.try_get::<_, Option<i64>>("micros")?.map(micros);
            return Ok(());
        };
        let lease = Lease { id: JobId(id), fence: row.try_get("fence")? };
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
        .map_err(|error: tokio_postgres::Error| error::store(&error))?;
    Ok(found)
}
