//! Files that were damaged by a disk or by hand.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use redial_queue::durable::{
    Claim, Filter, JobId, JobVerdict, NewJob, Settlement, State, Store, StoreError, WhenWaiting,
};
use redial_queue::sqlite::SqliteStore;
use redial_queue::sqlite::rusqlite::Connection;

use super::support::{Directory, MINUTE, claim, open};

const JOBS: usize = 300;

async fn fill(path: &Path) {
    let store = open(path);
    let job = |number: usize| {
        let job = NewJob::new(format!("payload {number}").repeat(20)).header("number", "x");
        if number.is_multiple_of(3) {
            job.key(format!("{number}"), WhenWaiting::Append)
        } else {
            job
        }
    };
    store.enqueue("q", (0..JOBS).map(job).collect()).await.unwrap();
}

/// Opens the file and completes all jobs in it. Returns their number.
async fn drain(path: &Path) -> Result<usize, StoreError> {
    let store = SqliteStore::open(path)?;
    let mut done = 0;
    loop {
        let asked = Claim { queue: "q".to_owned(), most: 50, lease: MINUTE };
        let claims = store.claim(&asked).await?;
        if claims.jobs.is_empty() && claims.next.is_none_or(|next| !next.is_zero()) {
            let dead = Filter { reason: Some("unreadable".to_owned()), ..Filter::default() };
            done += store.list(&dead).await?.len();
            let wrong = store.verify()?;
            return if wrong.is_empty() {
                Ok(done)
            } else {
                Err(StoreError::Stopped(wrong.join("; ")))
            };
        }
        let settlement = |claimed: &redial_queue::durable::Claimed| Settlement {
            lease: claimed.lease,
            verdict: JobVerdict::Done,
            took: MINUTE,
            outcome: String::new(),
        };
        done += claims.jobs.len();
        store.settle(claims.jobs.iter().map(settlement).collect()).await?;
    }
}

/// Whether a damaged copy is usable: either all jobs are there, or an error reports the damage.
async fn check(path: &Path, what: &str) -> bool {
    match drain(path).await {
        Ok(done) => {
            assert_eq!(done, JOBS, "{what}: jobs are missing without an error");
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty(), "{what}");
            false
        }
    }
}

#[tokio::test]
async fn flipped_bits_are_reported_or_harmless() {
    let directory = Directory::new();
    let (good, bad) = (directory.path("good"), directory.path("bad"));
    fill(&good).await;
    assert_eq!(drain_copy(&good, &bad).await, JOBS);
    let bytes = fs::read(&good).unwrap();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut usable, mut reported) = (0, 0);
    for round in 0..250_u32 {
        let mut copy = bytes.clone();
        let mut places = Vec::new();
        for _ in 0..=round % 3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Every second round hits the header of a page, which SQLite itself needs.
            let mut at = usize::try_from(random >> 8).unwrap() % copy.len();
            if round.is_multiple_of(2) {
                at = at / 4096 * 4096 + at % 48;
            }
            copy[at] ^= 1 << (random & 7);
            places.push((at, random & 7));
        }
        write(&bad, &copy);
        let what = format!("round {round}, bits {places:?}");
        if check(&bad, &what).await {
            usable += 1;
        } else {
            reported += 1;
        }
    }
    assert!(usable > 0 && reported > 0, "{usable} usable, {reported} reported");
}

#[tokio::test]
async fn a_truncated_file_is_reported() {
    let directory = Directory::new();
    let (good, bad) = (directory.path("good"), directory.path("bad"));
    fill(&good).await;
    let bytes = fs::read(&good).unwrap();
    let lengths = (1..bytes.len()).step_by(bytes.len() / 97);
    let pages = (1..bytes.len() / 4096).step_by(5).map(|page| page * 4096);
    for length in lengths.chain(pages) {
        write(&bad, &bytes[..length]);
        let sound = check(&bad, &format!("{length} bytes")).await;
        // The end of the last page may be empty.
        assert!(!sound || bytes.len() - length < 4096, "{length} bytes are not enough");
    }
}

