use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use redial_core::draw;
use redial_queue::durable::{
    Claim, Enqueued, Filter, JobId, JobVerdict, NewJob, Settled, Settlement, Store, WhenWaiting,
};
use tokio::task::JoinSet;

use super::shop::{HOUR, NOW, Shop, job, retry};

type Done = Arc<Mutex<HashMap<JobId, u32>>>;

/// Claims up to 7 jobs at a time and settles them in various ways, until none is left.
async fn work(store: Arc<dyn Store>, number: u64, done: Done) {
    for round in 0.. {
        let claim = Claim { queue: Shop::QUEUE.to_owned(), most: 7, lease: HOUR };
        let jobs = store.claim(&claim).await.unwrap().jobs;
        if jobs.is_empty() {
            let counts = store.counts(Shop::QUEUE).await.unwrap();
            if counts.due + counts.running + counts.held == 0 {
                return;
            }
            tokio::task::yield_now().await;
            continue;
        }
        let settlement = |(place, claimed): (usize, &redial_queue::durable::Claimed)| Settlement {
            lease: claimed.lease,
            verdict: match draw(number << 32 | round, place as u64) % 4 {
                0 => retry(NOW),
                1 => JobVerdict::Postpone { wait: NOW },
                _ => JobVerdict::Done,
            },
            took: NOW,
            outcome: String::new(),
        };
        let settlements: Vec<_> = jobs.iter().enumerate().map(settlement).collect();
        let settled = store.settle(settlements.clone()).await.unwrap();
        for (settlement, settled) in settlements.iter().zip(settled) {
            assert_eq!(settled, Settled::Taken, "no other worker has it");
            if settlement.verdict == JobVerdict::Done {
                *done.lock().unwrap().entry(settlement.lease.id).or_default() += 1;
            }
        }
    }
}

async fn eight_workers(shop: &Shop) -> HashMap<JobId, u32> {
    let done = Done::default();
    let mut workers = JoinSet::new();
    for number in 0..8 {
        workers.spawn(work(Arc::clone(&shop.store), number, Arc::clone(&done)));
    }
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }
    done.lock().unwrap().clone()
}

pub(super) async fn each_job_is_done_once(shop: &Shop) {
    let jobs = (0..1000).map(|n| job(&format!("{n}"))).collect();
    let ids: HashSet<JobId> = shop.put_all(jobs).await.iter().map(|added| added.id()).collect();
    let done = eight_workers(shop).await;
    assert!(done.values().all(|times| *times == 1));
    assert_eq!(done.keys().copied().collect::<HashSet<_>>(), ids);
    assert_eq!(shop.list(Filter::default()).await, []);
    let counts = shop.counts().await;
    assert_eq!((counts.done, counts.enqueued), (1000, 1000));
    assert_eq!((counts.lost, counts.stale, counts.dead), (0, 0, 0));
}

pub(super) async fn one_of_a_key_at_a_time_among_many_workers(shop: &Shop) {
    let keyed = |n: u32| job("").key(format!("{}", n % 5), WhenWaiting::Append);
    shop.put_all((0..100).map(keyed).collect()).await;
    let inside: Arc<Mutex<HashSet<String>>> = Arc::default();
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let (store, inside) = (Arc::clone(&shop.store), Arc::clone(&inside));
        workers.spawn(async move {
            let mut done = 0;
            loop {
                let claim = Claim { queue: Shop::QUEUE.to_owned(), most: 2, lease: HOUR };
                let jobs = store.claim(&claim).await.unwrap().jobs;
                let counts = store.counts(Shop::QUEUE).await.unwrap();
                if jobs.is_empty() && counts.due + counts.running + counts.held == 0 {
                    return done;
                }
                for claimed in &jobs {
                    let key = claimed.job.key.clone().unwrap();
                    assert!(inside.lock().unwrap().insert(key.clone()), "two of {key} at once");
                    tokio::task::yield_now().await;
                    assert!(inside.lock().unwrap().remove(&key));
                    let (lease, verdict) = (claimed.lease, JobVerdict::Done);
                    let outcome = String::new();
                    let settlement = Settlement { lease, verdict, took: NOW, outcome };
                    assert_eq!(store.settle(vec![settlement]).await.unwrap(), [Settled::Taken]);
                    done += 1;
                }
                tokio::task::yield_now().await;
            }
        });
    }
    let mut done = 0;
    while let Some(worker) = workers.join_next().await {
        done += worker.unwrap();
    }
    assert_eq!((done, shop.counts().await.done), (100, 100));
}

pub(super) async fn enqueues_of_one_key_race(shop: &Shop) {
    let mut adding = JoinSet::new();
    for n in 0..40 {
        let store = Arc::clone(&shop.store);
        let when = if n % 2 == 0 { WhenWaiting::Keep } else { WhenWaiting::Refuse };
        adding.spawn(async move {
            let new = NewJob::new("").key("k", when);
            store.enqueue(Shop::QUEUE, vec![new]).await.unwrap()[0]
        });
    }
    let mut added = 0;
    while let Some(enqueued) = adding.join_next().await {
        added += u32::from(matches!(enqueued.unwrap(), Enqueued::Added(_)));
    }
    assert_eq!((added, shop.list(Filter::default()).await.len()), (1, 1));
    for _ in 0..20 {
        let store = Arc::clone(&shop.store);
        adding.spawn(async move {
            let new = NewJob::new("").key("k", WhenWaiting::Append);
            store.enqueue(Shop::QUEUE, vec![new]).await.unwrap()[0]
        });
    }
    while let Some(enqueued) = adding.join_next().await {
        assert!(matches!(enqueued.unwrap(), Enqueued::Added(_)));
    }
    assert_eq!((shop.counts().await.due, shop.counts().await.held), (1, 20));
}
