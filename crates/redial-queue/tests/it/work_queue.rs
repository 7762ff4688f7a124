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
async fn a_key_that_fails_waits_longer_each_time_with_jitter() {
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
async fn keys_that_fail_together_do_not_run_again_together() {
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
async fn higher_priorities_run_first_and_waiting_keys_rise() {
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
async fn a_full_queue_waits_or_drops_as_configured() {
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

#[tokio::test(start_paused = true)]
async fn keys_added_as_failed_back_off_and_can_be_reset() {
    let backoff = Backoff::exponential(ms(100), ms(400)).jitter(Jitter::None);
    let (queue, start) = (Builder::default().backoff(backoff).build(), Instant::now());
    assert_eq!(queue.add_failed("a").await, Added::Queued);
    for _ in 0..10 {
        assert_eq!(queue.add_failed("a").await, Added::Coalesced, "said twice is failed once");
    }
    let work = queue.get().await.unwrap();
    assert_eq!((work.attempt(), start.elapsed()), (2, ms(100)));
    work.failed();
    let work = queue.get().await.unwrap();
    assert_eq!((work.attempt(), start.elapsed()), (3, ms(300)));
    assert!(queue.forget(&"a"));
    assert!(!queue.forget(&"a") && !queue.forget(&"b"));
    work.failed();
    let work = queue.get().await.unwrap();
    assert_eq!((work.attempt(), start.elapsed()), (2, ms(400)), "it starts over");
    work.done();
    assert_eq!(queue.add_failed("a").await, Added::Queued);
    assert_eq!(now(&queue, "a"), Added::Coalesced);
    assert_eq!(
        queue.try_get().unwrap().attempt(),
        2,
        "an add runs it at once and forgives nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_if_configured_to() {
    let queue: WorkQueue<u32> = Builder::default().bound(1).when_full(WhenFull::Refuse).build();
    assert_eq!(queue.add_after(1, ms(10)).await, Added::Queued);
    assert_eq!(queue.add(2).await, Added::Full);
    assert_eq!(queue.add_failed(2).await, Added::Full);
    let work = queue.get().await.unwrap();
    assert_eq!(queue.add(2).await, Added::Queued, "one that is worked on takes no room");
    work.done();

    let queue: WorkQueue<u32> = Builder::default().bound(1).when_full(WhenFull::DropOldest).build();
    assert_eq!(queue.add_after(1, ms(10)).await, Added::Queued);
    assert_eq!(queue.add(2).await, Added::Full, "delayed keys stay");
}

/// An `add` that waits for room.
fn adding(queue: &WorkQueue<u32>, key: u32) -> tokio::task::JoinHandle<Added<u32>> {
    let queue = queue.clone();
    tokio::spawn(async move { queue.add(key).await })
}

#[tokio::test(start_paused = true)]
async fn room_that_is_not_needed_goes_to_the_next_adder() {
    let queue: WorkQueue<u32> = Builder::default().bound(1).build();
    queue.add(1).await;
    let (first, second) = (adding(&queue, 2), adding(&queue, 3));
    tokio::task::yield_now().await;
    let work = queue.get().await.unwrap();
    first.abort();
    assert_eq!(second.await.unwrap(), Added::Queued, "the adder that was woken is gone");

    // 1 runs again at a later time, which takes room, until an add makes it run again at once.
    let queue: WorkQueue<u32> = Builder::default().bound(1).build();
    queue.add(1).await;
    let held = queue.get().await.unwrap();
    queue.add_after(1, ms(1000)).await;
    let waiting = adding(&queue, 2);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    assert_eq!(queue.add(1).await, Added::Again);
    assert_eq!(waiting.await.unwrap(), Added::Queued);
    held.done();
    work.done();
}

#[tokio::test(start_paused = true)]
async fn closing_wakes_every_waiter() {
    let queue: WorkQueue<u32> = Builder::default().bound(1).build();
    let workers: Vec<_> = (0..5)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.is_none() })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.close();
    for worker in workers {
        assert!(worker.await.unwrap());
    }

    let queue: WorkQueue<u32> = Builder::default().bound(1).build();
    queue.add(0).await;
    let adders: Vec<_> = (1..5).map(|key| adding(&queue, key)).collect();
    let drains: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.drain().await })
        })
        .collect();
    tokio::task::yield_now().await;
    for adder in adders {
        assert_eq!(adder.await.unwrap(), Added::Closed);
    }
    queue.get().await.unwrap().failed();
    let mut left = Vec::new();
    for drain in drains {
        left.extend(drain.await.unwrap());
    }
    assert_eq!(left, [0], "one of them gets it");
}

#[tokio::test(start_paused = true)]
async fn the_age_counts_from_when_a_key_was_due() {
    let queue = queue();
    queue.add_after("a", ms(100)).await;
    tokio::time::advance(ms(350)).await;
    let depth = queue.depth();
    assert_eq!((depth.ready, depth.later, depth.age), (1, 0, ms(250)));
    tokio::time::advance(ms(50)).await;
    assert_eq!(queue.depth().age, ms(300));
}

#[tokio::test(start_paused = true)]
async fn a_time_that_never_comes_is_not_lost() {
    let queue = queue();
    assert_eq!(queue.add_after("a", Duration::MAX).await, Added::Queued);
    assert_eq!(queue.depth().later, 1);
    queue.close();
    assert_eq!(*queue.get().await.unwrap().key(), "a");
}

#[test]
fn many_keys_are_found_after_inserts_and_removals() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let queue: WorkQueue<u64> = Builder::default().bound(1 << 20).build();
    let add = |key| queue.try_add(key, Priority::NORMAL, Duration::ZERO);
    for key in 0..20_000 {
        assert_eq!(add(key), Added::Queued);
        assert_eq!(add(key / 2 + key / 4), Added::Coalesced);
        if key % 4 == 3 {
            let work = queue.try_get().unwrap();
            assert_eq!(*work.key(), key / 4);
            work.done();
        }
    }
    assert_eq!(queue.depth().ready, 15_000);
    for key in 5_000..20_000 {
        assert_eq!(add(key), Added::Coalesced);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_passes_the_next_time_on() {
    let (queue, start) = (queue(), Instant::now());
    let [first, second] = [(), ()].map(|()| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.get().await.map(|work| *work.key()) })
    });
    tokio::task::yield_now().await;
    // It wakes the first one, which then knows when to look.
    queue.add_after("a", ms(100)).await;
    tokio::task::yield_now().await;
    first.abort();
    let got = timeout(Duration::from_secs(10), second).await.expect("no waiter knows the time");
    assert_eq!((got.unwrap(), start.elapsed()), (Some("a"), ms(100)));
}
