//! The states of an idempotency record, as in the tests of the other stores.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redial::http::server::idempotency::{
    Begun, IdempotencyStore, IdempotencyStoreError, Interrupted, KeyClaim, KeyTerms,
};

use redial_sqlite::SqliteFile;

/// A temporary directory.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("redial-keys-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(path: impl AsRef<Path>) -> SqliteFile {
    SqliteFile::open(path).unwrap()
}

/// Waits for an event that has no defined time.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), future).await.expect("timed out")
}

const HOUR: Duration = Duration::from_secs(3600);

const TERMS: KeyTerms = KeyTerms { lease: HOUR, ttl: HOUR, on_interrupted: Interrupted::Refuse };

/// A lease that runs out at once.
const OVER: KeyTerms = KeyTerms { lease: Duration::ZERO, ..TERMS };

fn claim(key: u8, fingerprint: u8) -> KeyClaim {
    KeyClaim::new([key; 32], [fingerprint; 32])
}

fn finished(response: &'static str) -> Begun {
    Begun::Finished(response.into())
}

#[tokio::test]
async fn a_running_record() {
    let directory = Directory::new();
    let store = open(directory.path("keys"));
    let (first, second) = (claim(1, 1), claim(1, 1));
    assert_eq!(store.begin(&first, &TERMS).await.unwrap(), Begun::Started);
    assert_eq!(store.begin(&second, &TERMS).await.unwrap(), Begun::InFlight);
    assert_eq!(store.begin(&claim(1, 2), &TERMS).await.unwrap(), Begun::Mismatch);
    assert_eq!(store.begin(&first, &TERMS).await.unwrap(), Begun::Started, "the reply was lost");
    store.renew(&first, &TERMS).await.unwrap();
    assert_eq!(store.begin(&second, &TERMS).await.unwrap(), Begun::InFlight);
    store.release(&second).await.unwrap();
    assert_eq!(store.begin(&second, &TERMS).await.unwrap(), Begun::InFlight, "not its own");
    store.release(&first).await.unwrap();
    assert_eq!(store.begin(&claim(1, 2), &TERMS).await.unwrap(), Begun::Started);
}

#[tokio::test]
async fn a_finished_record() {
    let directory = Directory::new();
    let store = open(directory.path("keys"));
    let first = claim(1, 1);
    store.begin(&first, &TERMS).await.unwrap();
    store.finish(&first, "paid".into(), &TERMS).await.unwrap();
    for terms in [TERMS, OVER] {
        assert_eq!(store.begin(&claim(1, 1), &terms).await.unwrap(), finished("paid"));
        assert_eq!(store.begin(&claim(1, 2), &terms).await.unwrap(), Begun::Mismatch);
        store.renew(&first, &terms).await.unwrap();
        store.release(&first).await.unwrap();
    }
    assert_eq!(store.begin(&first, &TERMS).await.unwrap(), finished("paid"));
}

#[tokio::test]
async fn an_interrupted_record() {
    let directory = Directory::new();
    let store = open(directory.path("keys"));
    let (first, second) = (claim(1, 1), claim(1, 1));
    store.begin(&first, &OVER).await.unwrap();
    assert_eq!(store.begin(&second, &TERMS).await.unwrap(), Begun::Interrupted);
    assert_eq!(store.begin(&claim(1, 2), &TERMS).await.unwrap(), Begun::Mismatch);
    let executes = KeyTerms { on_interrupted: Interrupted::Execute, ..TERMS };
    assert_eq!(store.begin(&claim(1, 2), &executes).await.unwrap(), Begun::Mismatch);
    assert_eq!(store.begin(&second, &executes).await.unwrap(), Begun::Resumed);
    assert_eq!(store.begin(&claim(1, 1), &executes).await.unwrap(), Begun::InFlight);
    store.renew(&second, &OVER).await.unwrap();
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), Begun::Interrupted);
}

#[tokio::test]
async fn a_late_owner_changes_nothing() {
    let directory = Directory::new();
    let store = open(directory.path("keys"));
    let (late, next) = (claim(1, 1), claim(1, 1));
    let executes = KeyTerms { on_interrupted: Interrupted::Execute, ..TERMS };
    store.begin(&late, &OVER).await.unwrap();
    assert_eq!(store.begin(&next, &executes).await.unwrap(), Begun::Resumed);

    let lost = |result| matches!(result, Err(IdempotencyStoreError::Lost));
    assert!(lost(store.renew(&late, &OVER).await));
    assert!(lost(store.finish(&late, "late".into(), &TERMS).await));
    store.release(&late).await.unwrap();
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), Begun::InFlight);

    store.finish(&next, "next".into(), &TERMS).await.unwrap();
    assert!(lost(store.finish(&late, "late".into(), &TERMS).await));
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), finished("next"));
}

