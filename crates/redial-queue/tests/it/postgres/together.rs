//! Several processes at once, each with a store of its own.

use std::time::Duration;

use redial_core::admit::RateRule;
use redial_core::{Rate, Span};
use redial_queue::durable::{
    Enqueued, Filter, JobVerdict, NewJob, QueueSettings, Settlement, State, Store, WhenWaiting,
};
use redial_queue::postgres::PostgresStore;

use super::server::{HOUR, QUEUE, claim, done, own, store, url};

async fn two() -> [PostgresStore; 2] {
    let (first, schema) = store().await;
    let second = PostgresStore::builder(&url()).schema(&schema).connect().await.unwrap();
    [first, second]
}

#[tokio::test]
async fn a_rate_holds_over_all_processes() {
    let stores = two().await;
    let rate = Some(RateRule::new(Rate { count: 1, per: Span::from_secs(3600) }, 7));
    stores[0].set(QUEUE, &QueueSettings { rate, ..QueueSettings::default() }).await.unwrap();
    let jobs = (0..40).map(|n| NewJob::new(format!("{n}"))).collect();
    stores[0].enqueue(QUEUE, jobs).await.unwrap();
    let claims = (0..10).map(|n| {
        let store = stores[n % 2].clone();
        tokio::spawn(async move { claim(&store, 3, HOUR).await.unwrap().len() })
    });
    let mut all = 0;
    for one in claims.collect::<Vec<_>>() {
        all += one.await.unwrap();
    }
    assert_eq!(all, 7);
}

#[tokio::test]
async fn of_jobs_with_one_key_one_waits_over_all_processes() {
    let stores = two().await;
    let put = |n: usize, when| {
        let (store, job) = (stores[n % 2].clone(), NewJob::new(format!("{n}")).key("k", when));
        tokio::spawn(async move { store.enqueue(QUEUE, vec![job]).await.unwrap()[0] })
    };
    let kept: Vec<_> = (0..16).map(|n| put(n, WhenWaiting::Keep)).collect();
    let mut added = 0;
    for one in kept {
        added += usize::from(matches!(one.await.unwrap(), Enqueued::Added(_)));
    }
    assert_eq!(added, 1);
    let more: Vec<_> = (0..16).map(|n| put(n, WhenWaiting::Append)).collect();
    for one in more {
        one.await.unwrap();
    }
    let counts = stores[1].counts(QUEUE).await.unwrap();
    assert_eq!((counts.due, counts.held), (1, 16));
}

#[tokio::test]
async fn keys_and_batches_in_any_order_do_not_deadlock() {
    let stores = two().await;
    let keyed = |n: usize| NewJob::new("x").key(format!("{}", n % 5), WhenWaiting::Append);
    let workers = (0..6).map(|who| {
        let store = stores[who % 2].clone();
        tokio::spawn(async move {
            let mut count = 0;
            for round in 0..20 {
                let jobs = (0..5).map(|n| keyed(n * (who + 1) + round)).collect();
                store.enqueue(QUEUE, jobs).await.unwrap();
                let mut claimed = claim(&store, 5, HOUR).await.unwrap();
                if who % 2 == 0 {
                    claimed.reverse();
                }
                let leases: Vec<_> = claimed.iter().map(|one| one.lease).collect();
                store.beat(&leases, HOUR).await.unwrap();
                count += store.settle(claimed.iter().map(done).collect()).await.unwrap().len();
            }
            count
        })
    });
    let mut count = 0;
    for one in workers.collect::<Vec<_>>() {
        count += one.await.unwrap();
    }
    loop {
        let claimed = claim(&stores[0], 100, HOUR).await.unwrap();
        if claimed.is_empty() {
            break;
        }
        count += stores[0].settle(claimed.iter().map(done).collect()).await.unwrap().len();
    }
    assert_eq!(count, 600);
    let counts = stores[0].counts(QUEUE).await.unwrap();
    assert_eq!((counts.enqueued, counts.done, counts.stale), (600, 600, 0));
}

#[tokio::test]
async fn more_keys_than_the_server_has_locks() {
    let own = own(&["max_connections=10", "max_wal_senders=0", "max_locks_per_transaction=10"]);
    let store = PostgresStore::connect(&own.url()).await.unwrap();
    let keyed = |n: usize| NewJob::new("x").key(format!("key {n}"), WhenWaiting::Keep);
    store.enqueue(QUEUE, (0..6_000).map(keyed).collect()).await.unwrap();
    let again = store.enqueue(QUEUE, (0..6_000).map(keyed).collect()).await.unwrap();
    assert!(again.iter().all(|one| matches!(one, Enqueued::Kept(_))));
    assert_eq!(store.remove(&Filter::default()).await.unwrap(), 6_000);
}

#[tokio::test]
async fn dead_letters_stay_within_their_limit_over_all_processes() {
    let stores = two().await;
    let settings = QueueSettings { most_dead: Some(5), ..QueueSettings::default() };
    stores[0].set(QUEUE, &settings).await.unwrap();
    let jobs = (0..40).map(|n| NewJob::new(format!("{n}"))).collect();
    stores[0].enqueue(QUEUE, jobs).await.unwrap();
    let workers = (0..8).map(|who| {
        let store = stores[who % 2].clone();
        tokio::spawn(async move {
            for one in claim(&store, 5, HOUR).await.unwrap() {
                let verdict = JobVerdict::Dead { reason: "no".to_owned() };
                let outcome = "no".to_owned();
                let lease = one.lease;
                let settlement = Settlement { lease, verdict, took: Duration::ZERO, outcome };
                store.settle(vec![settlement]).await.unwrap();
            }
        })
    });
    for one in workers.collect::<Vec<_>>() {
        one.await.unwrap();
    }
    let counts = stores[0].counts(QUEUE).await.unwrap();
    assert_eq!((counts.dead, counts.died, counts.dropped), (5, 40, 35));
    let filter = Filter { state: Some(State::Dead), ..Filter::default() };
    assert_eq!(stores[1].list(&filter).await.unwrap().len(), 5);
}
