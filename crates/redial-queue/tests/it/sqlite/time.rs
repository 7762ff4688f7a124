//! The store's time when the saved time and clocks in the file differ from those of the machine: some time later, after a restart of the
//! machine, or with another wall clock than the process before.

use std::path::Path;
use std::time::{Duration, SystemTime};

use redial_queue::durable::{NewJob, Start, Store, StoreError};
use redial_queue::sqlite::SqliteStore;
use redial_queue::sqlite::rusqlite::Connection;

use super::support::{Directory, claim, claim_for, open};

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;

/// Changes the saved time and clocks of a file.
fn change_saved(path: &Path, sql: &str) {
    let changed =
        Connection::open(path).unwrap().execute(&format!("UPDATE redial_store SET {sql}"), []);
    assert_eq!(changed.unwrap(), 1);
}

fn saved_time(path: &Path) -> i64 {
    let conn = Connection::open(path).unwrap();
    conn.query_row("SELECT time FROM redial_store", [], |row| row.get(0)).unwrap()
}

/// How many minutes the store's time is ahead of the wall clock, rounded.
async fn ahead(store: &SqliteStore) -> i64 {
    let (store, wall) = (store.time().await.unwrap(), SystemTime::now());
    let minutes = |apart: Duration| (apart.as_secs_f64() / 60.0).round() as i64;
    match store.duration_since(wall) {
        Ok(ahead) => minutes(ahead),
        Err(behind) => -minutes(behind.duration()),
    }
}

async fn add_later(store: &SqliteStore, after: i64) {
    let after = Start::After(Duration::from_micros(after.unsigned_abs()));
    store.enqueue("q", vec![NewJob::new("x").start(after)]).await.unwrap();
}

/// A file with one job that is due after this long, whose saved time was then changed.
async fn file(directory: &Directory, after: i64, sql: &str) -> std::path::PathBuf {
    let path = directory.path("jobs");
    let store = open(&path);
    add_later(&store, after).await;
    drop(store);
    change_saved(&path, sql);
    path
}

#[tokio::test]
async fn time_advances_while_no_process_has_the_file_open() {
    let directory = Directory::new();
    let path = file(&directory, HOUR / 2, &format!("uptime = uptime - {HOUR}")).await;
    assert_eq!(claim(&open(&path), "q", 1).await.jobs.len(), 1, "an hour has passed");
}

#[tokio::test]
async fn a_process_with_a_wrong_wall_clock_changes_no_wait() {
    for wrong in [-6 * DAY, -HOUR, HOUR, 6 * DAY, 400 * DAY] {
        let directory = Directory::new();
        let path = file(&directory, HOUR / 2, &format!("wall = wall + {wrong}")).await;
        let store = open(&path);
        assert_eq!(ahead(&store).await, 0, "{wrong}");
        assert!(claim(&store, "q", 1).await.jobs.is_empty(), "{wrong}");
    }
}

#[tokio::test]
async fn after_a_restart_of_the_machine_the_wall_clock_says_how_long_it_was_off() {
    let directory = Directory::new();
    let sql = format!("boot = 'another', time = time - {DAY}, wall = wall - {DAY}");
    let path = file(&directory, -DAY + HOUR, &sql).await;
    let store = open(&path);
    assert_eq!(ahead(&store).await, 0);
}

#[tokio::test]
async fn time_advances_over_short_lived_processes_after_the_wall_clock_was_set_back() {
    let directory = Directory::new();
    let ahead_by = format!("boot = 'another', time = time + {HOUR}, wall = wall + {HOUR}");
    let path = file(&directory, HOUR + 60 * SECOND, &ahead_by).await;
    let store = open(&path);
    assert_eq!(ahead(&store).await, 60, "it continues from the saved time");
    assert!(claim(&store, "q", 1).await.jobs.is_empty());
    drop(store);
    change_saved(&path, &format!("uptime = uptime - {}", 120 * SECOND));
    let store = open(&path);
    assert_eq!(ahead(&store).await, 62, "the next process knows how long ago that was");
    assert_eq!(claim(&store, "q", 1).await.jobs.len(), 1);
}

#[tokio::test]
async fn the_saved_time_lags_at_most_a_second() {
    let directory = Directory::new();
    let path = file(&directory, HOUR, &format!("uptime = uptime - {}", 5 * SECOND)).await;
    let before = saved_time(&path);
    let store = open(&path);
    add_later(&store, HOUR).await;
    assert!(saved_time(&path) >= before + 5 * SECOND);
}

#[tokio::test]
async fn an_implausible_clock_is_refused_and_says_what_to_do() {
    let restarted = |by: i64| format!("boot = 'another', wall = wall + {by}, time = time + {by}");
    for (sql, days, direction) in [
        (format!("time = time + {}", 400 * DAY), 400, "behind"),
        (format!("time = time - {}", 8 * DAY), 8, "ahead of"),
        (restarted(400 * DAY), 400, "behind"),
        (restarted(-400 * DAY), 400, "ahead of"),
        ("boot = 'another', wall = 0, time = 0".to_owned(), 20_000, "ahead of"),
    ] {
        let directory = Directory::new();
        let path = file(&directory, HOUR, &sql).await;
        let error = SqliteStore::open(&path).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StoreError::Invalid(_)), "{text}");
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        assert!(text.contains("redial queue clock --repair"), "{text}");
        assert!(text.contains(direction), "{sql}: {text}");
        let said = text.split(" days").next().unwrap().rsplit(' ').next().unwrap();
        assert!(said.parse::<i64>().unwrap().abs_diff(days) <= 1 || days == 20_000, "{text}");
    }
}