#[tokio::test]
async fn a_late_owner_may_finish_if_no_other_has_begun() {
    let directory = Directory::new();
    let store = open(directory.path("keys"));
    let late = claim(1, 1);
    store.begin(&late, &OVER).await.unwrap();
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), Begun::Interrupted);
    store.finish(&late, "late".into(), &TERMS).await.unwrap();
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), finished("late"));
}

#[tokio::test]
async fn a_record_that_was_lost_is_written_back() {
    let directory = Directory::new();
    let store = open(directory.path("keys"));
    let (running, done) = (claim(1, 1), claim(2, 1));
    store.renew(&running, &TERMS).await.unwrap();
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), Begun::InFlight);
    store.finish(&done, "paid".into(), &TERMS).await.unwrap();
    assert_eq!(store.begin(&claim(2, 1), &TERMS).await.unwrap(), finished("paid"));
}

#[tokio::test]
async fn a_record_expires() {
    let directory = Directory::new();
    let store = open(directory.path("keys"));
    let short = KeyTerms { ttl: Duration::from_millis(1), ..OVER };
    let started = async |key| {
        within(async {
            while store.begin(&claim(key, 2), &TERMS).await.unwrap() != Begun::Started {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    };
    store.finish(&claim(1, 1), "paid".into(), &short).await.unwrap();
    store.begin(&claim(2, 1), &short).await.unwrap();
    started(1).await;
    started(2).await;
}

#[tokio::test]
async fn keys_are_independent() {
    let directory = Directory::new();
    let store = open(directory.path("keys"));
    store.finish(&claim(1, 1), "one".into(), &TERMS).await.unwrap();
    store.finish(&claim(2, 1), "two".into(), &TERMS).await.unwrap();
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), finished("one"));
    assert_eq!(store.begin(&claim(2, 1), &TERMS).await.unwrap(), finished("two"));
    assert_eq!(store.begin(&claim(3, 1), &TERMS).await.unwrap(), Begun::Started);
}

#[tokio::test]
async fn executed_requests_survive_a_restart() {
    let directory = Directory::new();
    let (done, running) = (claim(1, 1), claim(2, 1));
    let store = open(directory.path("keys"));
    store.begin(&done, &TERMS).await.unwrap();
    store.finish(&done, "paid".into(), &TERMS).await.unwrap();
    store.begin(&running, &TERMS).await.unwrap();
    drop(store);
    let store = open(directory.path("keys"));
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), finished("paid"));
    assert_eq!(store.begin(&claim(2, 1), &TERMS).await.unwrap(), Begun::InFlight);
    store.finish(&running, "paid too".into(), &TERMS).await.unwrap();
    assert_eq!(store.begin(&claim(2, 1), &TERMS).await.unwrap(), finished("paid too"));
}

#[tokio::test]
async fn two_processes_execute_once() {
    let directory = Directory::new();
    let stores = [open(directory.path("keys")), open(directory.path("keys"))];
    let mut started = 0;
    for key in 0..20 {
        let claims = [claim(key, 1), claim(key, 1)];
        let (one, other) =
            tokio::join!(stores[0].begin(&claims[0], &TERMS), stores[1].begin(&claims[1], &TERMS));
        let begun = [one.unwrap(), other.unwrap()];
        assert!(begun.contains(&Begun::InFlight), "{begun:?}");
        started += begun.iter().filter(|begun| **begun == Begun::Started).count();
    }
    assert_eq!(started, 20);
}

#[tokio::test]
async fn expired_records_are_removed() {
    let directory = Directory::new();
    let path = directory.path("keys");
    let store = open(&path);
    let short = KeyTerms { ttl: Duration::from_micros(1), ..OVER };
    for key in 0..100 {
        store.finish(&claim(key, 1), "paid".into(), &short).await.unwrap();
    }
    store.release(&claim(200, 1)).await.unwrap();
    let left: i64 = redial_sqlite::rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM redial_idempotency", [], |row| row.get(0))
        .unwrap();
    assert!(left <= 2, "{left} are left");
}
