use std::time::Duration;

use redial_core::schedule::{Backoff, Jitter};
use redial_queue::{Added, Builder, Priority, WhenFull, WorkQueue};
use tokio::time::{Instant, timeout};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::default()
}

fn now(queue: &WorkQueue<&'static str>, key: &'static str) -> Added<&'static str> {
    queue.try_add(key, Priority::NORMAL, Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn keys_run_in_the_order_in_which_they_were_added() {
    let queue = queue();
    for key in ["a", "b", "c", "a"] {
        now(&queue, key);
    }
    for key in ["a", "b", "c"] {
        let work = queue.get().await.unwrap();
        assert_eq!(*work.key(), key);
        work.done();
    }
    assert!(queue.try_get().is_none());
}

#[tokio::test(start_paused = true)]
async fn fifty_adds_while_a_key_is_worked_on_are_one_more_run() {
    let queue = queue();
    now(&queue, "a");
    let work = queue.get().await.unwrap();
    assert_eq!(now(&queue, "a"), Added::Again);
    for _ in 0..49 {
        assert_eq!(now(&queue, "a"), Added::Coalesced);
    }
    assert!(queue.try_get().is_none(), "never on two workers at once");
    work.done();
    queue.get().await.unwrap().done();
    assert!(queue.try_get().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_earliest_time_counts_and_now_is_the_earliest() {
    let (queue, start) = (queue(), Instant::now());
    queue.add_after("a", ms(300)).await;
    assert_eq!(queue.add_after("a", ms(100)).await, Added::Coalesced);
    queue.add_after("a", ms(200)).await;
    queue.get().await.unwrap().done();
    assert_eq!(start.elapsed(), ms(100));

    queue.add_after("a", ms(100)).await;
    queue.add("a").await;
    queue.get().await.unwrap().done();
    assert_eq!(start.elapsed(), ms(100));
    assert!(timeout(ms(1000), queue.get()).await.is_err(), "the delayed one is gone");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_waits_for_longer_and_longer_with_jitter() {
    let ceilings = Backoff::exponential(ms(100), ms(400)).jitter(Jitter::Equal);
    let queue = Builder::default().backoff(ceilings).build();
    now(&queue, "a");
    let mut work = queue.get().await.unwrap();
    for (failures, ceiling) in [(1, 100), (2, 200), (3, 400), (4, 400)] {
        let failed = Instant::now();
        work.failed();
        work = queue.get().await.unwrap();
        // Tokio's clock ticks in milliseconds.
        let waited = failed.elapsed();
        assert!(waited >= ms(ceiling / 2) && waited <= ms(ceiling + 1), "{waited:?}");
        assert_eq!(work.attempt(), failures + 1);
    }
    work.again_after(ms(5));
    assert_eq!(queue.get().await.unwrap().attempt(), 1, "it was done for then");
}

#[tokio::test(start_paused = true)]
async fn keys_that_fail_together_do_not_come_back_together() {
    let queue: WorkQueue<u32> = Builder::default().backoff(Backoff::constant(ms(1000))).build();
    for key in 0..500 {
        queue.try_add(key, Priority::NORMAL, Duration::ZERO);
    }
    for _ in 0..500 {
        queue.get().await.unwrap().failed();
    }
    let start = Instant::now();
    let mut buckets = [0; 10];
    for _ in 0..500 {
        queue.get().await.unwrap().done();
        buckets[(start.elapsed().as_millis() / 101) as usize] += 1;
    }
    assert!(buckets.iter().all(|count| (25..=80).contains(count)), "{buckets:?}");
}

#[tokio::test(start_paused = true)]
async fn spurious_triggers_do_not_inflate_the_backoff() {
    let queue = queue();
    now(&queue, "a");
    let work = queue.get().await.unwrap();
    for _ in 0..50 {
        now(&queue, "a");
    }
    work.failed();
    for _ in 0..50 {
        now(&queue, "a");
    }
    assert_eq!(queue.get().await.unwrap().attempt(), 2);
}

#[tokio::test(start_paused = true)]
async fn priorities_go_first_and_whoever_waits_rises() {
    let queue: WorkQueue<u32> = Builder::default().rise(ms(100)).build();
    queue.try_add(0, Priority::LOWEST, Duration::ZERO);
    queue.try_add(1, Priority::NORMAL, Duration::ZERO);
    queue.try_add(2, Priority::HIGHEST, Duration::ZERO);
    queue.try_add(1, Priority::LOWEST, Duration::ZERO);
    let order: Vec<u32> = std::iter::from_fn(|| queue.try_get().map(|work| *work.key())).collect();
    assert_eq!(order, [2, 1, 0]);

    let queue: WorkQueue<u32> = Builder::default().rise(ms(100)).build();
    queue.try_add(0, Priority::LOWEST, Duration::ZERO);
    tokio::time::advance(ms(750)).await;
    queue.try_add(1, Priority::HIGHEST, Duration::ZERO);
    assert_eq!(*queue.try_get().unwrap().key(), 0, "it has risen to the top");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_waits_or_drops_as_it_was_told() {
    let queue: WorkQueue<u32> = Builder::default().bound(2).build();
    for key in [1, 2] {
        assert_eq!(queue.add(key).await, Added::Queued);
    }
    assert_eq!(queue.add(1).await, Added::Coalesced, "what coalesces needs no room");
    assert_eq!(queue.try_add(3, Priority::HIGHEST, Duration::ZERO), Added::Full);
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.add(3).await }
    });
    tokio::task::yield_now().await;
    queue.get().await.unwrap().done();
    assert_eq!(waiting.await.unwrap(), Added::Queued);

    let queue: WorkQueue<u32> = Builder::default().bound(2).when_full(WhenFull::DropOldest).build();
    queue.try_add(1, Priority::NORMAL, Duration::ZERO);
    queue.try_add(2, Priority::LOWEST, Duration::ZERO);
    assert_eq!(queue.try_add(3, Priority::NORMAL, Duration::ZERO), Added::InPlaceOf(2));
    assert_eq!(queue.try_add(4, Priority::LOWEST, Duration::ZERO), Added::Full);
    assert_eq!(queue.try_add(5, Priority::NORMAL, Duration::ZERO), Added::InPlaceOf(1));
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
    assert!(!draining.is_finished(), "somebody works on a key");
    held.done();
    assert_eq!(draining.await.unwrap(), ["b"], "what failed comes back");
    assert_eq!(worker.await.unwrap(), ["b", "c", "later"]);
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_has_failed() {
    let queue = queue();
    now(&queue, "a");
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _work = queue.get().await;
            panic!("half-way");
        }
    });
    assert!(worker.await.is_err());
    assert_eq!(queue.get().await.unwrap().attempt(), 2);
}

#[tokio::test(start_paused = true)]
async fn workers_that_wait_see_an_earlier_time() {
    let (queue, start) = (queue(), Instant::now());
    queue.add_after("late", ms(1000)).await;
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let work = queue.get().await.unwrap();
                let seen = (*work.key(), start.elapsed());
                work.done();
                seen
            })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.add_after("soon", ms(10)).await;
    queue.add_after("next", ms(20)).await;
    let mut seen = Vec::new();
    for worker in workers {
        seen.push(worker.await.unwrap());
    }
    seen.sort_by_key(|(_, at)| *at);
    let keys: Vec<_> = seen.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, ["soon", "next", "late"]);
    assert!(seen[1].1 < ms(25) && seen[2].1 < ms(1005), "{seen:?}");
}
