//! Ten processes start at once against an empty database, and one of them is newer than the tables. The tables are made once,
//! under a lock that all of them take, and have a version.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::error;
use super::pool::Pool;
use crate::durable::StoreError;

/// What the tables and functions of this version are. A change of them is a higher one.
const VERSION: i32 = 2;

const TABLES: &str = include_str!("sql/tables.sql");

/// From version 1, in which a text in the history told polls from retries. A poll that waits pays once, as a retry does.
const FROM_1: &str = "alter table job add column poll boolean not null default false; \
    update version set version = 2";

/// Those of an older version have the same arguments and results, so that processes of that version go on working.
const FUNCTIONS: [&str; 6] = [
    include_str!("sql/shared.sql"),
    include_str!("sql/enqueue.sql"),
    include_str!("sql/claim.sql"),
    include_str!("sql/settle.sql"),
    include_str!("sql/manage.sql"),
    include_str!("sql/settings.sql"),
];

/// Whether this is a name that we use for a schema.
pub(super) fn check_name(name: &str) -> Result<(), StoreError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let first = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    if first && name.len() <= 40 && name.chars().all(plain) && !name.starts_with("pg_") {
        return Ok(());
    }
    let why = "a schema's name has 1 to 40 of a-z, 0-9 and _, does not start with a digit or pg_";
    Err(StoreError::Invalid(format!("`{name}`: {why}")))
}

/// Makes what is not there, and brings what is older up to date.
pub(super) async fn prepare(pool: &Pool) -> Result<(), StoreError> {
    let mut lent = pool.lend().await?;
    let client = &lent.get()?.client;
    if pool.within(version(pool, client)).await?? != Some(VERSION) {
        pool.within(create(pool, client)).await??;
    }
    lent.give_back();
    Ok(())
}

/// The version of the tables, if there are any that can be used.
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
            "the tables in schema {} are of version {other}, and this program knows version {VERSION}; use a newer program",
            pool.schema()
        ))),
        None => Err(StoreError::Invalid(format!(
            "the table {}.version is empty: these are not our tables",
            pool.schema()
        ))),
    }
}

async fn create(pool: &Pool, client: &Client) -> Result<(), StoreError> {
    let schema = pool.schema();
    let name = schema.trim_matches('"');
    let run = async |text: &str| {
        let done = client.batch_execute(text).await;
        done.map_err(|error| refused(pool, &error))
    };
    let lock = format!("begin; select pg_advisory_xact_lock(hashtextextended('redial {name}', 3))");
    run(&lock).await?;
    let found = if is_made(pool, client).await? { version(pool, client).await? } else { None };
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
        run(FROM_1).await?;
    } else {
        run(TABLES).await?;
        run(&format!("insert into version values ({VERSION})")).await?;
    }
    for part in FUNCTIONS {
        run(&part.replace("create function", "create or replace function")).await?;
    }
    run("commit").await
}

/// Whether somebody else was quicker. A failed look at the table would end the transaction.
async fn is_made(pool: &Pool, client: &Client) -> Result<bool, StoreError> {
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
                "cannot make or use the tables in schema {schema} at {}: {why}; \
                 grant CREATE on the database, or make the schema and grant all on it",
                pool.place()
            ))
        }
        StoreError::Invalid(why) => {
            StoreError::Invalid(format!("cannot make the tables in schema {schema}: {why}"))
        }
        other => other,
    }
}
