use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redial_queue::Priority;
use redial_queue::durable::{
    DurableQueue, Edit, Enqueued, Filter, NewJob, NewPolicy, QueueSettings, Start, State,
    StoreError, WhenWaiting,
};

use super::shop::{HOUR, Shop, job};

pub(super) async fn a_job_is_returned_as_it_was_enqueued(shop: &Shop) {
    let before = SystemTime::now();
    let new = job("hello")
        .header("content-type", "text/plain")
        .header("content-type", "twice, in order")
        .key("customer 7", WhenWaiting::Append)
        .priority(Priority::new(6))
        .start(Start::After(HOUR))
        .policy("patient")
        .idempotency_key("k-1");
    let id = shop.add(new.clone()).await;
    let kept = shop.get(id).await;
    assert_eq!((kept.id, kept.queue.as_str(), kept.state), (id, Shop::QUEUE, State::Waiting));
    assert_eq!((kept.payload, kept.headers), (new.payload, new.headers));
    assert_eq!((kept.key, kept.priority), (new.key, new.priority));
    assert_eq!((kept.policy, kept.idempotency_key), (new.policy, new.idempotency_key));
    assert_eq!((kept.progress, kept.history.len()), (Default::default(), 0));
    assert_eq!((kept.begun, kept.reason), (None, None));
    let wait = kept.due.duration_since(kept.created).unwrap();
    assert!(HOUR.abs_diff(wait) < Duration::from_secs(1), "{wait:?}");
    let off = kept.created.duration_since(before).unwrap_or_else(|early| early.duration());
    assert!(off < HOUR, "created {off:?} away from the time of the enqueue");
}

pub(super) async fn ids_rise_and_a_batch_keeps_its_order(shop: &Shop) {
    let first = shop.add(job("0")).await;
    let batch = shop.put_all((1..=5).map(|n| job(&n.to_string())).collect()).await;
    let last = shop.add(job("6")).await;
    let mut ids = vec![first];
    ids.extend(batch.iter().map(|enqueued| enqueued.id()));
    ids.push(last);
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    let claimed = shop.claim(100).await;
    let payloads: Vec<_> = claimed.iter().map(|claimed| claimed.job.payload.clone()).collect();
    let expected: Vec<_> = (0..=6).map(|n| n.to_string().into_bytes()).collect();
    assert_eq!(payloads, expected);
    assert_eq!(shop.put_all(Vec::new()).await, Vec::new());
}

pub(super) async fn all_or_none(shop: &Shop) {
    let queue = DurableQueue::new(shop.store.clone(), Shop::QUEUE).unwrap();
    let large = NewJob::new(vec![0; NewJob::MOST_PAYLOAD + 1]);
    let odd = job("").header("a\0b", "");
    for bad in [large, odd] {
        let result = queue.enqueue_all(vec![job("good"), bad, job("good")]).await;
        assert!(matches!(result, Err(StoreError::Invalid(_))), "{result:?}");
        assert_eq!(shop.list(Filter::default()).await, []);
    }
    assert_eq!(shop.counts().await.enqueued, 0);
    queue.enqueue(NewJob::new(vec![0; NewJob::MOST_PAYLOAD])).await.unwrap();
    assert_eq!(shop.claim_one().await.job.payload.len(), NewJob::MOST_PAYLOAD);
}

pub(super) async fn ten_thousand_at_once(shop: &Shop) {
    let jobs = (0..10_000).map(|n: u32| NewJob::new(n.to_be_bytes())).collect();
    let added = shop.put_all(jobs).await;
    assert!(added.is_sorted_by_key(|enqueued| enqueued.id()));
    assert!(added.iter().all(|enqueued| matches!(enqueued, Enqueued::Added(_))));
    assert_eq!((shop.counts().await.due, shop.counts().await.enqueued), (10_000, 10_000));
    let claimed = shop.claim(20_000).await;
    let numbers = claimed.iter().map(|claimed| claimed.job.payload.clone());
    assert!(numbers.eq((0..10_000_u32).map(|n| n.to_be_bytes().to_vec())));
    assert_eq!(shop.counts().await.running, 10_000);
}

pub(super) async fn times_at_both_ends_of_the_calendar(shop: &Shop) {
    let never = shop.add(job("never").start(Start::After(Duration::MAX))).await;
    let far = UNIX_EPOCH + Duration::from_secs(100_000_000_000_000);
    let far = shop.add(job("far").start(Start::At(far))).await;
    let early = UNIX_EPOCH - Duration::from_secs(1_000_000_000);
    let early = shop.add(job("early").start(Start::At(early))).await;
    assert_eq!(shop.ids(10).await, [early]);
    assert_eq!((shop.state(never).await, shop.state(far).await), (State::Waiting, State::Waiting));
    assert_eq!(shop.counts().await.later, 2);
}

pub(super) async fn odd_texts_and_bytes(shop: &Shop) {
    let text = "quote ' double \" back \\ percent % brace {} \u{1f9e6} \u{7f} line\nend";
    let new = NewJob::new((0..=255).collect::<Vec<u8>>())
        .header(text, text)
        .header("", "")
        .key(text, WhenWaiting::Append)
        .policy(text)
        .idempotency_key(text);
    let id = shop.add(new.clone()).await;
    let kept = shop.claim_one().await.job;
    assert_eq!((kept.id, kept.payload, kept.headers), (id, new.payload, new.headers));
    assert_eq!((kept.key.as_deref(), kept.policy.as_deref()), (Some(text), Some(text)));
    assert_eq!(kept.idempotency_key, text);
    let filter = Filter { key: Some(text.to_owned()), ..Filter::default() };
    assert_eq!(shop.list(filter).await, [id]);
    let empty = shop.add(NewJob::new(Vec::new()).idempotency_key("")).await;
    assert_eq!(shop.claim_one().await.job.id, empty);
}

pub(super) async fn invalid_jobs_are_refused(shop: &Shop) {
    let id = shop.add(job("")).await;
    let long = "x".repeat(NewJob::MOST_NAME + 1);
    let wrong = [
        job("").key("a\0b", WhenWaiting::Append),
        job("").header("a", "\0"),
        job("").policy(long.clone()),
        job("").idempotency_key(long.clone()),
        job("").header("a", "x".repeat(NewJob::MOST_TEXT)),
        NewJob::new(vec![0; NewJob::MOST_PAYLOAD + 1]),
    ];
    for job in wrong {
        let answer = shop.store.enqueue(Shop::QUEUE, vec![job]).await;
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    }
    let edit = Edit { policy: Some(NewPolicy::Named(long)), ..Edit::default() };
    let answer = shop.store.edit(id, edit).await;
    assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    for name in ["", "a\nb", &"x".repeat(101)] {
        let answer = shop.store.enqueue(name, vec![job("")]).await;
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
        let answer = shop.store.set(name, &QueueSettings::default()).await;
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    }
    assert_eq!(shop.store.queues().await.unwrap(), [Shop::QUEUE]);
    assert_eq!(shop.list(Filter::default()).await, [id]);
}
