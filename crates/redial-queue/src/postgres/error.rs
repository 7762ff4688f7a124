//! What a server says, in our words: is it worth asking again, and if not, what has to be changed?

use std::error::Error as StdError;
use std::fmt::Write as _;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use crate::durable::StoreError;

/// What went wrong with a step. An unknown code counts as passing: to ask again does no harm, and giving up may.
pub(super) fn store(error: &Error) -> StoreError {
    let Some(db) = error.as_db_error() else {
        return StoreError::Unavailable(told(error).into());
    };
    let text = sentence(db);
    let code = db.code();
    match &code.code()[..2] {
        _ if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            StoreError::Stopped(text)
        }
        "0A" | "22" | "23" | "28" | "3D" | "3F" | "42" | "54" => StoreError::Invalid(text),
        _ => StoreError::Unavailable(text.into()),
    }
}

/// What went wrong with connecting. Never with the password.
pub(super) fn connecting(error: &Error, place: &str) -> StoreError {
    let Some(db) = error.as_db_error() else {
        let text = format!("{place}: {}", told(error));
        let for_good = error.to_string().contains("authentication")
            || error.to_string().contains("configuration")
            || text.contains("server does not support TLS");
        return match for_good {
            true => StoreError::Invalid(text),
            false => StoreError::Unavailable(text.into()),
        };
    };
    let remedy = match *db.code() {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "; check user and password in the URL, and pg_hba.conf"
        }
        SqlState::INVALID_CATALOG_NAME => "; create it, or name another one in the URL",
        _ => "",
    };
    let text = format!("{place}: {}{remedy}", sentence(db));
    match store(error) {
        StoreError::Unavailable(_) => StoreError::Unavailable(text.into()),
        StoreError::Invalid(_) => StoreError::Invalid(text),
        StoreError::Stopped(_) => StoreError::Stopped(text),
    }
}

/// Whether it was undone because of another transaction and can be done again at once.
pub(super) fn collided(error: &Error) -> bool {
    let codes = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
    error.code().is_some_and(|code| codes.contains(code))
}

fn sentence(db: &DbError) -> String {
    format!("{} (SQLSTATE {})", db.message(), db.code().code())
}

/// An error and its causes; the outermost says little.
fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
