//! Several users of one file: the application's own transactions, and other processes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial_queue::durable::{
    Claimed, Enqueued, JobId, JobVerdict, NewJob, Settled, Start, Store, StoreError, WhenWaiting,
};
use redial_queue::sqlite::SqliteStore;
use redial_queue::sqlite::rusqlite::{Connection, TransactionBehavior};

use super::support::{Directory, MINUTE, claim, claim_for, open, settle, within};

#[tokio::test]
async fn jobs_are_committed_or_rolled_back_with_the_callers_transaction() {
    let directory = Directory::new();
    let path = directory.path("shop");
    let store = open(&path);
    let mut shop = Connection::open(&path).unwrap();
    shop.execute_batch("CREATE TABLE orders (what TEXT)").unwrap();
    for commits in [false, true] {
        let sale = shop.transaction().unwrap();
        sale.execute("INSERT INTO orders VALUES ('tea')", []).unwrap();
        let added = store.enqueue_in(&sale, "mails", &[NewJob::new("thanks")]).unwrap();
        assert_eq!(added, [Enqueued::Added(JobId(1))]);
        if commits {
            sale.commit().unwrap();
        } else {
            sale.rollback().unwrap();
        }
        let orders: u64 =
            shop.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap();
        assert_eq!(store.counts("mails").await.unwrap().enqueued, orders);
        assert_eq!(orders, u64::from(commits));
    }
    assert_eq!(claim(&store, "mails", 9).await.jobs[0].job.payload, b"thanks");
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn the_writer_waits_for_the_callers_transaction() {
    let directory = Directory::new();
    let path = directory.path("shop");
    let store = open(&path);
    let mut shop = Connection::open(&path).unwrap();
    let sale = shop.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    store.enqueue_in(&sale, "q", &[NewJob::new("first")]).unwrap();
    let mut ours = store.enqueue("q", vec![NewJob::new("second")]);
    let early = tokio::time::timeout(Duration::from_millis(100), &mut ours).await;
    assert!(early.is_err(), "the file is locked");
    sale.commit().unwrap();
    assert_eq!(within(ours).await.unwrap(), [Enqueued::Added(JobId(2))]);
}

#[tokio::test]
async fn a_file_that_stays_locked_is_reported_and_does_not_stop_the_store() {
    let directory = Directory::new();
    let path = directory.path("shop");
    let store = open(&path);
    let mut shop = Connection::open(&path).unwrap();
    let sale = shop.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let error = within(store.enqueue("q", vec![NewJob::new("x")])).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("another process has had the file locked"), "{error}");
    sale.commit().unwrap();
    store.enqueue("q", vec![NewJob::new("x")]).await.unwrap();
}

#[test]
fn a_transaction_on_another_file() {
    let directory = Directory::new();
    let store = open(directory.path("jobs"));
    let mut other = Connection::open(directory.path("other")).unwrap();
    let sale = other.transaction().unwrap();
    let error = store.enqueue_in(&sale, "q", &[NewJob::new("x")]).unwrap_err();
    assert!(matches!(error, StoreError::Invalid(_)));
    assert!(error.to_string().contains("not on the store's file"), "{error}");
    let mut same = Connection::open(directory.path("jobs")).unwrap();
    let sale = same.transaction().unwrap();
    let large = NewJob::new(vec![0; NewJob::MOST_PAYLOAD + 1]);
    let error = store.enqueue_in(&sale, "q", &[large]).unwrap_err();
    assert!(error.to_string().contains("a payload may have at most"), "{error}");
}

#[tokio::test]
async fn changed_ends_for_changes_of_other_processes() {
    let directory = Directory::new();
    let path = directory.path("jobs");
    let store = open(&path);
    let mut shop = Connection::open(&path).unwrap();
    let seen = claim(&store, "q", 1).await.seen;
    let before = shop.transaction().unwrap();
    store.enqueue_in(&before, "q", &[NewJob::new("before it waits")]).unwrap();
    before.commit().unwrap();
    within(store.changed("q", seen)).await.unwrap();
    let claims = claim(&store, "q", 2).await;
    assert_eq!(claims.jobs.len(), 1);

    let waits = store.changed("q", claims.seen);
    let other = async {
        let other = open(&path);
        other.enqueue("q", vec![NewJob::new("while it waits")]).await.unwrap();
    };
    let (changed, ()) = within(async { tokio::join!(waits, other) }).await;
    changed.unwrap();
    assert_eq!(within(claim_when_due(&store)).await.len(), 1);
}

/// Claims as a worker does, when the store says that a job is due. The clocks of two processes differ by as long as one of them was
/// not running while it read the time.
async fn claim_when_due(store: &SqliteStore) -> Vec<Claimed> {
    loop {
        let claims = claim(store, "q", 2).await;
        if !claims.jobs.is_empty() {
            return claims.jobs;
        }
        tokio::time::sleep(claims.next.expect("a job that will be due")).await;
    }
}

#[tokio::test]
async fn a_change_of_another_queue_does_not_end_the_wait() {
    let directory = Directory::new();
    let store = open(directory.path("jobs"));
    let seen = claim(&store, "q", 1).await.seen;
    let mut waits = store.changed("q", seen);
    store.enqueue("other", vec![NewJob::new("x")]).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(100), &mut waits).await;
    assert!(early.is_err());
    store.enqueue("q", vec![NewJob::new("x")]).await.unwrap();
    within(waits).await.unwrap();
}

