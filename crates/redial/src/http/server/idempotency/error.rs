use std::error::Error as StdError;
use std::fmt;

use redial_core::decide::{Class, Classify, Failure};

/// Why a step of a [`IdempotencyStore`](super::IdempotencyStore) failed.
#[derive(Debug)]
pub enum IdempotencyStoreError {
    /// It has no room for another record.
    Full,
    /// Another execution has the key.
    Lost,
    /// It cannot be reached, or it failed. Whether the step took effect is unknown.
    Unavailable(Box<dyn StdError + Send + Sync>),
}

impl fmt::Display for IdempotencyStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the store for idempotency keys is full"),
            Self::Lost => f.write_str("another execution has the idempotency key"),
            Self::Unavailable(_) => f.write_str("the store for idempotency keys is unavailable"),
        }
    }
}

impl StdError for IdempotencyStoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Unavailable(cause) => Some(&**cause),
            Self::Full | Self::Lost => None,
        }
    }
}

impl Classify for IdempotencyStoreError {
    fn classify(&self) -> Failure {
        Failure::new(match self {
            Self::Unavailable(_) => Class::Transient,
            Self::Full | Self::Lost => Class::Permanent,
        })
    }
}
