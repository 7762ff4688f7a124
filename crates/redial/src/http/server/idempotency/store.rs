//! Two servers get the same key at the same instant; one of them dies half-way; a third was only slow
//! and comes back. Somebody has to decide, in one indivisible step each time, who executes: the store.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redial_core::decide::{Class, Classify, Failure};

use crate::attempt::Key;

/// Where keys and responses are kept.
///
/// Each method is one indivisible step and answers in bounded time. Nothing is executed while the store
/// does not answer, so a store that cannot be reached says so instead of waiting.
///
/// A record is in one of two states, and a store holds it under the key of the claim that made it.
///
/// | | running, lease not over | running, lease over | finished | no record |
/// |---|---|---|---|---|
/// | [`begin`](Self::begin), same owner | started | started | finished | started |
/// | `begin`, another owner | in flight | interrupted, or resumed | finished | started |
/// | [`renew`](Self::renew), same owner | lease set anew | lease set anew | nothing | record written |
/// | [`finish`](Self::finish), same owner | finished | finished | finished | finished |
/// | [`release`](Self::release), same owner | record removed | record removed | nothing | nothing |
///
/// `begin` with another fingerprint is a mismatch in every state. `renew`, `finish` and `release` by
/// anybody but the owner change nothing; the first two say [`Lost`](StoreError::Lost). A running record ends
/// `ttl` after its lease, a finished one `ttl` after it was finished; one that has ended is no record.
pub trait Store: Send + Sync + 'static {
    /// Takes the key, or says who has it.
    fn begin(
        &self,
        claim: &Claim,
        terms: &Terms,
    ) -> impl Future<Output = Result<Begun, StoreError>> + Send;

    /// The execution goes on: its lease starts anew. A record that the store has lost is written back.
    /// A lease of zero ends it, for an execution whose end nobody knows.
    fn renew(
        &self,
        claim: &Claim,
        terms: &Terms,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The execution has ended with this response, to be handed out as it is. A lease that is over does
    /// not matter as long as nobody else has taken the key.
    fn finish(
        &self,
        claim: &Claim,
        response: Bytes,
        terms: &Terms,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Nothing was executed: the key is as if it had never been seen. Where a `begin` without an answer can
    /// be overtaken by the `release` of the same claim, it takes nothing when it arrives.
    fn release(&self, claim: &Claim) -> impl Future<Output = Result<(), StoreError>> + Send;
}

impl<St: Store> Store for Arc<St> {
    fn begin(
        &self,
        claim: &Claim,
        terms: &Terms,
    ) -> impl Future<Output = Result<Begun, StoreError>> + Send {
        (**self).begin(claim, terms)
    }

    fn renew(
        &self,
        claim: &Claim,
        terms: &Terms,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).renew(claim, terms)
    }

    fn finish(
        &self,
        claim: &Claim,
        response: Bytes,
        terms: &Terms,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).finish(claim, response, terms)
    }

    fn release(&self, claim: &Claim) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).release(claim)
    }
}

/// One request's claim to a key.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    key: [u8; 32],
    fingerprint: [u8; 32],
    scope: [u8; 32],
    /// Drawn for this claim alone. Whoever comes back late does not know the owner that has replaced it.
    owner: u128,
}

impl Claim {
    /// A claim of its own, even for the same key and fingerprint.
    pub fn new(key: [u8; 32], fingerprint: [u8; 32]) -> Self {
        Self { key, fingerprint, scope: [0; 32], owner: Key::fresh().as_u128() }
    }

    /// The same claim, made by the caller that this hash stands for.
    #[must_use]
    pub fn in_scope(self, scope: [u8; 32]) -> Self {
        Self { scope, ..self }
    }

    /// A hash of the caller's scope and key.
    pub fn key(&self) -> &[u8; 32] {
        &self.key
    }

    /// A hash of the request that the key came with.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// A hash of the caller: of its scope, or of its credentials where the layer has no scope. All zeros when
    /// the claim was made without one. For stores that limit what one caller may hold.
    pub fn scope(&self) -> &[u8; 32] {
        &self.scope
    }

    /// Who claims it.
    pub fn owner(&self) -> u128 {
        self.owner
    }
}

/// How long things are kept, and what follows an interruption.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How long after its last sign of life an execution is taken for dead.
    pub lease: Duration,
    /// How long a response, or the knowledge of an interruption, is kept.
    pub ttl: Duration,
    /// What a request does that finds an interrupted execution.
    pub on_interrupted: Interrupted,
}

/// What happens to a request whose key belongs to an execution that was interrupted: the process died,
/// the handler panicked, and whether it took effect is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interrupted {
    /// It is told so, until the record's time is over.
    #[default]
    Refuse,
    /// It is executed, marked with [`AfterInterruption`](super::AfterInterruption). For handlers that are
    /// safe to run again, or look first what they have done.
    Execute,
}

/// What came of [`Store::begin`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The key is ours: execute.
    Started,
    /// The key is ours after an interruption: execute again.
    Resumed,
    /// Another request with this key is being executed.
    InFlight,
    /// This was the response.
    Finished(Bytes),
    /// The key came with another request before.
    Mismatch,
    /// The execution was interrupted, and terms are to refuse.
    Interrupted,
}

/// Why a store did not do what it was asked to.
#[derive(Debug)]
pub enum StoreError {
    /// It has room for nothing more that it would have to keep.
    Full,
    /// Another execution has the key.
    Lost,
    /// It cannot be reached, or failed. Whether the step was made is unknown.
    Unavailable(Box<dyn StdError + Send + Sync>),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the store for idempotency keys is full"),
            Self::Lost => f.write_str("another execution has the idempotency key"),
            Self::Unavailable(_) => f.write_str("the store for idempotency keys is unavailable"),
        }
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Unavailable(cause) => Some(&**cause),
            Self::Full | Self::Lost => None,
        }
    }
}

impl Classify for StoreError {
    fn classify(&self) -> Failure {
        Failure::new(match self {
            Self::Unavailable(_) => Class::Transient,
            Self::Full | Self::Lost => Class::Permanent,
        })
    }
}
