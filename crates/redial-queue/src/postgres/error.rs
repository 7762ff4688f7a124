//! A server's error in terms of the store: can it be tried again, and if not, what has to be changed?

use std::error::Error as StdError;
use std::fmt::Write as _;

use redial_core::decide::{Class, Classify, Failure};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use crate::durable::StoreError;

/// Why a step failed, and in which state its connection is.
#[derive(Debug)]
pub(super) enum StepError {
    /// The server rolled the transaction back because of another one. The connection can be used again.
    Conflict(StoreError),
    /// The server rejected a statement. The connection can be used again.
    Rejected(StoreError),
    /// The connection is broken, or its transaction may still be open.
    Broken(StoreError),
}

impl StepError {
    pub(super) fn into_inner(self) -> StoreError {
        match self {
            Self::Conflict(error) | Self::Rejected(error) | Self::Broken(error) => error,
        }
    }
}

/// Only a conflict is repeated: any other step may have taken effect.
impl Classify for StepError {
    fn classify(&self) -> Failure {
        Failure::new(match self {
            Self::Conflict(_) => Class::Transient,
            Self::Rejected(_) | Self::Broken(_) => Class::Permanent,
        })
    }
}

impl From<Error> for StepError {
    fn from(error: Error) -> Self {
        let conflicts = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
        match error.as_db_error() {
            Some(db) if conflicts.contains(db.code()) => Self::Conflict(store(&error)),
            Some(db) if db.severity() == "ERROR" => Self::Rejected(store(&error)),
            _ => Self::Broken(store(&error)),
        }
    }
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self::Broken(error)
    }
}

/// The error of a step. An unknown code counts as transient: trying again does no harm, and giving up may.
pub(super) fn store(error: &Error) -> StoreError {
    let Some(db) = error.as_db_error() else {
        return StoreError::Unavailable(with_sources(error).into());
    };
    let text = with_code(db);
    let code = db.code();
    match &code.code()[..2] {
        _ if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            StoreError::Stopped(text)
        }
        "0A" | "22" | "23" | "28" | "3D" | "3F" | "42" | "54" => StoreError::Invalid(text),
        _ => StoreError::Unavailable(text.into()),
    }
}

/// The error of connecting. It never contains the password.
pub(super) fn connecting(error: &Error, address: &str) -> StoreError {
    let Some(db) = error.as_db_error() else {
        let text = format!("{address}: {}", with_sources(error));
        let permanent = error.to_string().contains("authentication")
            || error.to_string().contains("configuration")
            || text.contains("server does not support TLS")
            || text.contains("invalid peer certificate");
        return match permanent {
            true => StoreError::Invalid(text),
            false => StoreError::Unavailable(text.into()),
        };
    };
    let remedy = match *db.code() {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "; check user and password in the URL, and pg_hba.conf"
        }
        SqlState::INVALID_CATALOG_NAME => "; create it, or name another database in the URL",
        _ => "",
    };
    let text = format!("{address}: {}{remedy}", with_code(db));
    match store(error) {
        StoreError::Unavailable(_) => StoreError::Unavailable(text.into()),
        StoreError::Invalid(_) => StoreError::Invalid(text),
        StoreError::Stopped(_) => StoreError::Stopped(text),
    }
}

fn with_code(db: &DbError) -> String {
    format!("{} (SQLSTATE {})", db.message(), db.code().code())
}

/// An error and its sources; the outermost alone says little.
fn with_sources(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let _ = write!(text, ": {error}");
        source = error.source();
    }
    text
}
