//! Two servers receive the same key at the same time; one crashes half-way; a third was only slow and resumes. The store
//! decides which of them executes, each time in one atomic step.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::error::IdempotencyStoreError;
use crate::attempt::Key;

/// Where keys and responses are kept.
///
/// Each method is one atomic step and returns in bounded time. Nothing is executed while the store does not answer, so a
/// store that cannot be reached returns an error instead of waiting.
///
/// A record is in one of two states, and is stored under the key of the claim that created it.
///
/// | | running, lease valid | running, lease expired | finished | no record |
/// |---|---|---|---|---|
/// | [`begin`](Self::begin), same owner | started | started | finished | started |
/// | `begin`, another owner | in flight | interrupted, or resumed | finished | started |
/// | [`renew`](Self::renew), same owner | lease renewed | lease renewed | nothing | record written |
/// | [`finish`](Self::finish), same owner | finished | finished | finished | finished |
/// | [`release`](Self::release), same owner | record removed | record removed | nothing | nothing |
///
/// `begin` with another fingerprint is a mismatch in every state. `renew`, `finish` and `release` by another owner change
/// nothing; the first two return [`Lost`](IdempotencyStoreError::Lost). A running record expires `ttl` after its lease, a finished
/// one `ttl` after it was finished. An expired record counts as no record.
pub trait IdempotencyStore: Send + Sync + 'static {
    /// Takes the key, or returns the state of the execution that has it.
    fn begin(
        &self,
        claim: &KeyClaim,
        terms: &KeyTerms,
    ) -> impl Future<Output = Result<Begun, IdempotencyStoreError>> + Send;

    /// Extends the lease of an execution that is still running. A record that the store has lost is written again. A
    /// lease of zero ends it, for an execution whose result is unknown.
    fn renew(
        &self,
        claim: &KeyClaim,
        terms: &KeyTerms,
    ) -> impl Future<Output = Result<(), IdempotencyStoreError>> + Send;

    /// Stores the response of an execution that has ended. An expired lease does not matter unless another execution has
    /// taken the key.
    fn finish(
        &self,
        claim: &KeyClaim,
        response: Bytes,
        terms: &KeyTerms,
    ) -> impl Future<Output = Result<(), IdempotencyStoreError>> + Send;

    /// Forgets the key, because nothing was executed. If a `begin` can be overtaken by the `release` of the same claim, it
    /// takes no key when it arrives.
    fn release(
        &self,
        claim: &KeyClaim,
    ) -> impl Future<Output = Result<(), IdempotencyStoreError>> + Send;
}

impl<St: IdempotencyStore> IdempotencyStore for Arc<St> {
    fn begin(
        &self,
        claim: &KeyClaim,
        terms: &KeyTerms,
    ) -> impl Future<Output = Result<Begun, IdempotencyStoreError>> + Send {
        (**self).begin(claim, terms)
    }

    fn renew(
        &self,
        claim: &KeyClaim,
        terms: &KeyTerms,
    ) -> impl Future<Output = Result<(), IdempotencyStoreError>> + Send {
        (**self).renew(claim, terms)
    }

    fn finish(
        &self,
        claim: &KeyClaim,
        response: Bytes,
        terms: &KeyTerms,
    ) -> impl Future<Output = Result<(), IdempotencyStoreError>> + Send {
        (**self).finish(claim, response, terms)
    }

    fn release(
        &self,
        claim: &KeyClaim,
    ) -> impl Future<Output = Result<(), IdempotencyStoreError>> + Send {
        (**self).release(claim)
    }
}

/// One request's claim to a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyClaim {
    key: [u8; 32],
    fingerprint: [u8; 32],
    scope: [u8; 32],
    /// Random for each claim, so that an execution that was replaced cannot act as its replacement.
    owner: u128,
}

impl KeyClaim {
    /// A claim with a new owner, even for the same key and fingerprint.
    pub fn new(key: [u8; 32], fingerprint: [u8; 32]) -> Self {
        Self { key, fingerprint, scope: [0; 32], owner: Key::fresh().as_u128() }
    }

    /// The same claim, made by the caller with this hash.
    #[must_use]
    pub fn in_scope(self, scope: [u8; 32]) -> Self {
        Self { scope, ..self }
    }

    /// A hash of the caller's scope and key.
    pub fn key(&self) -> &[u8; 32] {
        &self.key
    }

    /// A hash of the request that carried the key.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// A hash of the caller: of its scope, or of its credentials if the layer has no scope. All zeros if the claim was
    /// made without one. For stores that limit what one caller may hold.
    pub fn scope(&self) -> &[u8; 32] {
        &self.scope
    }

    /// The owner of the claim.
    pub fn owner(&self) -> u128 {
        self.owner
    }
}

/// How long records are kept, and what happens after an interruption.
#[derive(Clone, Copy, Debug)]
pub struct KeyTerms {
    /// How long after its last renewal an execution counts as interrupted.
    pub lease: Duration,
    /// How long a response, or the record of an interruption, is kept.
    pub ttl: Duration,
    /// What happens to a request that finds an interrupted execution.
    pub on_interrupted: Interrupted,
}

/// What happens to a request whose key belongs to an execution that was interrupted: the process crashed or the handler
/// panicked, and whether it took effect is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interrupted {
    /// It gets a 424 until the record expires.
    #[default]
    Refuse,
    /// It is executed, marked with [`AfterInterruption`](super::AfterInterruption). For handlers that are safe to run
    /// again, or that first check what they have done.
    Execute,
}

/// The result of [`IdempotencyStore::begin`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The key was taken: execute.
    Started,
    /// The key was taken after an interruption: execute again.
    Resumed,
    /// Another request with this key is being executed.
    InFlight,
    /// The request was executed, with this response.
    Finished(Bytes),
    /// The key was used with another request before.
    Mismatch,
    /// The execution was interrupted, and the terms are to refuse.
    Interrupted,
}
