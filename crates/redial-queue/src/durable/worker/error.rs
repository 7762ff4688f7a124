use std::error::Error;
use std::fmt;

use redial_core::Invalid;

use super::super::StoreError;

/// Why a worker has stopped by itself.
#[derive(Debug)]
pub enum WorkerError {
    /// The store has failed.
    Store(StoreError),
    /// The handler reports that [no job can be done](super::super::Handled::WorkerFailed) here.
    Handler(String),
    /// A policy that workers [cannot apply](super::check_policy).
    Policy(Invalid),
}

impl From<StoreError> for WorkerError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Handler(why) => f.write_str(why),
            Self::Policy(invalid) => invalid.fmt(f),
        }
    }
}

impl Error for WorkerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            Self::Handler(_) | Self::Policy(_) => None,
        }
    }
}