#[tokio::test]
async fn a_repair_keeps_the_length_of_waits_and_leases() {
    for by in [-400 * DAY, -HOUR, HOUR, 400 * DAY] {
        let directory = Directory::new();
        let path = directory.path("jobs");
        let store = open(&path);
        store.enqueue("q", vec![NewJob::new("runs")]).await.unwrap();
        let lease = Duration::from_secs(3600);
        let running = claim_for(&store, "q", 1, lease).await.jobs.remove(0);
        add_later(&store, 2 * HOUR).await;
        drop(store);
        // As if everything had happened under another clock.
        for sql in [
            "UPDATE redial_store SET time = time + ?1, wall = wall + ?1",
            "UPDATE redial_job SET due = due + ?1, created = created + ?1",
            "UPDATE redial_ready SET due = due + ?1",
            "UPDATE redial_running SET until = until + ?1, since = since + ?1, begun = begun + ?1",
        ] {
            Connection::open(&path).unwrap().execute(sql, [by]).unwrap();
        }

        let moved = SqliteStore::repair_clock(&path).unwrap();
        assert!((moved + by).abs() < 60 * SECOND, "{moved}");
        let store = open(&path);
        assert_eq!(ahead(&store).await, 0);
        let next = claim(&store, "q", 1).await;
        assert!(next.jobs.is_empty());
        let left = next.next.unwrap();
        assert!(left > lease - Duration::from_secs(60) && left <= lease, "{left:?}");
        assert_eq!(store.beat(&[running.lease], lease).await.unwrap(), [true]);
        let later = store.list(&Default::default()).await.unwrap().pop().unwrap().due;
        let left = later.duration_since(SystemTime::now()).unwrap();
        assert!(left > lease * 2 - Duration::from_secs(60) && left <= lease * 2, "{left:?}");
        assert_eq!(store.verify().unwrap(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn an_open_store_continues_with_the_repaired_time() {
    let directory = Directory::new();
    let path = directory.path("jobs");
    let store = open(&path);
    add_later(&store, 2 * HOUR).await;
    change_saved(&path, &format!("time = time + {HOUR}"));
    add_later(&store, 3 * HOUR).await;
    assert_eq!(ahead(&store).await, 60);

    assert!(SqliteStore::repair_clock(&path).unwrap() < 0);
    assert!(claim(&store, "q", 1).await.jobs.is_empty());
    assert_eq!(ahead(&store).await, 0);
}

#[tokio::test]
async fn a_repair_does_not_change_other_files() {
    let directory = Directory::new();
    let missing = directory.path("missing");
    let error = SqliteStore::repair_clock(&missing).unwrap_err().to_string();
    assert!(error.contains("is not a Redial store") && !missing.exists(), "{error}");
    let other = directory.path("other");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE orders (id INTEGER)").unwrap();
    let error = SqliteStore::repair_clock(&other).unwrap_err().to_string();
    assert!(error.contains("is not a Redial store"), "{error}");
}

#[tokio::test]
async fn a_job_for_a_time_of_day_starts_then_by_the_wall_clock() {
    let directory = Directory::new();
    let path = file(&directory, DAY, &format!("time = time + {HOUR}")).await;
    let store = open(&path);
    let at = SystemTime::now() + Duration::from_secs(60);
    store.enqueue("q", vec![NewJob::new("x").start(Start::At(at))]).await.unwrap();
    let next = claim(&store, "q", 1).await.next.unwrap();
    assert!(next > Duration::from_secs(30) && next <= Duration::from_secs(60), "{next:?}");
}

#[tokio::test]
async fn files_of_older_versions_are_migrated() {
    let to_2 = "ALTER TABLE redial_job DROP COLUMN poll; UPDATE redial_store SET version = 2";
    let to_1 = "ALTER TABLE redial_store RENAME COLUMN time TO clock; ALTER TABLE redial_store DROP COLUMN wall; ALTER TABLE redial_store DROP COLUMN boot; \
                ALTER TABLE redial_store DROP COLUMN uptime; ALTER TABLE redial_store DROP COLUMN repairs; \
                UPDATE redial_store SET version = 1";
    for steps in [&[to_2][..], &[to_2, to_1]] {
        let directory = Directory::new();
        let path = directory.path("jobs");
        let store = open(&path);
        add_later(&store, HOUR).await;
        drop(store);
        Connection::open(&path).unwrap().execute_batch(&steps.join("; ")).unwrap();
        let store = open(&path);
        assert_eq!(ahead(&store).await, 0);
        assert!(claim(&store, "q", 1).await.jobs.is_empty());
        assert_eq!(store.counts("q").await.unwrap().later, 1);
        drop(store);
        assert_eq!(open(&path).verify().unwrap(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn time_in_suspend_counts_for_an_open_store() {
    let directory = Directory::new();
    let path = directory.path("jobs");
    let store = open(&path);
    add_later(&store, HOUR).await;
    // As if the machine had been suspended while this process was running.
    change_saved(&path, &format!("uptime = uptime - {}, time = time - {}", 2 * HOUR, 2 * SECOND));
    assert_eq!(claim(&store, "q", 1).await.jobs.len(), 1);
}

/// The uptime has a resolution of 10 ms. A store that added up the rounding errors would be minutes ahead after a day.
#[tokio::test]
async fn a_coarse_uptime_does_not_add_up() {
    let directory = Directory::new();
    let path = directory.path("jobs");
    let store = open(&path);
    for _ in 0..100 {
        let sql = format!("time = time - {}, uptime = uptime - {}", 2 * SECOND, 2 * SECOND + 9_000);
        change_saved(&path, &sql);
        claim(&store, "q", 1).await;
    }
    let (time, wall) = (store.time().await.unwrap(), SystemTime::now());
    let ahead = time.duration_since(wall).unwrap_or_default();
    assert!(ahead < Duration::from_millis(500), "{ahead:?}");
}
