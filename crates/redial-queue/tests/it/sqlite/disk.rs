//! Disks that are full or fail. The store reports that it has stopped, and everything it acknowledged is there afterwards.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use redial_queue::durable::{Filter, NewJob, Store, StoreError};

use super::shim;
use super::support::{Directory, claim, open, within};

#[tokio::test]
async fn an_fsync_that_fails_stops_the_store() {
    shim::register();
    let directory = Directory::new();
    let path = directory.path("jobs");
    let store = open(&path);
    store.enqueue("q", vec![NewJob::new("before")]).await.unwrap();
    assert!(claim(&store, "other", 1).await.jobs.is_empty());
    shim::fail(&path, true);
    let error = store.enqueue("q", vec![NewJob::new("lost")]).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StoreError::Stopped(_)), "{text}");
    assert!(
        text.contains("the disk has failed") && text.contains("open the store again"),
        "{text}"
    );

    // Syncs succeed again, but the store must not rely on that.
    shim::fail(&path, false);
    let syncs = shim::syncs(&path);
    let error = store.enqueue("q", vec![NewJob::new("after")]).await.unwrap_err();
    assert_eq!(error.to_string(), text);
    assert_eq!(store.counts("q").await.unwrap_err().to_string(), text);
    assert_eq!(within(store.changed("other", 0)).await.unwrap_err().to_string(), text);
    drop(store);
    assert_eq!(shim::syncs(&path), syncs, "no further sync, not even on close");

    let store = open(&path);
    let jobs = store.list(&Filter::default()).await.unwrap();
    assert_eq!(jobs[0].payload, b"before");
    assert!(jobs.iter().all(|job| job.payload != b"after"));
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_checkpoint_that_fails_stops_the_store_and_keeps_the_log() {
    shim::register();
    let directory = Directory::new();
    let path = directory.path("jobs");
    let store = open(&path);
    shim::fail_in_the_file(&path, true);
    let mut acknowledged = 0;
    let error = within(async {
        loop {
            let jobs = (0..20).map(|_| NewJob::new(vec![7; 20_000])).collect();
            match store.enqueue("q", jobs).await {
                Ok(added) => acknowledged += added.len(),
                Err(error) => return error,
            }
        }
    })
    .await;
    assert!(matches!(error, StoreError::Stopped(_)), "{error}");
    drop(store);
    shim::fail_in_the_file(&path, false);
    let store = open(&path);
    assert_eq!(store.counts("q").await.unwrap().due, acknowledged as u64);
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn many_requests_share_one_fsync() {
    shim::register();
    let directory = Directory::new();
    let path = directory.path("jobs");
    let store = Arc::new(open(&path));
    let before = shim::syncs(&path);
    let enqueue = |_| {
        let store = store.clone();
        tokio::spawn(async move { store.enqueue("q", vec![NewJob::new("x")]).await.unwrap() })
    };
    let tasks: Vec<_> = (0..1000).map(enqueue).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let syncs = shim::syncs(&path) - before;
    assert!((1..500).contains(&syncs), "{syncs} for 1000 jobs");
    assert_eq!(store.counts("q").await.unwrap().due, 1000);
}

#[tokio::test]
async fn each_step_alone_is_on_the_disk() {
    shim::register();
    let directory = Directory::new();
    let path = directory.path("jobs");
    let store = open(&path);
    for _ in 0..5 {
        let before = shim::syncs(&path);
        store.enqueue("q", vec![NewJob::new("x")]).await.unwrap();
        assert!(shim::syncs(&path) > before, "it replied before the sync");
    }
}

/// In a child process whose files are limited to 2 MB.
#[tokio::test]
async fn a_full_disk_stops_the_store() {
    let directory = Directory::new();
    let path = directory.path("jobs");
    let mut child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite::disk::until_the_disk_is_full", "--nocapture"])
        .env("REDIAL_TEST_STORE", &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let output: Vec<String> = lines.collect();
    assert!(child.wait().unwrap().success(), "{output:#?}");
    let count = |start: &str| output.iter().filter(|line| line.contains(start)).count();
    let (acknowledged, stopped) = (count("acknowledged"), count("stopped"));
    assert!(acknowledged > 0, "{output:#?}");
    assert_eq!(stopped, 2, "{output:#?}");

    let store = open(&path);
    let due = store.counts("q").await.unwrap().due;
    assert!(due >= acknowledged as u64, "{due} of {acknowledged} are there");
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
}

/// The child process of the test above; without a path it does nothing.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "this is how the child reports")]
async fn until_the_disk_is_full() {
    let Ok(path) = std::env::var("REDIAL_TEST_STORE") else { return };
    let store = open(path);
    let enqueue = async || store.enqueue("q", vec![NewJob::new(vec![7; 3000])]).await;
    let error = loop {
        match enqueue().await {
            Ok(_) => println!("acknowledged"),
            Err(error) => break error,
        }
    };
    for error in [error, enqueue().await.unwrap_err()] {
        assert!(matches!(error, StoreError::Stopped(_)), "{error}");
        println!("stopped: {error}");
    }
}
