//! After an `fsync` has failed, a later one that succeeds proves nothing: the kernel may have dropped the pages that it could not
//! write, and counts them as written. So the store tries nothing again after such a fault. It stops, and everything that it has
//! acknowledged is in the file when it is opened again.

use rusqlite::{Error, ErrorCode, ffi};

use crate::durable::StoreError;

/// The consequence of an SQLite error.
#[derive(Debug)]
pub(super) enum Fault {
    /// This request failed; others can succeed.
    Request(StoreError),
    /// The store has to stop.
    Stop(String),
}

/// The content of the file is inconsistent.
pub(super) fn damaged(what: &str) -> Fault {
    Fault::Stop(format!(
        "the file is damaged ({what}); keep a copy of it and of its -wal file, and restore a backup"
    ))
}

impl Fault {
    pub(super) fn into_error(self) -> StoreError {
        match self {
            Self::Request(error) => error,
            Self::Stop(why) => StoreError::Stopped(why),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::SqliteFailure(code, _) => code,
            Error::InvalidColumnType(..)
            | Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..) => return damaged(&error.to_string()),
            _ => return Self::Request(unavailable(error)),
        };
        match code.code {
            ErrorCode::DatabaseCorrupt => damaged(&error.to_string()),
            ErrorCode::NotADatabase => damaged(&error.to_string()),
            ErrorCode::DiskFull => Self::Stop(format!(
                "the disk is full ({error}); free some space, then open the store again"
            )),
            ErrorCode::SystemIoFailure => Self::Stop(format!(
                "the disk has failed ({error}, code {}); check the system log, then open the store again",
                code.extended_code
            )),
            ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
                Self::Stop(format!(
                    "the file cannot be written ({error}); check its permissions, then open the store again"
                ))
            }
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Request(busy(code)),
            _ => Self::Request(unavailable(error)),
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Stopped(why) => Self::Stop(why),
            error => Self::Request(error),
        }
    }
}

fn busy(code: &ffi::Error) -> StoreError {
    unavailable(format!(
        "another process has had the file locked for {} s ({code}); make sure that it ends its transactions",
        super::store_time::BUSY_TIMEOUT.as_secs()
    ))
}

pub(super) fn unavailable(
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StoreError {
    StoreError::Unavailable(cause.into())
}
