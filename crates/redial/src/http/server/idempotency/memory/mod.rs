//! A store in memory has to be bounded, and a request whose record is evicted too early is executed twice. So this one
//! removes only expired records, and rejects new keys when it is full. To keep one caller from filling it for all others,
//! a scope may hold no more than is still free.

#[cfg(feature = "metrics")]
mod metrics;
mod records;
#[cfg(feature = "tracing")]
mod warnings;

use std::future::ready;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use redial_core::Time;

use self::records::{Limits, Record, Records, Shortage};
use super::error::IdempotencyStoreError;
use super::store::{Begun, IdempotencyStore, KeyClaim, KeyTerms};
use crate::clock::{Clock, Tokio};

/// Stores keys and responses in this process.
///
/// Defaults: 100 000 records and 64 MiB, and a scope holds no more of either than is free, so at most half of the store. A
/// scope is one caller: what [`scoped_by`](super::IdempotencyLayer::scoped_by) returned, or the credentials of the
/// request.
///
/// Records are removed when they expire (the layer's `ttl`) and never before, because a repetition would be executed
/// again. A new key for which there is no room gets a 503 and is not executed; known keys are answered as usual. A
/// response for which there is no room is not stored, and a repetition gets a 410. The keys of one `ttl` have to fit.
///
/// With the feature `metrics`, `telemetry::IDEMPOTENCY_METRICS` report how full it is and
/// what was rejected. With the feature `tracing`, it logs a warning (target `redial`) when it is 80% full or a scope has
/// used 80% of its share, and when it rejects a key: each at most once a minute.
///
/// The store is lost when the process ends: after a restart, requests may be executed again. Processes behind a load
/// balancer do not share it.
#[derive(Debug)]
pub struct MemoryStore {
    name: String,
    shared: Arc<Shared>,
    #[cfg(feature = "metrics")]
    totals: Arc<metrics::Totals>,
}

/// What the store and its metrics share.
#[derive(Debug)]
struct Shared {
    limits: Limits,
    records: Mutex<Records>,
    #[cfg(feature = "tracing")]
    warnings: warnings::Warnings,
}

/// Why a step was rejected.
enum Refused {
    Lost,
    Full(Shortage),
}

impl From<Shortage> for Refused {
    fn from(shortage: Shortage) -> Self {
        Self::Full(shortage)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        let limits = Limits { records: 100_000, bytes: 64 << 20, shares: true };
        Self::with("memory".to_owned(), limits, Records::default())
    }
}

impl MemoryStore {
    fn with(name: String, limits: Limits, records: Records) -> Self {
        let shared = Arc::new(Shared {
            limits,
            records: Mutex::new(records),
            #[cfg(feature = "tracing")]
            warnings: warnings::Warnings::default(),
        });
        Self {
            #[cfg(feature = "metrics")]
            totals: metrics::Totals::watching(&name, &shared),
            name,
            shared,
        }
    }

    fn limited(self, limits: Limits) -> Self {
        let records = mem::take(&mut *self.shared.lock());
        Self::with(self.name, limits, records)
    }

    /// Limits the number of records, running or finished.
    #[must_use]
    pub fn records(self, most: usize) -> Self {
        let limits = Limits { records: most, ..self.shared.limits };
        self.limited(limits)
    }

    /// Limits the size in bytes: each record counts as 208 bytes and its response.
    #[must_use]
    pub fn bytes(self, most: usize) -> Self {
        let limits = Limits { bytes: most, ..self.shared.limits };
        self.limited(limits)
    }

    /// Lets one scope fill the store, for a server with only one caller.
    #[must_use]
    pub fn without_shares(self) -> Self {
        let limits = Limits { shares: false, ..self.shared.limits };
        self.limited(limits)
    }

