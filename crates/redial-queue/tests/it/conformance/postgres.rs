use std::sync::Arc;

use redial_queue::postgres::PostgresStore;

use super::shop::{Shop, fresh};

/// A store in a schema of its own.
pub(crate) async fn open() -> Shop {
    let Ok(url) = std::env::var("REDIAL_TEST_POSTGRES") else {
        panic!("REDIAL_TEST_POSTGRES is not set: `cargo xtask test` starts a Postgres and sets it");
    };
    let store = PostgresStore::builder(&url).schema(&fresh()).connect().await.unwrap();
    Shop { store: Arc::new(store), folder: None }
}

conformance!(open);
