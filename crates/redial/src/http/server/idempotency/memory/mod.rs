//! A store for one process. It has to be bounded, and what it forgets too early is executed twice; so
//! when it is full of records that still count, it takes no new key.

use std::collections::{BTreeSet, HashMap};
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use redial_core::{Nanos, nanos};

use super::store::{Begun, Claim, Interrupted, Store, StoreError, Terms};
use crate::clock::{Clock, Tokio};

/// What a record takes beside its response, its places in two maps included.
const BARE_BYTES: usize = 192;

/// What every record is counted as at least, so that one that has only begun can always end, if not with
/// its response then with the fact.
const LEAST_BYTES: usize = 256;

/// So many records that have ended are removed in one step. Each step adds at most one.
const SWEEP: usize = 16;

/// Keeps keys and responses in this process.
///
/// Defaults: 100 000 records, 64 MiB. When it is full, requests with a new key get a 503 and are not
/// executed; records whose time is over make room, others do not. A day's worth of keys has to fit, or
/// the layer's `ttl` has to be shorter.
///
/// All is gone when the process ends: a restart forgets what was executed. Behind a load balancer, other
/// processes know nothing of it.
#[derive(Debug)]
pub struct MemoryStore {
    most_records: usize,
    most_bytes: usize,
    records: Mutex<Records>,
}

#[derive(Debug, Default)]
struct Records {
    by_key: HashMap<[u8; 32], Record>,
    /// Each record of `by_key` once, by the time at which it ends.
    by_end: BTreeSet<(Nanos, [u8; 32])>,
    /// The sum of [`Record::weight`].
    bytes: usize,
}

#[derive(Debug)]
struct Record {
    fingerprint: [u8; 32],
    owner: u128,
    state: State,
    ends: Nanos,
}

#[derive(Debug)]
enum State {
    /// Until its lease is over.
    Running(Nanos),
    Finished(Bytes),
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self { most_records: 100_000, most_bytes: 64 << 20, records: Mutex::default() }
    }
}

impl MemoryStore {
    /// Keeps at most so many records, running or finished.
    #[must_use]
    pub fn records(self, most: usize) -> Self {
        Self { most_records: most, ..self }
    }

    /// Keeps at most so many bytes: 192 for each record, and its response.
    #[must_use]
    pub fn bytes(self, most: usize) -> Self {
        Self { most_bytes: most, ..self }
    }

    fn lock(&self, now: Nanos) -> MutexGuard<'_, Records> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.sweep(now);
        records
    }

    fn put(&self, records: &mut Records, key: [u8; 32], record: Record) -> Result<(), StoreError> {
        let old = records.by_key.get(&key);
        let count = records.by_key.len() + usize::from(old.is_none());
        let bytes = records.bytes - old.map_or(0, Record::weight) + record.weight();
        if count > self.most_records || bytes > self.most_bytes {
            return Err(StoreError::Full);
        }
        records.remove(&key);
        records.bytes = bytes;
        records.by_end.insert((record.ends, key));
        records.by_key.insert(key, record);
        Ok(())
    }

    fn begin_at(&self, claim: &Claim, terms: &Terms, now: Nanos) -> Result<Begun, StoreError> {
        let mut records = self.lock(now);
        let begun = match records.get(claim, now) {
            None => Begun::Started,
            Some(record) => record.meet(claim, terms, now),
        };
        if matches!(begun, Begun::Started | Begun::Resumed) {
            self.put(&mut records, *claim.key(), Record::running(claim, terms, now))?;
        }
        Ok(begun)
    }

    fn renew_at(&self, claim: &Claim, terms: &Terms, now: Nanos) -> Result<(), StoreError> {
        let mut records = self.lock(now);
        match records.get(claim, now) {
            Some(record) if record.owner != claim.owner() => Err(StoreError::Lost),
            Some(Record { state: State::Finished(_), .. }) => Ok(()),
            _ => self.put(&mut records, *claim.key(), Record::running(claim, terms, now)),
        }
    }

    fn finish_at(
        &self,
        claim: &Claim,
        response: Bytes,
        terms: &Terms,
        now: Nanos,
    ) -> Result<(), StoreError> {
        let mut records = self.lock(now);
        if records.get(claim, now).is_some_and(|record| record.owner != claim.owner()) {
            return Err(StoreError::Lost);
        }
        let record = Record {
            fingerprint: *claim.fingerprint(),
            owner: claim.owner(),
            state: State::Finished(response),
            ends: now.saturating_add(nanos(terms.ttl)),
        };
        self.put(&mut records, *claim.key(), record)
    }

    fn release_at(&self, claim: &Claim, now: Nanos) {
        let mut records = self.lock(now);
        let ours = |record: &Record| {
            record.owner == claim.owner() && matches!(record.state, State::Running(_))
        };
        if records.get(claim, now).is_some_and(ours) {
            records.remove(claim.key());
        }
    }
}

impl Store for MemoryStore {
    fn begin(
        &self,
        claim: &Claim,
        terms: &Terms,
    ) -> impl Future<Output = Result<Begun, StoreError>> + Send {
        ready(self.begin_at(claim, terms, Tokio::now()))
    }

    fn renew(
        &self,
        claim: &Claim,
        terms: &Terms,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        ready(self.renew_at(claim, terms, Tokio::now()))
    }

    fn finish(
        &self,
        claim: &Claim,
        response: Bytes,
        terms: &Terms,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        ready(self.finish_at(claim, response, terms, Tokio::now()))
    }

    fn release(&self, claim: &Claim) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.release_at(claim, Tokio::now());
        ready(Ok(()))
    }
}

impl Records {
    /// The record of a claim's key, if it has not ended.
    fn get(&self, claim: &Claim, now: Nanos) -> Option<&Record> {
        self.by_key.get(claim.key()).filter(|record| record.ends > now)
    }

    fn remove(&mut self, key: &[u8; 32]) {
        if let Some(record) = self.by_key.remove(key) {
            self.by_end.remove(&(record.ends, *key));
            self.bytes -= record.weight();
        }
    }

    fn sweep(&mut self, now: Nanos) {
        for _ in 0..SWEEP {
            match self.by_end.first() {
                Some(&(ends, key)) if ends <= now => self.remove(&key),
                _ => return,
            }
        }
    }
}

impl Record {
    fn running(claim: &Claim, terms: &Terms, now: Nanos) -> Self {
        let lease = now.saturating_add(nanos(terms.lease));
        Self {
            fingerprint: *claim.fingerprint(),
            owner: claim.owner(),
            state: State::Running(lease),
            ends: lease.saturating_add(nanos(terms.ttl)),
        }
    }

    fn meet(&self, claim: &Claim, terms: &Terms, now: Nanos) -> Begun {
        match &self.state {
            _ if self.fingerprint != *claim.fingerprint() => Begun::Mismatch,
            State::Finished(response) => Begun::Finished(response.clone()),
            State::Running(_) if self.owner == claim.owner() => Begun::Started,
            State::Running(lease) if *lease > now => Begun::InFlight,
            State::Running(_) => match terms.on_interrupted {
                Interrupted::Refuse => Begun::Interrupted,
                Interrupted::Execute => Begun::Resumed,
            },
        }
    }

    fn weight(&self) -> usize {
        match &self.state {
            State::Running(_) => LEAST_BYTES,
            State::Finished(response) => LEAST_BYTES.max(BARE_BYTES + response.len()),
        }
    }
}
