//! After a disk has failed once, nobody knows what a later `fsync` would be worth: the pages that it failed to write may be
//! gone from the kernel's memory and count as written. So nothing is tried twice here; a store that has met such a fault
//! stops, and what it said to have done is in the file when it is opened again.

use rusqlite::{Error, ErrorCode, ffi};

use crate::durable::StoreError;

/// What follows from an error of SQLite.
#[derive(Debug)]
pub(super) enum Fault {
    /// This request cannot be done; others can.
    Request(StoreError),
    /// Nothing can be done any more.
    Stop(String),
}

/// What is wrong with the file, found by looking at what is in it.
pub(super) fn damaged(what: &str) -> Fault {
    Fault::Stop(format!(
        "the file is damaged ({what}); keep a copy of it and of its -wal file, and restore a backup"
    ))
}

impl Fault {
    pub(super) fn error(self) -> StoreError {
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
                "the disk is full ({error}); make room, then open the store again"
            )),
            ErrorCode::SystemIoFailure => Self::Stop(format!(
                "the disk has failed ({error}, code {}); look at the system's log, then open the store again",
                code.extended_code
            )),
            ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
                Self::Stop(format!(
                    "the file cannot be written ({error}); see who may write it, then open the store again"
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
        "another process has had the file locked for {} s ({code}); see that it ends its transactions",
        super::clock::PATIENCE.as_secs()
    ))
}

pub(super) fn unavailable(
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StoreError {
    StoreError::Unavailable(cause.into())
}
