//! The records of a store, and how many of them each scope holds.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use redial_core::{Span, Time};

use crate::http::server::idempotency::store::{Begun, Interrupted, KeyClaim, KeyTerms};

/// The memory of a record without its response, including its entries in the maps.
const BARE_BYTES: usize = 208;

/// The least that a record counts as, so that a running one can always be finished, with its response or without.
const LEAST_BYTES: usize = 256;

/// How many expired records are removed in one step. Each step adds at most one.
const SWEEP: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) records: usize,
    pub(super) bytes: usize,
    /// Whether one scope may hold no more than is free.
    pub(super) shares: bool,
}

/// Which limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shortage {
    IdempotencyStore,
    /// The share of the store that one scope may hold.
    Scope,
}

#[cfg(any(feature = "metrics", feature = "tracing"))]
impl Shortage {
    /// The name in metrics and log lines.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::IdempotencyStore => "store",
            Self::Scope => "scope",
        }
    }
}

/// An amount of records and bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    pub(super) records: usize,
    pub(super) bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct Records {
    by_key: HashMap<[u8; 32], Record>,
    /// Each record of `by_key` once, ordered by expiry.
    by_end: BTreeSet<(Time, [u8; 32])>,
    /// The sum of the records of each scope that has any.
    by_scope: HashMap<u64, Used>,
    /// The sum of [`Record::weight`].
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Record {
    fingerprint: [u8; 32],
    owner: u128,
    scope: u64,
    state: State,
    ends: Time,
}

#[derive(Debug)]
enum State {
    /// Until the lease expires.
    Running(Time),
    Finished(Bytes),
}

impl Records {
    /// The record of a claim's key, unless it has expired.
    pub(super) fn get(&self, claim: &KeyClaim, now: Time) -> Option<&Record> {
        self.by_key.get(claim.key()).filter(|record| record.ends > now)
    }

    /// Writes a record, replacing the one with the same key. A record that is no larger than the old one is always
    /// written, so that a running execution can be finished.
    pub(super) fn put(
        &mut self,
        key: [u8; 32],
        record: Record,
        limits: &Limits,
    ) -> Result<(), Shortage> {
        let old = self.remove(&key);
        let grows = old.as_ref().is_none_or(|old| record.weight() > old.weight());
        let fits = if grows { self.has_room(&record, limits) } else { Ok(()) };
        match (fits, old) {
            (Ok(()), _) => self.insert(key, record),
            (Err(_), Some(old)) => self.insert(key, old),
            (Err(_), None) => {}
        }
        fits
    }

    fn has_room(&self, record: &Record, limits: &Limits) -> Result<(), Shortage> {
        let all = self.used().with(record);
        let held = self.scope(record.scope).with(record);
        let free_records =
            limits.records.checked_sub(all.records).ok_or(Shortage::IdempotencyStore)?;
        let free_bytes = limits.bytes.checked_sub(all.bytes).ok_or(Shortage::IdempotencyStore)?;
        let within_share = held.records <= free_records && held.bytes <= free_bytes;
        if limits.shares && held.records > 1 && !within_share {
            return Err(Shortage::Scope);
        }
        Ok(())
    }

    pub(super) fn used(&self) -> Used {
        Used { records: self.by_key.len(), bytes: self.bytes }
    }

    pub(super) fn scope(&self, scope: u64) -> Used {
        self.by_scope.get(&scope).copied().unwrap_or_default()
    }

    fn insert(&mut self, key: [u8; 32], record: Record) {
        self.bytes += record.weight();
        self.by_end.insert((record.ends, key));
        let held = self.by_scope.entry(record.scope).or_default();
        *held = held.with(&record);
        self.by_key.insert(key, record);
    }

    pub(super) fn remove(&mut self, key: &[u8; 32]) -> Option<Record> {
        let record = self.by_key.remove(key)?;
        self.by_end.remove(&(record.ends, *key));
        self.bytes -= record.weight();
        if let Some(held) = self.by_scope.get_mut(&record.scope) {
            held.records -= 1;
            held.bytes -= record.weight();
            if held.records == 0 {
                self.by_scope.remove(&record.scope);
            }
        }
        Some(record)
    }

    pub(super) fn sweep(&mut self, now: Time) {
        for _ in 0..SWEEP {
            match self.by_end.first() {
                Some(&(ends, key)) if ends <= now => drop(self.remove(&key)),
                _ => return,
            }
        }
    }
}

impl Used {
    fn with(self, record: &Record) -> Self {
        Self { records: self.records + 1, bytes: self.bytes + record.weight() }
    }
}

/// A part of the hash is enough: scopes that have it in common share one limit.
pub(super) fn scope(claim: &KeyClaim) -> u64 {
    let (first, _) = claim.scope().split_first_chunk().unwrap_or((&[0; 8], &[]));
    u64::from_be_bytes(*first)
}

impl Record {
    pub(super) fn running(claim: &KeyClaim, terms: &KeyTerms, now: Time) -> Self {
        let lease = now + Span::from(terms.lease);
        Self::new(claim, State::Running(lease), lease + Span::from(terms.ttl))
    }

    pub(super) fn finished(claim: &KeyClaim, response: Bytes, terms: &KeyTerms, now: Time) -> Self {
        Self::new(claim, State::Finished(response), now + Span::from(terms.ttl))
    }

    fn new(claim: &KeyClaim, state: State, ends: Time) -> Self {
        let fingerprint = *claim.fingerprint();
        Self { fingerprint, owner: claim.owner(), scope: scope(claim), state, ends }
    }

    pub(super) fn is_of(&self, claim: &KeyClaim) -> bool {
        self.owner == claim.owner()
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    /// What a claim finds when this record exists.
    pub(super) fn begin(&self, claim: &KeyClaim, terms: &KeyTerms, now: Time) -> Begun {
        match &self.state {
            _ if self.fingerprint != *claim.fingerprint() => Begun::Mismatch,
            State::Finished(response) => Begun::Finished(response.clone()),
            State::Running(_) if self.is_of(claim) => Begun::Started,
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
