//! After an `fsync` has failed, a later one that succeeds proves nothing: the kernel may have dropped the pages that it could not
//! write, and counts them as written. So the store tries nothing again after such a fault. It stops, and everything that it has
//! acknowledged is in the file when it is opened again.

use std::error::Error as StdError;
use std::fmt;

use rusqlite::{Error, ErrorCode, ffi};

/// Why a request failed, and what follows from it.
#[derive(Debug)]
pub enum SqliteFault {
    /// The request is invalid. Others can succeed.
    Invalid(String),
    /// The file cannot be reached, or is busy. Whether the request took effect is unknown. Others can succeed.
    Unavailable(Box<dyn StdError + Send + Sync>),
    /// The store has to stop.
    Stop(String),
}

impl fmt::Display for SqliteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => f.write_str(why),
            Self::Unavailable(cause) => write!(f, "the store cannot be reached: {cause}"),
            Self::Stop(why) => write!(f, "the store has stopped: {why}"),
        }
    }
}

impl StdError for SqliteFault {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Unavailable(cause) => Some(&**cause),
            Self::Invalid(_) | Self::Stop(_) => None,
        }
    }
}

/// The content of the file is inconsistent.
pub fn damaged(what: &str) -> SqliteFault {
    SqliteFault::Stop(format!(
        "the file is damaged ({what}); keep a copy of it and of its -wal file, and restore a backup"
    ))
}

impl From<Error> for SqliteFault {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::SqliteFailure(code, _) => code,
            Error::InvalidColumnType(..)
            | Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..) => return damaged(&error.to_string()),
            _ => return unavailable(error),
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
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => busy(code),
            _ => unavailable(error),
        }
    }
}

fn busy(code: &ffi::Error) -> SqliteFault {
    unavailable(format!(
        "another process has had the file locked for {} s ({code}); make sure that it ends its transactions",
        crate::store_time::BUSY_TIMEOUT.as_secs()
    ))
}

pub(crate) fn unavailable(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> SqliteFault {
    SqliteFault::Unavailable(cause.into())
}
