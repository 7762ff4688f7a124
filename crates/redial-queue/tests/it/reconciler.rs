use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial_core::admit::RateRule;
use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::decide::{Class, Failure};
use redial_core::schedule::Backoff;
use redial_core::{Draft, Policy, Preset, Rate, Stop};
use redial_queue::{Priority, Reconciled, Reconciler, WorkEvent, WorkQueue};
use tokio::time::{Instant, sleep};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn broken() -> Reconciled {
    Reconciled::Failed(Failure::new(Class::ServerError))
}

fn policy(draft: impl FnOnce(Draft) -> Draft) -> Policy {
    let plain = Policy::draft().attempts(1000).without_deadline().budget(Budget::None);
    draft(plain.without_stall()).build().unwrap()
}

fn filled(keys: u32) -> WorkQueue<u32> {
    let queue = WorkQueue::default();
    for key in 0..keys {
        queue.try_add(key, Priority::NORMAL, Duration::ZERO);
    }
    queue
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded_by_the_workers_and_a_key_never_runs_twice_at_once() {
    let queue = filled(50);
    let inside: Arc<Mutex<HashMap<u32, u32>>> = Arc::default();
    let most = Arc::new(AtomicU32::new(0));
    let pool = Arc::new(Reconciler::new(queue.clone(), policy(|draft| draft)).workers(7));
    let work = {
        let (inside, most, queue) = (Arc::clone(&inside), Arc::clone(&most), queue.clone());
        move |key: u32, _| {
            let (inside, most, queue) = (Arc::clone(&inside), Arc::clone(&most), queue.clone());
            async move {
                let count = {
                    let mut inside = inside.lock().unwrap();
                    assert_eq!(inside.insert(key, 1), None, "{key} is worked on twice at once");
                    inside.len() as u32
                };
                most.fetch_max(count, Ordering::Relaxed);
                queue.try_add(key % 3, Priority::NORMAL, Duration::ZERO);
                sleep(ms(10)).await;
                inside.lock().unwrap().remove(&key);
                if key == 7 {
                    queue.close();
                }
                Reconciled::Done
            }
        }
    };
    pool.run(work).await;
    assert_eq!(most.load(Ordering::Relaxed), 7);
}

#[tokio::test(start_paused = true)]
async fn a_key_backs_off_on_its_own_and_starts_over_when_it_is_done() {
    let (queue, start) = (filled(1), Instant::now());
    let seen: Arc<Mutex<Vec<(u32, u32)>>> = Arc::default();
    let backoff = Backoff::exponential(ms(100), ms(800));
    let watch = {
        let seen = Arc::clone(&seen);
        move |event: &WorkEvent<'_, u32>| {
            if let WorkEvent::Retry { attempt, wait, .. } = event {
                seen.lock().unwrap().push((*attempt, wait.as_millis() as u32));
            }
        }
    };
    let pool = Reconciler::new(queue.clone(), policy(|draft| draft.backoff(backoff))).watch(watch);
    let pool = Arc::new(pool);
    let work = move |_, attempt| {
        let queue = queue.clone();
        async move {
            if attempt < 6 {
                return broken();
            }
            queue.close();
            Reconciled::Done
        }
    };
    Arc::clone(&pool).run(work).await;
    let seen = seen.lock().unwrap();
    for ((failures, wait), ceiling) in seen.iter().zip([100, 200, 400, 800, 800]) {
        assert!(*wait <= ceiling, "{failures}: {wait}");
    }
    assert_eq!(seen.len(), 5);
    assert!(start.elapsed() <= ms(2305));
    assert_eq!(pool.stats().work.retries["server-error"], 5);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_has_rested_is_tried_once_until_it_succeeds() {
    let (queue, start) = (filled(1), Instant::now());
    let runs: Arc<Mutex<Vec<(u32, u64)>>> = Arc::default();
    let seconds = |seconds| Duration::from_secs(seconds);
    let backoff = Backoff::exponential(ms(100), seconds(10));
    let pool = Reconciler::new(queue, policy(|draft| draft.attempts(4).backoff(backoff)));
    let task = tokio::spawn(Arc::new(pool).run({
        let runs = Arc::clone(&runs);
        move |_, attempt| {
            let elapsed = start.elapsed();
            runs.lock().unwrap().push((attempt, elapsed.as_secs()));
            let fails = elapsed < seconds(60) || (seconds(100)..seconds(102)).contains(&elapsed);
            async move {
                if fails {
                    broken()
                } else {
                    Reconciled::After(seconds(100).saturating_sub(elapsed))
                }
            }
        }
    }));
    sleep(seconds(99)).await;
    let count = |attempt| runs.lock().unwrap().iter().filter(|run| run.0 == attempt).count();
    let (first, further) = (count(1), [count(2), count(3), count(4)]);
    assert!((7..=13).contains(&first), "a minute of rests of 5 to 10 s: {first}");
    assert_eq!(further, [1; 3], "only before the first rest");
    sleep(seconds(2)).await;
    assert_eq!([count(2), count(3), count(4)], [2; 3], "it had succeeded");
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn when_everything_is_broken_the_budget_ends_the_retries_and_no_key_is_lost() {
    let queue = filled(1000);
    let budget = WindowBudget::ratio(0.1).floor(Rate::ZERO).ttl(Duration::from_secs(60));
    let backoff = Backoff::exponential(ms(10), Duration::from_secs(60));
    let policy = policy(|draft| draft.budget(Budget::Window(budget)).backoff(backoff));
    let runs = Arc::new(AtomicU32::new(0));
    let pool = Arc::new(Reconciler::new(queue.clone(), policy).workers(8));
    let task = tokio::spawn(Arc::clone(&pool).run({
        let runs = Arc::clone(&runs);
        move |_, _| {
            runs.fetch_add(1, Ordering::Relaxed);
            async { broken() }
        }
    }));
    sleep(Duration::from_secs(29)).await;
    let runs = runs.load(Ordering::Relaxed);
    assert!((1090..=1100).contains(&runs), "a tenth more than 1000, not {runs}");
    assert_eq!(pool.stats().work.stops[Stop::Budget.name()], 1000);
    let depth = pool.stats().depth;
    assert_eq!(depth.later, 1000, "all of them rest");
    assert_eq!(pool.stats().balance, Some(0));
    for second in 1..=30 {
        let before = pool.stats().depth.later;
        sleep(Duration::from_secs(1)).await;
        let woken = before.abs_diff(pool.stats().depth.later);
        assert!(woken < 100, "{woken} come back in second {second}");
    }
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn with_the_preset_all_keys_converge_after_an_outage() {
    let (queue, start) = (filled(200), Instant::now());
    let runs = Arc::new(AtomicU32::new(0));
    let pool = Arc::new(Reconciler::new(queue.clone(), Preset::ControlPlane.into()).workers(8));
    let task = tokio::spawn(Arc::clone(&pool).run({
        let runs = Arc::clone(&runs);
        move |_, _| {
            runs.fetch_add(1, Ordering::Relaxed);
            let up = start.elapsed() >= Duration::from_secs(60);
            async move { if up { Reconciled::Done } else { broken() } }
        }
    }));
    sleep(Duration::from_secs(59)).await;
    // One attempt in 5 to 10 s of rest; three retries of a new budget, and two of its floor.
    let during = runs.load(Ordering::Relaxed);
    assert!((7 * 200..=10 * 200).contains(&during), "{during}");
    sleep(Duration::from_secs(12)).await;
    assert_eq!((pool.stats().done, pool.stats().depth.later), (200, 0));
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn events_of_a_key_tell_what_is_new() {
    let queue = filled(1);
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let watch = {
        let seen = Arc::clone(&seen);
        move |event: &WorkEvent<'_, u32>| {
            let line = match event {
                WorkEvent::Started { .. } => return,
                WorkEvent::Retry { attempt, trend, .. } => format!("{attempt} {trend:?}"),
                WorkEvent::Postponed { stop, failure, wait, .. } => {
                    let class = failure.map(|failure| failure.class.name());
                    assert!(*wait >= ms(100) && *wait <= ms(200), "{wait:?}");
                    format!("{} {class:?}", stop.unwrap().name())
                }
                WorkEvent::Done { attempt, .. } => format!("{attempt} done"),
                other => format!("{other:?}"),
            };
            seen.lock().unwrap().push(line);
        }
    };
    let backoff = Backoff::exponential(ms(100), ms(200));
    let policy = policy(|draft| draft.backoff(backoff).attempts(4));
    let pool = Arc::new(Reconciler::new(queue.clone(), policy).watch(watch));
    let runs = Arc::new(AtomicU32::new(0));
    Arc::clone(&pool)
        .run(move |_, _| {
            let last = runs.fetch_add(1, Ordering::Relaxed) == 5;
            if last {
                queue.close();
            }
            async move { if last { Reconciled::Done } else { broken() } }
        })
        .await;
    let expected = [
        "1 First",
        "2 Growing",
        "3 Repeated",
        "attempts Some(\"server-error\")",
        "attempts Some(\"server-error\")",
        "1 done",
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
    let stats = pool.stats();
    assert_eq!((stats.done, stats.failing, stats.work.retries["server-error"]), (1, 0, 3));
}

#[tokio::test(start_paused = true)]
async fn the_longest_and_the_share_of_the_workers_are_known() {
    let queue = filled(3);
    let pool = Arc::new(Reconciler::new(queue.clone(), policy(|draft| draft)).workers(2));
    let work = |key: u32, _| async move {
        sleep(ms(100 * u64::from(key + 1))).await;
        Reconciled::Done
    };
    let task = tokio::spawn(Arc::clone(&pool).run(work));
    sleep(ms(150)).await;
    let stats = pool.stats();
    assert_eq!((stats.work.running, stats.work.longest, stats.done), (2, ms(150), 1));
    assert!((stats.work.utilisation() - 1.0).abs() < 1e-9);
    sleep(ms(100)).await;
    assert!((pool.stats().work.utilisation() - 0.5).abs() < 1e-9, "2 runs, and nothing waits");
    queue.close();
    task.await.unwrap();
    assert_eq!(pool.stats().work.running, 0);
}

#[tokio::test(start_paused = true)]
async fn work_ends_with_its_pool() {
    let queue = filled(1);
    let pool = Arc::new(Reconciler::new(queue.clone(), policy(|draft| draft)));
    let (inside, ends) = tokio::sync::oneshot::channel::<()>();
    let inside = Arc::new(Mutex::new(Some(inside)));
    let task = tokio::spawn(Arc::clone(&pool).run(move |_, _| {
        let inside = inside.lock().unwrap().take();
        async move {
            sleep(Duration::from_secs(3600)).await;
            drop(inside);
            Reconciled::Done
        }
    }));
    sleep(ms(10)).await;
    task.abort();
    let start = Instant::now();
    assert!(ends.await.is_err(), "the sender is dropped");
    assert!(start.elapsed() < ms(10), "the work ends with the pool");
    assert_eq!(queue.get().await.unwrap().attempt(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_token_bucket_bounds_how_often_attempts_start() {
    let (queue, start) = (filled(100), Instant::now());
    let rate = RateRule::new(Rate::per_second(10), 5);
    let pool =
        Arc::new(Reconciler::new(queue.clone(), policy(|draft| draft)).workers(20).rate(&rate));
    queue.close();
    Arc::clone(&pool).run(|_, _| async { Reconciled::Done }).await;
    let took = start.elapsed();
    assert!(took >= ms(9490) && took <= ms(9600), "95 tokens at 10/s, not {took:?}");
    assert!(pool.stats().work.limiter_wait > Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn panics_and_time_outs_are_failures() {
    let queue = filled(2);
    let reasons: Arc<Mutex<Vec<(u32, Class)>>> = Arc::default();
    let watch = {
        let reasons = Arc::clone(&reasons);
        move |event: &WorkEvent<'_, u32>| {
            if let WorkEvent::Retry { item, failure: Some(failure), .. } = event {
                reasons.lock().unwrap().push((**item, failure.class));
            }
        }
    };
    let policy = policy(|draft| draft.attempt_timeout(ms(50)));
    let pool = Arc::new(Reconciler::new(queue.clone(), policy).watch(watch));
    let done = Arc::new(AtomicU32::new(0));
    pool.run(move |key, attempt| {
        let (queue, done) = (queue.clone(), Arc::clone(&done));
        async move {
            match (key, attempt) {
                (0, 1) => panic!("half-way"),
                (1, 1) => sleep(Duration::from_secs(60)).await,
                _ if done.fetch_add(1, Ordering::Relaxed) == 1 => queue.close(),
                _ => {}
            }
            Reconciled::Done
        }
    })
    .await;
    let mut reasons = reasons.lock().unwrap().clone();
    reasons.sort_by_key(|(key, _)| *key);
    assert_eq!(reasons, [(0, Class::Transient), (1, Class::Timeout)]);
}

#[tokio::test(start_paused = true)]
async fn after_runs_the_key_again() {
    let (queue, start) = (filled(1), Instant::now());
    let runs = Arc::new(AtomicU32::new(0));
    let pool = Arc::new(Reconciler::new(queue.clone(), policy(|draft| draft)));
    pool.run(move |_, attempt| {
        assert_eq!(attempt, 1);
        if runs.fetch_add(1, Ordering::Relaxed) == 3 {
            queue.close();
        }
        async { Reconciled::After(ms(100)) }
    })
    .await;
    assert!(start.elapsed() >= ms(300) && start.elapsed() <= ms(310));
}

#[tokio::test(start_paused = true)]
async fn calls_of_keys_that_were_dropped_are_forgotten() {
    let queue: WorkQueue<u32> = redial_queue::Builder::default()
        .bound(10)
        .when_full(redial_queue::WhenFull::DropOldest)
        .build();
    let policy = policy(|draft| draft.backoff(Backoff::constant(ms(1))));
    let pool = Arc::new(Reconciler::new(queue.clone(), policy).workers(1));
    let work = |_, _| async {
        sleep(ms(20)).await;
        broken()
    };
    let task = tokio::spawn(Arc::clone(&pool).run(work));
    for key in 0..1000 {
        queue.try_add(key, Priority::NORMAL, Duration::ZERO);
        sleep(ms(19)).await;
    }
    assert!(pool.stats().failing < 100, "{}", pool.stats().failing);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_forgotten_starts_over() {
    let queue = filled(1);
    let seen: Arc<Mutex<Vec<u32>>> = Arc::default();
    let policy = policy(|draft| draft.backoff(Backoff::constant(ms(1000))));
    let pool = Arc::new(Reconciler::new(queue.clone(), policy).workers(1));
    let task = tokio::spawn(Arc::clone(&pool).run({
        let seen = Arc::clone(&seen);
        move |_, attempt| {
            seen.lock().unwrap().push(attempt);
            async { broken() }
        }
    }));
    for _ in 0..2 {
        sleep(ms(1)).await;
        queue.try_add(0, Priority::NORMAL, Duration::ZERO);
    }
    sleep(ms(1)).await;
    assert!(queue.forget(&0));
    queue.try_add(0, Priority::NORMAL, Duration::ZERO);
    sleep(ms(1)).await;
    assert_eq!(*seen.lock().unwrap(), [1, 2, 3, 1]);
    task.abort();
}
