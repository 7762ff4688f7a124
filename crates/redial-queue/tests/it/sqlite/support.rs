use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redial_queue::durable::{Claim, Claimed, Claims, JobVerdict, Settled, Settlement, Store};
use redial_queue::sqlite::SqliteStore;

/// A temporary directory.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("redial-sqlite-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn open(path: impl AsRef<Path>) -> SqliteStore {
    SqliteStore::open(path).unwrap()
}

pub(super) const MINUTE: Duration = Duration::from_secs(60);

pub(super) async fn claim(store: &SqliteStore, queue: &str, most: usize) -> Claims {
    claim_for(store, queue, most, MINUTE).await
}

pub(super) async fn claim_for(
    store: &SqliteStore,
    queue: &str,
    most: usize,
    lease: Duration,
) -> Claims {
    store.claim(&Claim { queue: queue.to_owned(), most, lease }).await.unwrap()
}

pub(super) async fn settle(store: &SqliteStore, claimed: &Claimed, verdict: JobVerdict) -> Settled {
    let took = Duration::from_millis(3);
    let settlement =
        Settlement { lease: claimed.lease, verdict, took, outcome: "it broke".to_owned() };
    store.settle(vec![settlement]).await.unwrap().remove(0)
}

/// Waits for an event that has no defined time.
pub(super) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), future).await.expect("timed out")
}
