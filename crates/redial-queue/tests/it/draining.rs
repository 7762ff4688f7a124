use std::time::Duration;

use redial_queue::{Added, Priority, WorkQueue};

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::default()
}

fn now(queue: &WorkQueue<&'static str>, key: &'static str) -> Added<&'static str> {
    queue.try_add(key, Priority::NORMAL, Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn draining_loses_nothing() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        now(&queue, key);
    }
    queue.add_after("later", Duration::from_secs(3600)).await;
    let held = queue.get().await.unwrap();
    queue.close();
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut seen = Vec::new();
            while let Some(work) = queue.get().await {
                seen.push(*work.key());
                if *work.key() == "b" { work.failed() } else { work.done() }
            }
            seen
        }
    });
    let draining = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    tokio::task::yield_now().await;
    assert_eq!(now(&queue, "d"), Added::Closed);
    assert!(!draining.is_finished(), "a worker has a key");
    held.done();
    assert_eq!(draining.await.unwrap(), ["b"], "what failed comes back");
    assert_eq!(worker.await.unwrap(), ["b", "c", "later"]);
    assert!(queue.get().await.is_none());
}

/// As client-go's `ShutDown` after `ShutDownWithDrain`.
#[tokio::test(start_paused = true)]
async fn closing_ends_drains_that_have_begun() {
    let queue = queue();
    for key in ["a", "b"] {
        now(&queue, key);
    }
    let hangs = queue.get().await.unwrap();
    let drain = || {
        let queue = queue.clone();
        tokio::spawn(async move { queue.drain().await })
    };
    let drains = [drain(), drain()];
    tokio::task::yield_now().await;
    queue.get().await.unwrap().failed();
    tokio::task::yield_now().await;
    assert!(drains.iter().all(|drain| !drain.is_finished()), "a worker has a key");
    queue.close();
    let mut left = Vec::new();
    for drain in drains {
        left.extend(drain.await.unwrap());
    }
    assert_eq!(left, ["b"], "what had failed until then");

    let later = drain();
    tokio::task::yield_now().await;
    assert!(!later.is_finished(), "a drain after the close waits");
    hangs.done();
    assert!(later.await.unwrap().is_empty());
}