#[tokio::test]
async fn a_slow_worker_in_another_process_is_fenced() {
    let directory = Directory::new();
    let path = directory.path("jobs");
    let (slow, quick) = (open(&path), open(&path));
    slow.enqueue("q", vec![NewJob::new("x")]).await.unwrap();
    let late = claim_for(&slow, "q", 1, Duration::ZERO).await.jobs.remove(0);
    let taken = within(claim_when_due(&quick)).await.remove(0);
    assert!(taken.lease.fence > late.lease.fence);
    assert_eq!(slow.beat(&[late.lease], MINUTE).await.unwrap(), [false]);
    assert_eq!(settle(&slow, &late, JobVerdict::Done).await, Settled::Stale);
    assert_eq!(settle(&quick, &taken, JobVerdict::Done).await, Settled::Taken);
    assert_eq!(settle(&slow, &late, JobVerdict::Done).await, Settled::Stale);
    let counts = slow.counts("q").await.unwrap();
    assert_eq!((counts.done, counts.lost, counts.stale), (1, 1, 3));
}

/// Works until all workers together have completed `most` jobs.
async fn work(store: SqliteStore, done: Arc<Mutex<Vec<JobId>>>, most: usize) {
    while done.lock().unwrap().len() < most {
        let claims = claim(&store, "q", 5).await;
        for claimed in &claims.jobs {
            assert_eq!(settle(&store, claimed, JobVerdict::Done).await, Settled::Taken);
            done.lock().unwrap().push(claimed.job.id);
        }
        if claims.jobs.is_empty() {
            // The other worker may complete the last job, which is not a change.
            let waits = store.changed("q", claims.seen);
            let _ = tokio::time::timeout(Duration::from_millis(50), waits).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn two_workers_and_a_producer_on_one_file() {
    let directory = Directory::new();
    let path = directory.path("jobs");
    let enqueuing = open(&path);
    let done = Arc::<Mutex<Vec<JobId>>>::default();
    let start = || tokio::spawn(work(open(&path), done.clone(), 400));
    let workers = [start(), start()];
    let mut ids = Vec::new();
    for round in 0..100 {
        let keyed = |key: usize| NewJob::new("x").key(key.to_string(), WhenWaiting::Append);
        let jobs = vec![keyed(round % 3), NewJob::new("y"), keyed(round % 3), NewJob::new("z")];
        ids.extend(enqueuing.enqueue("q", jobs).await.unwrap().into_iter().map(Enqueued::id));
    }
    for worker in workers {
        within(worker).await.unwrap();
    }
    let mut done = std::mem::take(&mut *done.lock().unwrap());
    done.sort();
    assert_eq!(done, ids, "each job was done once");
    let counts = enqueuing.counts("q").await.unwrap();
    assert_eq!((counts.done, counts.lost, counts.stale, counts.held), (400, 0, 0, 0));
    assert_eq!(enqueuing.verify().unwrap(), Vec::<String>::new());
}

/// Moves the saved time of a file forward.
fn advance_saved_time(path: &std::path::Path, ahead: i64) {
    let conn = Connection::open(path).unwrap();
    conn.execute("UPDATE redial_store SET time = time + ?1", [ahead]).unwrap();
}

const DAY: i64 = 24 * 3600 * 1_000_000;

#[tokio::test]
async fn a_clock_behind_the_file_continues_from_the_saved_time() {
    let directory = Directory::new();
    let path = directory.path("jobs");
    let store = open(&path);
    let soon = NewJob::new("x").start(Start::After(Duration::from_secs(20 * 3600)));
    store.enqueue("q", vec![soon]).await.unwrap();
    assert!(claim(&store, "q", 1).await.jobs.is_empty());
    drop(store);

    advance_saved_time(&path, DAY);
    let store = open(&path);
    let job = claim(&store, "q", 1).await.jobs.remove(0);
    assert_eq!(job.job.progress.attempts, 1, "a day has passed for the store");

    // Waits have their length, and time advances although the wall clock is a day behind.
    let wait = Duration::from_secs(3600);
    settle(&store, &job, JobVerdict::Retry { wait, progress: Default::default() }).await;
    let next = claim(&store, "q", 1).await.next;
    assert!(next.is_some_and(|next| next <= wait), "{next:?}");
    let soon = NewJob::new("y").start(Start::After(Duration::from_millis(50)));
    store.enqueue("q", vec![soon]).await.unwrap();
    within(async {
        while claim(&store, "q", 1).await.jobs.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_process_ahead_in_time_moves_the_others_forward() {
    let directory = Directory::new();
    let path = directory.path("jobs");
    let store = open(&path);
    let soon = NewJob::new("x").start(Start::After(Duration::from_secs(20 * 3600)));
    store.enqueue("q", vec![soon]).await.unwrap();
    advance_saved_time(&path, DAY);
    let claims = claim(&store, "q", 1).await;
    assert_eq!(claims.jobs.len(), 1);
    let left = claims.jobs[0].job.due.duration_since(claims.jobs[0].job.begun.unwrap()).unwrap();
    assert_eq!(left, MINUTE, "the lease has its full length");
}
