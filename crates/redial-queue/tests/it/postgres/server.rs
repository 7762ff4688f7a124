//! The Postgres servers of the tests. Most tests share the one of `cargo xtask test`, each in a schema of its own; a test that stops
//! or exhausts the server starts its own.

use std::time::Duration;

use redial_queue::durable::{Claim, Claimed, JobVerdict, Settlement, Store, StoreError};
use redial_queue::postgres::PostgresStore;
use redial_queue::postgres::tokio_postgres::{Client, NoTls, connect};
use xtask::postgres::{Postgres, VARIABLE};

use crate::conformance::fresh;

pub(super) const QUEUE: &str = "orders";
pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// The address of the Postgres that all tests share.
pub(super) fn url() -> String {
    std::env::var(VARIABLE).expect("needs Postgres: run `cargo xtask test`")
}

/// A server for one test.
pub(super) fn own(settings: &[&str]) -> Postgres {
    Postgres::start_with(settings).expect("needs Postgres: run `cargo xtask setup`")
}

/// A store in a schema of its own, and the name of the schema.
pub(super) async fn store() -> (PostgresStore, String) {
    let schema = fresh();
    (PostgresStore::builder(&url()).schema(&schema).connect().await.unwrap(), schema)
}

/// A plain connection.
pub(super) async fn client(url: &str) -> Client {
    let (client, connection) = connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(super) async fn claim(
    store: &PostgresStore,
    most: usize,
    lease: Duration,
) -> Result<Vec<Claimed>, StoreError> {
    let claim = Claim { queue: QUEUE.to_owned(), most, lease };
    store.claim(&claim).await.map(|claims| claims.jobs)
}

pub(super) fn done(claimed: &Claimed) -> Settlement {
    let (took, outcome) = (Duration::ZERO, String::new());
    Settlement { lease: claimed.lease, verdict: JobVerdict::Done, took, outcome }
}

/// Repeats a step until the store can be reached.
pub(super) async fn until_reached<T, F>(mut step: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, StoreError>>,
{
    let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
    loop {
        match step().await {
            Ok(value) => return value,
            Err(StoreError::Unavailable(cause)) => {
                let late = tokio::time::Instant::now() > deadline;
                assert!(!late, "the store is still unavailable: {cause}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(other) => panic!("{other}"),
        }
    }
}
