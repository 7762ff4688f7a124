use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_postgres::Row;

use super::row::{signed, span};
use super::{PostgresStore, error};
use crate::durable::text;
use crate::durable::{JobLease, JobVerdict, Settled, Settlement, StoreError};

/// The bits of a fence that hold the number of the queue; those above hold the number of the claim.
const QUEUE_BITS: i64 = (1 << 24) - 1;

/// The table is vacuumed after this many settlements,
const VACUUM_EVERY: usize = 20_000;
/// unless it has more rows than this.
const VACUUM_MOST_ROWS: f32 = 500_000.0;

impl PostgresStore {
    pub(super) async fn settle_claims(
        &self,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<Settled>, StoreError> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let leases: Vec<_> = settlements.iter().map(|one| one.lease).collect();
        let leases = without_duplicates(&leases);
        let order = in_order(&leases);
        let columns = Columns::new(&settlements, &leases, &order);
        let rows = self.pool.call("settle", &columns.params()).await?;
        let mut settled = vec![Settled::Stale; leases.len()];
        taken(&rows, &order)?.for_each(|i| settled[i] = Settled::Taken);
        self.vacuum(leases.len());
        if let Some(row) = rows.first() {
            let woken: Vec<String> = row.try_get(1).map_err(|error| error::store(&error))?;
            self.changes.notify(&self.pool, &woken).await;
        }
        Ok(settled)
    }

    /// Each finished job leaves dead index entries in front of the live ones that a claim looks for. Autovacuum removes them once a minute,
    /// when there may be half a million, so we vacuum more often. Not a large table, where it would read whole indexes for a
    /// few entries. If it fails, claims are slower until autovacuum runs.
    fn vacuum(&self, settled: usize) {
        let before = self.settled.fetch_add(settled, Ordering::Relaxed);
        if before / VACUUM_EVERY == before.wrapping_add(settled) / VACUUM_EVERY {
            return;
        }
        let pool = Arc::clone(&self.pool);
        tokio::spawn(async move {
            let table = format!("{}.job", pool.schema());
            let rows = format!("select reltuples from pg_class where oid = '{table}'::regclass");
            if pool.query_value::<f32>(&rows).await.is_ok_and(|rows| rows <= VACUUM_MOST_ROWS) {
                let _ = pool.execute(&format!("vacuum (skip_locked, truncate off) {table}")).await;
            }
        });
    }

    pub(super) async fn extend_leases(
        &self,
        leases: &[JobLease],
        time: Duration,
    ) -> Result<Vec<bool>, StoreError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let leases = without_duplicates(leases);
        let order = in_order(&leases);
        let ids: Vec<_> = order.iter().map(|i| leases[*i].id.0).collect();
        let fences: Vec<_> = order.iter().map(|i| leases[*i].fence).collect();
        let rows = self.pool.call("beat", &[&ids, &fences, &span(time)]).await?;
        let mut kept = vec![false; leases.len()];
        taken(&rows, &order)?.for_each(|i| kept[i] = true);
        Ok(kept)
    }
}

/// The caller's indexes of the claims that the server accepted. The first column has their positions in `order`, from 1.
fn taken(rows: &[Row], order: &[usize]) -> Result<impl Iterator<Item = usize>, StoreError> {
    let places: Vec<i32> = match rows.first() {
        Some(row) => row.try_get(0).map_err(|error| error::store(&error))?,
        None => Vec::new(),
    };
    let index = |place: i32| order.get(usize::try_from(place - 1).ok()?).copied();
    Ok(places.into_iter().filter_map(index).collect::<Vec<_>>().into_iter())
}

/// A claim that is listed twice counts once: the second gets a fence of the same queue that belongs to no claim.
fn without_duplicates(leases: &[JobLease]) -> Vec<JobLease> {
    let mut ids = HashSet::with_capacity(leases.len());
    let one = |lease: &JobLease| match ids.insert(*lease) {
        true => *lease,
        false => JobLease { fence: lease.fence & QUEUE_BITS, ..*lease },
    };
    leases.iter().map(one).collect()
}

/// Every step locks rows in the order of their numbers, so that steps do not deadlock.
fn in_order(leases: &[JobLease]) -> Vec<usize> {
    let mut order: Vec<_> = (0..leases.len()).collect();
    order.sort_by_key(|i| leases[*i].id);
    order
}

/// Settlements by column.
#[derive(Default)]
struct Columns {
    ids: Vec<i64>,
    fences: Vec<i64>,
    verdicts: Vec<i16>,
    waits: Vec<Option<i64>>,
    steps: Vec<Option<i32>>,
    draws: Vec<Option<i64>>,
    tooks: Vec<i64>,
    outcomes: Vec<String>,
    reasons: Vec<Option<String>>,
}

impl Columns {
    fn new(settlements: &[Settlement], leases: &[JobLease], order: &[usize]) -> Self {
        let mut all = Self::default();
        for i in order {
            let one = &settlements[*i];
            let (verdict, wait, progress, reason) = match &one.verdict {
                JobVerdict::Done => (0, None, None, None),
                JobVerdict::Retry { wait, progress } => {
                    (if progress.poll { 4 } else { 1 }, Some(*wait), Some(progress), None)
                }
                JobVerdict::Postpone { wait } => (2, Some(*wait), None, None),
                JobVerdict::Dead { reason } => (3, None, None, Some(text::reason(reason))),
            };
            all.ids.push(leases[*i].id.0);
            all.fences.push(leases[*i].fence);
            all.verdicts.push(verdict);
            all.waits.push(wait.map(span));
            all.steps
                .push(progress.map(|progress| i32::try_from(progress.step).unwrap_or(i32::MAX)));
            all.draws.push(progress.map(|progress| signed(progress.drawn.as_nanos())));
            all.tooks.push(span(one.took));
            all.outcomes.push(if verdict == 0 {
                String::new()
            } else {
                text::outcome(&one.outcome)
            });
            all.reasons.push(reason);
        }
        all
    }

    fn params(&self) -> [&(dyn tokio_postgres::types::ToSql + Sync); 9] {
        [
            &self.ids,
            &self.fences,
            &self.verdicts,
            &self.waits,
            &self.steps,
            &self.draws,
            &self.tooks,
            &self.outcomes,
            &self.reasons,
        ]
    }
}
