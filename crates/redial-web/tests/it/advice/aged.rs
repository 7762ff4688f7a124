use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use redial_queue::durable::*;
use redial_queue::sqlite::SqliteStore;

use crate::delegate::delegate;

/// A store whose oldest due job is exactly so old. The time of a real one goes on while a test looks.
pub(super) struct Aged {
    store: SqliteStore,
    oldest: Duration,
}

impl Aged {
    /// A new folder for stores.
    pub(super) fn folder() -> PathBuf {
        let name = format!("aged-{}", redial::Key::fresh());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    pub(super) fn new(folder: &Path, oldest: Duration) -> Self {
        let path = folder.join(format!("{}.db", oldest.as_millis()));
        Self { store: SqliteStore::open(path).unwrap(), oldest }
    }
}

impl Store for Aged {
    fn oldest<'a>(&'a self, _: &'a str) -> Reply<'a, Duration> {
        Box::pin(async { Ok(self.oldest) })
    }

    delegate!(store: enqueue claim settle beat changed get list count groups edit remove redrive time queues settings set counts);
}
