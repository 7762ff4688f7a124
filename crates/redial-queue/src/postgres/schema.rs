//! Several processes start at once against an empty database, and some may be newer than the tables. The tables are created once,
//! under a lock that all processes take, and have a version.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::error::{self, StepError};
use super::pool::{Connection, Pool};
use crate::durable::StoreError;

/// The version of the tables and functions. Every change of them increments it.
const VERSION: i32 = 2;

const TABLES: &str = include_str!("sql/tables.sql");

/// Migrates version 1, in which a text in the history distinguished polls from retries. A poll that waits pays once, as a
/// retry does.
const FROM_1: &str = "alter table job add column poll boolean not null default false; \
    update version set version = 2";

/// The functions of older versions have the same arguments and results, so that processes of those versions keep working.
const FUNCTIONS: [&str; 6] = [
    include_str!("sql/shared.sql"),
    include_str!("sql/enqueue.sql"),
    include_str!("sql/claim.sql"),
    include_str!("sql/settle.sql"),
    include_str!("sql/manage.sql"),
    include_str!("sql/settings.sql"),
];

/// Allows only names that need no quoting.
pub(super) fn check_name(name: &str) -> Result<(), StoreError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let first = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    if first && name.len() <= 40 && name.chars().all(plain) && !name.starts_with("pg_") {
        return Ok(());
    }
    let why = "use 1 to 40 of a-z, 0-9 and _, not starting with a digit or pg_";
    Err(StoreError::Invalid(format!("invalid schema name `{name}`: {why}")))
}

/// Creates or migrates the tables and functions.
pub(super) async fn prepare(pool: &Pool) -> Result<(), StoreError> {
    let prepare = async |connection: &mut Connection| -> Result<(), StepError> {
        let client = &connection.client;
        match version(pool, client).await? {
            Some(VERSION) => Ok(()),
            _ => create(pool, client).await,
        }
    };
    pool.run(prepare).await
}

/// The version of the tables, if they exist.
async fn version(pool: &Pool, client: &Client) -> Result<Option<i32>, StoreError> {
    let text = format!("select version from {}.version", pool.schema());
    let rows = match client.query_typed(&text, &[]).await {
        Ok(rows) => rows,
        Err(error) => {
            let missing = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
            return match error.code() {
                Some(code) if missing.contains(code) => Ok(None),
                _ => Err(refused(pool, &error)),
            };
        }
    };
    let version = rows.first().map(|row| row.try_get::<_, i32>(0)).transpose();
    match version.map_err(|error| refused(pool, &error))? {
        Some(version @ 1..=VERSION) => Ok(Some(version)),
        Some(other) => Err(StoreError::Invalid(format!(
            "the tables in schema {} have version {other}, and this program supports version {VERSION}; use a newer program",
            pool.schema()
        ))),
        None => Err(StoreError::Invalid(format!(
            "the table {}.version is empty: the schema belongs to another program",
            pool.schema()
        ))),
    }
}

async fn create(pool: &Pool, client: &Client) -> Result<(), StepError> {
    let schema = pool.schema();
    let name = schema.trim_matches('"');
    let run = async |text: &str| {
        let done = client.batch_execute(text).await;
        done.map_err(|error| StepError::from(refused(pool, &error)))
    };
    let lock = format!("begin; select pg_advisory_xact_lock(hashtextextended('redial {name}', 3))");
    run(&lock).await?;
    let found = if exists(pool, client).await? { version(pool, client).await? } else { None };
    if found == Some(VERSION) {
        return run("commit").await;
    }
    let spaces = client
        .query_typed(&format!("select from pg_namespace where nspname = '{name}'"), &[])
        .await
        .map_err(|error| refused(pool, &error))?;
    if spaces.is_empty() {
        run(&format!("create schema {schema}")).await?;
    }
    run(&format!("set local search_path = {schema}")).await?;
    if found.is_some() {
        migrate(pool, client).await?;
    } else {
        run(TABLES).await?;
        run(&format!("insert into version values ({VERSION})")).await?;
    }
    for part in FUNCTIONS {
        run(&part.replace("create function", "create or replace function")).await?;
    }
    run("commit").await
}

/// Waits for the lock no longer than a second at a time: every step of all workers queues behind it.
async fn migrate(pool: &Pool, client: &Client) -> Result<(), StepError> {
    let text = format!("set local lock_timeout = '1s'; {FROM_1}");
    match client.batch_execute(&text).await {
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            client.batch_execute("rollback").await?;
            Err(StepError::Conflict(error::store(&error)))
        }
        Err(error) => Err(refused(pool, &error).into()),
        Ok(()) => Ok(()),
    }
}

/// Whether another process was faster. Querying a missing table would abort the transaction.
async fn exists(pool: &Pool, client: &Client) -> Result<bool, StoreError> {
    let name = pool.schema().trim_matches('"');
    let text =
        format!("select from pg_tables where schemaname = '{name}' and tablename = 'version'");
    let rows = client.query_typed(&text, &[]).await.map_err(|error| refused(pool, &error))?;
    Ok(!rows.is_empty())
}

fn refused(pool: &Pool, error: &tokio_postgres::Error) -> StoreError {
    let schema = pool.schema();
    match error::store(error) {
        StoreError::Invalid(why) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            StoreError::Invalid(format!(
                "cannot create or use the tables in schema {schema} at {}: {why}; \
                 grant CREATE on the database, or create the schema and grant all on it; \
                 tables of an older version are migrated once by their owner",
                pool.address()
            ))
        }
        StoreError::Invalid(why) => {
            StoreError::Invalid(format!("cannot create the tables in schema {schema}: {why}"))
        }
        other => other,
    }
}