#[tokio::test]
async fn damage_stops_the_store() {
    let directory = Directory::new();
    let path = directory.path("jobs");
    fill(&path).await;
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("DELETE FROM redial_job WHERE id = 7").unwrap();
    drop(conn);
    let store = open(&path);
    let wrong = store.verify().unwrap();
    assert_eq!(wrong, ["job 7 is queued, but does not exist"]);
    let asked = Claim { queue: "q".to_owned(), most: 50, lease: MINUTE };
    let error = store.claim(&asked).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StoreError::Stopped(_)), "{text}");
    assert!(
        text.contains("job 7 is queued, but does not exist") && text.contains("backup"),
        "{text}"
    );
    let again = [
        store.enqueue("q", vec![NewJob::new("x")]).await.unwrap_err(),
        store.get(JobId(1)).await.unwrap_err(),
        store.changed("q", 0).await.unwrap_err(),
    ];
    for error in again {
        assert_eq!(error.to_string(), text);
    }
}

#[tokio::test]
async fn an_unreadable_row_does_not_block_others() {
    let directory = Directory::new();
    let path = directory.path("jobs");
    let store = open(&path);
    let jobs = (0..6).map(|n| NewJob::new(format!("{n}")).key("k", WhenWaiting::Append));
    store
        .set(
            "q",
            &redial_queue::durable::QueueSettings {
                per_key: NonZeroU32::new(5),
                ..Default::default()
            },
        )
        .await
        .unwrap();
    store.enqueue("q", jobs.collect()).await.unwrap();
    let conn = Connection::open(&path).unwrap();
    let sql = "UPDATE redial_job SET headers = '{' WHERE id = 1; \
               UPDATE redial_job SET history = '[7]' WHERE id = 2; \
               UPDATE redial_job SET policy = CAST(x'ff' AS TEXT) WHERE id = 3;";
    conn.execute_batch(sql).unwrap();
    let first = claim(&store, "q", 5).await;
    let ids: Vec<_> = first.jobs.iter().map(|claimed| claimed.job.id.0).collect();
    assert_eq!(ids, [4, 5]);
    let ids: Vec<_> = claim(&store, "q", 5).await.jobs.iter().map(|c| c.job.id.0).collect();
    assert_eq!(ids, [6], "a dead letter does not hold others");
    let dead = Filter { state: Some(State::Dead), ..Filter::default() };
    let dead = store.list(&dead).await.unwrap();
    assert_eq!(dead.iter().map(|job| job.id.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(dead.iter().all(|job| job.reason.as_deref() == Some("unreadable")));
    assert_eq!(dead[0].payload, b"0", "the readable part is shown");
    assert_eq!(store.counts("q").await.unwrap().died, 3);

    let edit = redial_queue::durable::Edit { headers: Some(Vec::new()), ..Default::default() };
    assert!(store.edit(JobId(1), edit).await.unwrap());
    let filter = Filter { ids: vec![JobId(1), JobId(2)], ..Filter::default() };
    assert_eq!(store.redrive(&filter, Default::default()).await.unwrap(), 2);
    let ids: Vec<_> = claim(&store, "q", 5).await.jobs.iter().map(|c| c.job.id.0).collect();
    assert_eq!(ids, [1, 2]);
}

async fn drain_copy(good: &Path, bad: &Path) -> usize {
    write(bad, &fs::read(good).unwrap());
    drain(bad).await.unwrap()
}

/// Writes a database file without a log.
fn write(path: &Path, bytes: &[u8]) {
    let beside = |end: &str| format!("{}{end}", path.display());
    let _ = (fs::remove_file(beside("-wal")), fs::remove_file(beside("-shm")));
    fs::write(path, bytes).unwrap();
}
