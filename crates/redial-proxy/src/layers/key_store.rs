//! Where an upstream keeps idempotency keys and responses.

use std::env;
use std::fmt::Display;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use bytes::Bytes;
use redial::http::server::idempotency::{
    Begun, IdempotencyStore, IdempotencyStoreError, KeyClaim, KeyTerms,
};
use redial::http::server::{MemoryStore, RedisStore};
use redial_policy::file::KeyStore;
use redial_sqlite::SqliteFile;

use crate::error::StartError;

pub(crate) enum Keys {
    Memory(MemoryStore),
    Sqlite(SqliteFile),
    Redis(RedisStore),
}

impl Keys {
    /// Opens a store; `field` is its field in the file. A Redis that does not answer is no error: it may come back.
    pub(crate) fn open(store: &KeyStore, field: &str) -> Result<Self, StartError> {
        let wrong = |problem: String, help| StartError::new(field.to_owned(), problem, help);
        match store {
            KeyStore::Memory => Ok(Self::Memory(MemoryStore::default())),
            KeyStore::Sqlite(path) => SqliteFile::open(path)
                .map(Self::Sqlite)
                .map_err(|error| cannot_open(path, field, &error)),
            KeyStore::Redis(url) => redis(url).map_err(|why| wrong(why, URL)),
            KeyStore::RedisFromEnv(variable) => {
                let url = env::var(variable)
                    .map_err(|_| wrong(format!("{variable} is not set"), URL_IN_VARIABLE))?;
                redis(&url).map_err(|_| wrong(format!("{variable} is not a URL"), URL_IN_VARIABLE))
            }
        }
    }
}

/// Checks the file of a store without opening it, which would create or change it.
pub(crate) fn check_sqlite(path: &Path, field: &str) -> Result<(), StartError> {
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(16).read_to_end(&mut start));
    let checked = match read {
        Ok(_) if start.is_empty() || start == b"SQLite format 3\0" => Ok(()),
        Ok(_) => Err(io::Error::other("it is not a SQLite database")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
            fs::read_dir(directory.unwrap_or(Path::new("."))).map(drop)
        }
        Err(error) => Err(error),
    };
    checked.map_err(|error| cannot_open(path, field, &error))
}

fn cannot_open(path: &Path, field: &str, error: &dyn Display) -> StartError {
    let problem = format!("cannot open {}: {error}", path.display());
    let help = "name a file in a directory that the proxy's user can write";
    StartError::new(field.to_owned(), problem, help)
}

const URL: &str = "write redis://host:port/database";
const URL_IN_VARIABLE: &str =
    "set the variable to redis://user:password@host:port/database before the proxy starts";

fn redis(url: &str) -> Result<Keys, String> {
    RedisStore::open(url).map(Keys::Redis).map_err(|error| error.to_string())
}

/// Calls a method of the store that is inside.
macro_rules! each {
    ($keys:expr, $store:ident => $call:expr) => {
        match $keys {
            Keys::Memory($store) => $call.await,
            Keys::Sqlite($store) => $call.await,
            Keys::Redis($store) => $call.await,
        }
    };
}

impl IdempotencyStore for Keys {
    async fn begin(
        &self,
        claim: &KeyClaim,
        terms: &KeyTerms,
    ) -> Result<Begun, IdempotencyStoreError> {
        each!(self, store => store.begin(claim, terms))
    }

    async fn renew(&self, claim: &KeyClaim, terms: &KeyTerms) -> Result<(), IdempotencyStoreError> {
        each!(self, store => store.renew(claim, terms))
    }

    async fn finish(
        &self,
        claim: &KeyClaim,
        response: Bytes,
        terms: &KeyTerms,
    ) -> Result<(), IdempotencyStoreError> {
        each!(self, store => store.finish(claim, response, terms))
    }

    async fn release(&self, claim: &KeyClaim) -> Result<(), IdempotencyStoreError> {
        each!(self, store => store.release(claim))
    }
}
