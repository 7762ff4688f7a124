use std::sync::Arc;

use redial_queue::sqlite::SqliteStore;

use super::shop::{Shop, fresh};

/// A store in a folder of its own.
pub(crate) async fn open() -> Shop {
    let folder = std::env::temp_dir().join(fresh());
    std::fs::create_dir(&folder).unwrap();
    let store = SqliteStore::open(folder.join("jobs.db")).unwrap();
    Shop { store: Arc::new(store), folder: Some(folder) }
}

conformance!(open);
