use std::error::Error as StdError;
use std::fmt;

use redial_core::decide::{Class, Classify, Failure};

/// Why a request to a store failed.
#[derive(Debug)]
pub enum StoreError {
    /// The request is invalid. Repeating it does not help.
    Invalid(String),
    /// The store cannot be reached, or is busy. Whether the request took effect is unknown.
    Unavailable(Box<dyn StdError + Send + Sync>),
    /// The store has failed in a way after which writes cannot be trusted to reach the disk: the disk is full or reported an
    /// error, or the file is damaged. It does nothing more until it is opened again.
    Stopped(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => f.write_str(why),
            Self::Unavailable(cause) => write!(f, "the store cannot be reached: {cause}"),
            Self::Stopped(why) => write!(f, "the store has stopped: {why}"),
        }
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Unavailable(cause) => Some(&**cause),
            Self::Invalid(_) | Self::Stopped(_) => None,
        }
    }
}

impl Classify for StoreError {
    fn classify(&self) -> Failure {
        Failure::new(match self {
            Self::Unavailable(_) => Class::Transient,
            Self::Invalid(_) | Self::Stopped(_) => Class::Permanent,
        })
    }
}
