use std::time::Duration;

use redial_queue::durable::{Claim, NewJob, Store};
use redial_queue::postgres::PostgresStore;
use redial_queue::postgres::tokio_postgres::IsolationLevel;
use tokio::time::{Instant, timeout};

use super::server::{HOUR, QUEUE, claim, client, own, store, url};

/// The changes seen by a claim that found nothing, after the store has started to listen.
async fn seen_when_idle(store: &PostgresStore) -> u64 {
    let claim = Claim { queue: QUEUE.to_owned(), most: 1, lease: HOUR };
    let seen = store.claim(&claim).await.unwrap().seen;
    store.changed(QUEUE, seen).await.unwrap();
    let claims = store.claim(&claim).await.unwrap();
    assert!(claims.jobs.is_empty());
    claims.seen
}

/// Checks that a change wakes the store. Without a notification the wait ends after about 5 s, so one of several rounds is faster.
async fn wakes(store: &PostgresStore, mut change: impl AsyncFnMut()) {
    for _ in 0..5 {
        let seen = seen_when_idle(store).await;
        let start = Instant::now();
        let (ended, ()) = tokio::join!(store.changed(QUEUE, seen), change());
        ended.unwrap();
        while !claim(store, 10, HOUR).await.unwrap().is_empty() {}
        if start.elapsed() < Duration::from_secs(4) {
            return;
        }
    }
    panic!("five changes in a row were not noticed");
}

#[tokio::test]
async fn a_job_of_another_process_wakes_the_store() {
    let (store, schema) = store().await;
    let other = PostgresStore::builder(&url()).schema(&schema).connect().await.unwrap();
    wakes(&store, async || {
        other.enqueue(QUEUE, vec![NewJob::new("x")]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_job_in_a_users_transaction_wakes_the_store_on_commit() {
    let (store, schema) = store().await;
    let other = PostgresStore::builder(&url()).schema(&schema).connect().await.unwrap();
    let mut client = client(&url()).await;
    for enqueuing in [&other, &store] {
        wakes(&store, async || {
            let transaction = client.transaction().await.unwrap();
            enqueuing.enqueue_in(&transaction, QUEUE, vec![NewJob::new("x")]).await.unwrap();
            transaction.commit().await.unwrap();
        })
        .await;
    }
}

#[tokio::test]
async fn it_listens_again_after_a_restart() {
    let mut own = own(&[]);
    let store = PostgresStore::connect(&own.url()).await.unwrap();
    seen_when_idle(&store).await;
    own.kill().unwrap();
    own.start_again().unwrap();
    let other = PostgresStore::connect(&own.url()).await.unwrap();
    super::server::until_reached(|| claim(&store, 1, HOUR)).await;
    wakes(&store, async || {
        other.enqueue(QUEUE, vec![NewJob::new("x")]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_store_that_is_dropped_leaves_no_connection() {
    let own = own(&[]);
    let store = PostgresStore::connect(&own.url()).await.unwrap();
    seen_when_idle(&store).await;
    drop(store);
    let admin = client(&own.url()).await;
    let count = "select count(*) from pg_stat_activity where application_name = 'redial'";
    let gone = async {
        while admin.query_one(count, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(60), gone).await.expect("connections are left");
}

#[tokio::test]
async fn jobs_belong_to_the_callers_transaction() {
    let (store, schema) = store().await;
    let mut client = client(&url()).await;
    client.batch_execute(&format!("create table {schema}.orders (n int)")).await.unwrap();
    for (level, commit) in [
        (IsolationLevel::ReadCommitted, false),
        (IsolationLevel::ReadCommitted, true),
        (IsolationLevel::RepeatableRead, true),
        (IsolationLevel::Serializable, true),
    ] {
        let transaction = client.build_transaction().isolation_level(level).start().await.unwrap();
        transaction
            .batch_execute(&format!("insert into {schema}.orders values (1)"))
            .await
            .unwrap();
        // Meanwhile another transaction updates the tally.
        store.enqueue("another", vec![NewJob::new("y")]).await.unwrap();
        let jobs = vec![NewJob::new("x"), NewJob::new("z")];
        store.enqueue_in(&transaction, QUEUE, jobs).await.unwrap();
        assert!(claim(&store, 5, HOUR).await.unwrap().is_empty(), "not committed yet");
        match commit {
            true => transaction.commit().await.unwrap(),
            false => transaction.rollback().await.unwrap(),
        }
        let there = claim(&store, 5, HOUR).await.unwrap();
        let payloads: Vec<_> = there.iter().map(|one| &one.job.payload[..]).collect();
        assert_eq!(payloads, if commit { vec![&b"x"[..], b"z"] } else { vec![] }, "{level:?}");
    }
    assert_eq!(store.counts(QUEUE).await.unwrap().enqueued, 6);
}

#[tokio::test]
async fn invalid_jobs_do_not_abort_the_callers_transaction() {
    let (store, _) = store().await;
    let mut client = client(&url()).await;
    let transaction = client.transaction().await.unwrap();
    let nul = NewJob::new("x").header("a", "b\0c");
    store.enqueue_in(&transaction, QUEUE, vec![nul]).await.unwrap_err();
    store.enqueue_in(&transaction, "no\nqueue", vec![NewJob::new("x")]).await.unwrap_err();
    transaction.batch_execute("select 1").await.unwrap();
}
