use std::time::Duration;

use redial_queue::durable::{Filter, NewJob, State, Store, StoreError, WhenWaiting};

use tokio::time::timeout;

use super::server::{HOUR, QUEUE, claim, client, done, store, url};

#[tokio::test]
async fn unreadable_rows_become_dead_letters() {
    let (store, schema) = store().await;
    let jobs = (0..4).map(|n| NewJob::new(format!("{n}")).key("k", WhenWaiting::Append));
    let mut ids = store.enqueue("keyed", jobs.collect()).await.unwrap();
    let jobs = (0..4).map(|n| NewJob::new(format!("{n}")));
    ids.extend(store.enqueue(QUEUE, jobs.collect()).await.unwrap());
    let admin = client(&url()).await;
    let id = |n: usize| ids[n].id();
    let spoil = [
        format!(
            "update {schema}.job set headers = '{{\"no\": 1}}' where id in ({}, {})",
            id(0),
            id(4)
        ),
        format!("update {schema}.job set history = '\"nothing\"' where id = {}", id(5)),
    ];
    for one in &spoil {
        admin.batch_execute(one).await.unwrap();
    }
    let claimed = claim(&store, 10, HOUR).await.unwrap();
    assert_eq!(claimed.iter().map(|one| one.job.id).collect::<Vec<_>>(), [id(6), id(7)]);
    let filter =
        Filter { state: Some(State::Dead), queue: Some(QUEUE.into()), ..Filter::default() };
    let dead = store.list(&filter).await.unwrap();
    let reasons: Vec<_> = dead.iter().map(|job| (job.id, job.reason.as_deref())).collect();
    assert_eq!(reasons, [(id(4), Some("unreadable")), (id(5), Some("unreadable"))]);
    assert_eq!(store.counts(QUEUE).await.unwrap().died, 2);

    // A dead letter does not hold the other jobs of its key.
    let claim = redial_queue::durable::Claim { queue: "keyed".into(), most: 10, lease: HOUR };
    assert!(store.claim(&claim).await.unwrap().jobs.is_empty());
    let next = store.claim(&claim).await.unwrap().jobs;
    assert_eq!(next.iter().map(|one| one.job.id).collect::<Vec<_>>(), [id(1)]);
}

#[tokio::test]
async fn the_largest_payload_comes_back_and_a_larger_one_is_refused() {
    let (store, _) = store().await;
    let bytes: Vec<u8> = (0..NewJob::MOST_PAYLOAD).map(|n| (n % 251) as u8).collect();
    store.enqueue(QUEUE, vec![NewJob::new(bytes.clone())]).await.unwrap();
    let claimed = claim(&store, 1, HOUR).await.unwrap();
    assert!(claimed[0].job.payload == bytes);
    store.settle(vec![done(&claimed[0])]).await.unwrap();
    let error = store.enqueue(QUEUE, vec![NewJob::new([&bytes[..], b"x"].concat())]).await;
    assert!(matches!(error, Err(StoreError::Invalid(_))), "{error:?}");
}

#[tokio::test]
async fn any_text_is_kept_and_a_nul_is_refused() {
    let (store, _) = store().await;
    let odd = "' \" \\ $1 {} % ; -- \u{1}\u{7f} ä 𝄞 \u{202e}";
    let mut job = NewJob::new([0, 255, 0]).header(odd, odd).key(odd, WhenWaiting::Keep).policy(odd);
    job.idempotency_key = odd.to_owned();
    let name = "q'; drop \\ \"table\"";
    store.enqueue(name, vec![job.clone()]).await.unwrap();
    let filter = Filter { queue: Some(name.into()), key: Some(odd.into()), ..Filter::default() };
    let kept = store.list(&filter).await.unwrap().remove(0);
    assert_eq!((kept.payload, kept.headers), (job.payload.clone(), job.headers.clone()));
    assert_eq!((kept.key.as_deref(), kept.policy.as_deref()), (Some(odd), Some(odd)));
    assert_eq!(kept.idempotency_key, odd);

    let nul = Filter { reason: Some("a\0b".into()), ..Filter::default() };
    assert!(matches!(store.list(&nul).await, Err(StoreError::Invalid(_))));
    job.key = Some("a\0b".into());
    assert!(matches!(store.enqueue(name, vec![job]).await, Err(StoreError::Invalid(_))));
}

#[tokio::test]
async fn a_heartbeat_writes_no_index() {
    let (store, schema) = store().await;
    store.enqueue(QUEUE, vec![NewJob::new("x")]).await.unwrap();
    let claimed = claim(&store, 1, HOUR).await.unwrap();
    let admin = client(&url()).await;
    let sizes = format!(
        "select sum(pg_relation_size(indexrelid))::bigint from pg_index where indrelid = '{schema}.job'::regclass"
    );
    let before: i64 = admin.query_one(&sizes, &[]).await.unwrap().get(0);
    for _ in 0..2_000 {
        assert_eq!(store.beat(&[claimed[0].lease], HOUR).await.unwrap(), [true]);
    }
    let after: i64 = admin.query_one(&sizes, &[]).await.unwrap().get(0);
    assert_eq!(before, after, "2,000 versions of a row would need more than a page of an index");
}

#[tokio::test]
async fn the_table_is_vacuumed_after_many_settlements() {
    let (store, schema) = store().await;
    for _ in 0..11 {
        let jobs = (0..2_000).map(|_| NewJob::new("x")).collect();
        store.enqueue(QUEUE, jobs).await.unwrap();
        let claimed = claim(&store, 2_000, HOUR).await.unwrap();
        assert_eq!(claimed.len(), 2_000);
        store.settle(claimed.iter().map(done).collect()).await.unwrap();
    }
    let admin = client(&url()).await;
    let count = format!("select pg_stat_get_vacuum_count('{schema}.job'::regclass)");
    let cleaned = async {
        while admin.query_one(&count, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(120), cleaned).await.expect("the table was not vacuumed");
}
