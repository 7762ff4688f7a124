//! The files of a store: deleted, replaced or copied while a process uses them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use redial_queue::durable::{Claim, JobVerdict, NewJob, Store, StoreError};
use redial_queue::sqlite::SqliteStore;

use super::support::{Directory, MINUTE, claim, open, settle, within};

fn stopped(error: &StoreError, event: &str) {
    let text = error.to_string();
    assert!(matches!(error, StoreError::Stopped(_)), "{text}");
    assert!(text.contains(event) && text.contains("restore a backup"), "{text}");
}

#[tokio::test]
async fn nothing_is_acknowledged_when_the_file_was_deleted_or_replaced() {
    for (name, replaced) in
        [("jobs", false), ("jobs", true), ("jobs-wal", false), ("jobs-shm", false)]
    {
        let directory = Directory::new();
        let store = open(directory.path("jobs"));
        store.enqueue("q", vec![NewJob::new("x")]).await.unwrap();
        fs::rename(directory.path(name), directory.path("aside")).unwrap();
        if replaced {
            fs::copy(directory.path("aside"), directory.path(name)).unwrap();
        }
        let error = store.enqueue("q", vec![NewJob::new("y")]).await.unwrap_err();
        stopped(&error, if replaced { "was replaced" } else { "was deleted or moved" });
        stopped(&store.counts("q").await.unwrap_err(), "while it was in use");
    }
}

#[tokio::test]
async fn a_worker_that_waits_notices_that_the_file_was_deleted() {
    let directory = Directory::new();
    let store = open(directory.path("jobs"));
    store.enqueue("q", vec![NewJob::new("x")]).await.unwrap();
    let asked = Claim { queue: "q".to_owned(), most: 1, lease: MINUTE };
    let seen = store.claim(&asked).await.unwrap().seen;
    fs::remove_file(directory.path("jobs")).unwrap();
    stopped(&within(store.changed("q", seen)).await.unwrap_err(), "was deleted");
}

#[tokio::test]
async fn a_backup_contains_the_log_and_a_copy_of_the_file_does_not() {
    let directory = Directory::new();
    let store = open(directory.path("jobs"));
    store.enqueue("q", (0..100).map(|_| NewJob::new("x")).collect()).await.unwrap();
    let first = claim(&store, "q", 1).await.jobs.remove(0);
    settle(&store, &first, JobVerdict::Done).await;

    SqliteStore::backup(store.path(), directory.path("backup")).unwrap();
    fs::copy(directory.path("jobs"), directory.path("copy")).unwrap();
    store.enqueue("q", vec![NewJob::new("later")]).await.unwrap();

    let mode = fs::metadata(directory.path("backup")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let left: Vec<_> =
        fs::read_dir(directory.path("")).unwrap().flatten().map(|file| file.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("backup.")), "{left:?}");
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("backup-")), "{left:?}");
    let backup = open(directory.path("backup"));
    let counts = backup.counts("q").await.unwrap();
    assert_eq!((counts.due, counts.done), (99, 1));
    assert_eq!(backup.verify().unwrap(), Vec::<String>::new());
    let copied = open(directory.path("copy")).counts("q").await.unwrap();
    assert!(copied.due < 99, "the log was not needed, so this tests nothing: {copied:?}");
}

#[tokio::test]
async fn a_backup_overwrites_nothing_and_names_what_is_wrong() {
    let directory = Directory::new();
    let store = open(directory.path("jobs"));
    fs::write(directory.path("there"), "mine").unwrap();
    for (to, what) in
        [("there", "exists already"), ("jobs", "exists already"), ("no/such", "cannot write")]
    {
        let to = directory.path(to);
        let text = SqliteStore::backup(store.path(), &to).unwrap_err().to_string();
        assert!(text.contains(what) && text.contains(to.to_str().unwrap()), "{text}");
    }
    assert_eq!(fs::read_to_string(directory.path("there")).unwrap(), "mine");
}

#[tokio::test]
async fn a_backup_is_a_snapshot_while_others_write() {
    let directory = Directory::new();
    let store = std::sync::Arc::new(open(directory.path("jobs")));
    store.enqueue("q", (0..2000).map(|_| NewJob::new("x".repeat(500))).collect()).await.unwrap();
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            // Each step completes a job of one queue and enqueues one in another.
            for _ in 0..200 {
                let job = claim(&store, "q", 1).await.jobs.remove(0);
                settle(&store, &job, JobVerdict::Done).await;
                store.enqueue("q", vec![NewJob::new("x".repeat(500))]).await.unwrap();
            }
        }
    });
    for number in 0..5 {
        let (store, to) = (store.clone(), directory.path(&format!("backup{number}")));
        tokio::task::spawn_blocking(move || SqliteStore::backup(store.path(), to))
            .await
            .unwrap()
            .unwrap();
        let copy = SqliteStore::open(directory.path(&format!("backup{number}"))).unwrap();
        assert_eq!(copy.verify().unwrap(), Vec::<String>::new());
        let counts = copy.counts("q").await.unwrap();
        let waiting = counts.due + counts.running;
        assert!((1999..=2000).contains(&waiting), "{counts:?}");
        assert_eq!(counts.enqueued - counts.done, waiting);
    }
    writer.await.unwrap();
}