    /// Sets the name in metrics and log lines, which is `memory` by default. Stores with the same name are added up.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        let records = mem::take(&mut *self.shared.lock());
        Self::with(name.into(), self.shared.limits, records)
    }

    /// One atomic step.
    fn step<T>(
        &self,
        claim: &KeyClaim,
        now: Time,
        step: impl FnOnce(&mut Records, &Limits) -> Result<T, Refused>,
    ) -> Result<T, IdempotencyStoreError> {
        let Shared { limits, .. } = &*self.shared;
        let mut records = self.shared.lock();
        records.sweep(now);
        let done = step(&mut records, limits);
        let shortage = match &done {
            Err(Refused::Full(shortage)) => Some(*shortage),
            _ => None,
        };
        let (all, held) = (records.used(), records.scope(records::scope(claim)));
        drop(records);
        #[cfg(feature = "metrics")]
        shortage.into_iter().for_each(|shortage| self.totals.refused(shortage));
        #[cfg(feature = "tracing")]
        self.shared
            .warnings
            .check(&warnings::Usage { name: &self.name, limits, all, held, shortage }, now);
        #[cfg(not(feature = "tracing"))]
        let _ = (all, held, shortage);
        done.map_err(|refused| match refused {
            Refused::Lost => IdempotencyStoreError::Lost,
            Refused::Full(_) => IdempotencyStoreError::Full,
        })
    }

    fn begin_at(
        &self,
        claim: &KeyClaim,
        terms: &KeyTerms,
        now: Time,
    ) -> Result<Begun, IdempotencyStoreError> {
        self.step(claim, now, |records, limits| {
            let begun = match records.get(claim, now) {
                None => Begun::Started,
                Some(record) => record.begin(claim, terms, now),
            };
            if matches!(begun, Begun::Started | Begun::Resumed) {
                records.put(*claim.key(), Record::running(claim, terms, now), limits)?;
            }
            Ok(begun)
        })
    }

    fn renew_at(
        &self,
        claim: &KeyClaim,
        terms: &KeyTerms,
        now: Time,
    ) -> Result<(), IdempotencyStoreError> {
        self.step(claim, now, |records, limits| match records.get(claim, now) {
            Some(record) if !record.is_of(claim) => Err(Refused::Lost),
            Some(record) if !record.is_running() => Ok(()),
            _ => {
                let running = Record::running(claim, terms, now);
                Ok(records.put(*claim.key(), running, limits)?)
            }
        })
    }

    fn finish_at(
        &self,
        claim: &KeyClaim,
        response: Bytes,
        terms: &KeyTerms,
        now: Time,
    ) -> Result<(), IdempotencyStoreError> {
        self.step(claim, now, |records, limits| {
            if records.get(claim, now).is_some_and(|record| !record.is_of(claim)) {
                return Err(Refused::Lost);
            }
            let finished = Record::finished(claim, response, terms, now);
            Ok(records.put(*claim.key(), finished, limits)?)
        })
    }

    fn release_at(&self, claim: &KeyClaim, now: Time) -> Result<(), IdempotencyStoreError> {
        self.step(claim, now, |records, _| {
            let is_ours = |record: &Record| record.is_of(claim) && record.is_running();
            if records.get(claim, now).is_some_and(is_ours) {
                records.remove(claim.key());
            }
            Ok(())
        })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdempotencyStore for MemoryStore {
    fn begin(
        &self,
        claim: &KeyClaim,
        terms: &KeyTerms,
    ) -> impl Future<Output = Result<Begun, IdempotencyStoreError>> + Send {
        ready(self.begin_at(claim, terms, Tokio::now()))
    }

    fn renew(
        &self,
        claim: &KeyClaim,
        terms: &KeyTerms,
    ) -> impl Future<Output = Result<(), IdempotencyStoreError>> + Send {
        ready(self.renew_at(claim, terms, Tokio::now()))
    }

    fn finish(
        &self,
        claim: &KeyClaim,
        response: Bytes,
        terms: &KeyTerms,
    ) -> impl Future<Output = Result<(), IdempotencyStoreError>> + Send {
        ready(self.finish_at(claim, response, terms, Tokio::now()))
    }

    fn release(
        &self,
        claim: &KeyClaim,
    ) -> impl Future<Output = Result<(), IdempotencyStoreError>> + Send {
        ready(self.release_at(claim, Tokio::now()))
    }
}
