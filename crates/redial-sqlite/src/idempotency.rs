//! A server that restarts must still know which requests it has executed. A file survives the restart, and several processes of
//! one machine can share it.

use bytes::Bytes;
use redial::http::server::idempotency::{
    Begun, IdempotencyStore, IdempotencyStoreError, Interrupted, KeyClaim, KeyTerms,
};
use rusqlite::{OptionalExtension, params};

use crate::access::Access;
use crate::fault::SqliteFault;
use crate::file::SqliteFile;
use crate::store_time::span;

/// The number of expired records removed in one step. Each step adds at most one.
const SWEEP: u32 = 16;

/// A record that has not expired.
struct Record {
    fingerprint: Vec<u8>,
    owner: Vec<u8>,
    lease: i64,
    response: Option<Vec<u8>>,
}

/// Whether a claim still owns its key.
enum Ownership {
    Held,
    Lost,
}

/// Keeps keys and responses for as long as the terms say. Only the disk limits their number. When the store is
/// unavailable, nothing is executed.
impl IdempotencyStore for SqliteFile {
    async fn begin(
        &self,
        claim: &KeyClaim,
        terms: &KeyTerms,
    ) -> Result<Begun, IdempotencyStoreError> {
        let (claim, terms) = (*claim, *terms);
        self.write(move |access| access.begin(&claim, &terms)).await.map_err(unavailable)
    }

    async fn renew(&self, claim: &KeyClaim, terms: &KeyTerms) -> Result<(), IdempotencyStoreError> {
        let (claim, terms) = (*claim, *terms);
        owned(self.write(move |access| access.renew(&claim, &terms)).await)
    }

    async fn finish(
        &self,
        claim: &KeyClaim,
        response: Bytes,
        terms: &KeyTerms,
    ) -> Result<(), IdempotencyStoreError> {
        let (claim, terms) = (*claim, *terms);
        owned(self.write(move |access| access.finish_with(&claim, &response, &terms)).await)
    }

    /// Requests are executed in order, so an earlier `begin` of the same claim is done by then, or dropped.
    async fn release(&self, claim: &KeyClaim) -> Result<(), IdempotencyStoreError> {
        let claim = *claim;
        self.write(move |access| access.forget(&claim)).await.map_err(unavailable)
    }
}

fn unavailable(error: SqliteFault) -> IdempotencyStoreError {
    IdempotencyStoreError::Unavailable(Box::new(error))
}

fn owned(reply: Result<Ownership, SqliteFault>) -> Result<(), IdempotencyStoreError> {
    match reply.map_err(unavailable)? {
        Ownership::Held => Ok(()),
        Ownership::Lost => Err(IdempotencyStoreError::Lost),
    }
}

impl Access<'_> {
    fn begin(&mut self, claim: &KeyClaim, terms: &KeyTerms) -> Result<Begun, SqliteFault> {
        let begun = match self.record(claim)? {
            None => Begun::Started,
            Some(record) => record.outcome(claim, terms, self.now),
        };
        if matches!(begun, Begun::Started | Begun::Resumed) {
            self.write_running(claim, terms)?;
        }
        Ok(begun)
    }

    fn renew(&mut self, claim: &KeyClaim, terms: &KeyTerms) -> Result<Ownership, SqliteFault> {
        match self.record(claim)? {
            Some(record) if !record.is_of(claim) => return Ok(Ownership::Lost),
            Some(Record { response: Some(_), .. }) => {}
            _ => self.write_running(claim, terms)?,
        }
        Ok(Ownership::Held)
    }

    fn finish_with(
        &mut self,
        claim: &KeyClaim,
        response: &[u8],
        terms: &KeyTerms,
    ) -> Result<Ownership, SqliteFault> {
        if self.record(claim)?.is_some_and(|record| !record.is_of(claim)) {
            return Ok(Ownership::Lost);
        }
        let ends = self.now.saturating_add(span(terms.ttl));
        self.write_record(claim, self.now, ends, Some(response))?;
        Ok(Ownership::Held)
    }

    fn forget(&mut self, claim: &KeyClaim) -> Result<(), SqliteFault> {
        let sql =
            "DELETE FROM redial_idempotency WHERE key = ?1 AND owner = ?2 AND response IS NULL";
        let owner = claim.owner().to_be_bytes();
        self.conn.prepare_cached(sql)?.execute(params![claim.key(), owner])?;
        Ok(())
    }

    /// The record of a claim's key, if it has not expired.
    fn record(&mut self, claim: &KeyClaim) -> Result<Option<Record>, SqliteFault> {
        let sql = "DELETE FROM redial_idempotency WHERE rowid IN \
                   (SELECT rowid FROM redial_idempotency WHERE ends <= ?1 ORDER BY ends LIMIT ?2)";
        self.conn.prepare_cached(sql)?.execute(params![self.now, SWEEP])?;
        let sql = "SELECT fingerprint, owner, lease, response FROM redial_idempotency \
                   WHERE key = ?1 AND ends > ?2";
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Record {
                fingerprint: row.get(0)?,
                owner: row.get(1)?,
                lease: row.get(2)?,
                response: row.get(3)?,
            })
        };
        let mut select = self.conn.prepare_cached(sql)?;
        Ok(select.query_row(params![claim.key(), self.now], read).optional()?)
    }

    fn write_running(&mut self, claim: &KeyClaim, terms: &KeyTerms) -> Result<(), SqliteFault> {
        let lease = self.now.saturating_add(span(terms.lease));
        self.write_record(claim, lease, lease.saturating_add(span(terms.ttl)), None)
    }

    fn write_record(
        &mut self,
        claim: &KeyClaim,
        lease: i64,
        ends: i64,
        response: Option<&[u8]>,
    ) -> Result<(), SqliteFault> {
        let sql = "INSERT OR REPLACE INTO redial_idempotency \
                   (key, fingerprint, owner, lease, ends, response) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let owner = claim.owner().to_be_bytes();
        let values = params![claim.key(), claim.fingerprint(), owner, lease, ends, response];
        self.conn.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }
}

impl Record {
    fn is_of(&self, claim: &KeyClaim) -> bool {
        self.owner == claim.owner().to_be_bytes()
    }

    /// The outcome of a request for a key that has a record.
    fn outcome(self, claim: &KeyClaim, terms: &KeyTerms, now: i64) -> Begun {
        let ours = self.is_of(claim);
        match self.response {
            _ if self.fingerprint != claim.fingerprint() => Begun::Mismatch,
            Some(response) => Begun::Finished(response.into()),
            None if ours => Begun::Started,
            None if self.lease > now => Begun::InFlight,
            None => match terms.on_interrupted {
                Interrupted::Refuse => Begun::Interrupted,
                Interrupted::Execute => Begun::Resumed,
            },
        }
    }
}
