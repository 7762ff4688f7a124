//! A server cannot fill the memory with a reply.

use std::sync::Arc;
use std::time::Duration;

use redial::http::server::idempotency::{
    IdempotencyLayer, IdempotencyStore, IdempotencyStoreError, Interrupted, KeyTerms, RedisStore,
};

use super::support::{Direct, claim, redis};
use crate::fake_redis::{ENDLESS, FEW_BYTES, FakeRedis};

const TERMS: KeyTerms = KeyTerms {
    lease: Duration::from_secs(30),
    ttl: Duration::from_secs(60),
    on_interrupted: Interrupted::Refuse,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_reply_is_not_read_into_memory() {
    for (n, reply) in ENDLESS.into_iter().enumerate() {
        let fake = FakeRedis::start(reply);
        let store = RedisStore::connect(&fake.url).await.unwrap();
        let store = store.timeout(Duration::from_secs(60));
        let Err(IdempotencyStoreError::Unavailable(cause)) =
            store.begin(&claim(1, 1), &TERMS).await
        else {
            panic!("{n}: it is not an answer");
        };
        let said = cause.to_string();
        let limit = ["8388608 bytes", "1024 values", "32 characters in a length"];
        assert!(limit.iter().any(|limit| said.contains(limit)), "{n}: {said}");
        let written = fake.written();
        assert!(written < FEW_BYTES, "{n}: {written} bytes were taken");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_get_a_503_and_nothing_is_executed() {
    let fake = FakeRedis::start(ENDLESS[1]);
    let store = RedisStore::connect(&fake.url).await.unwrap().timeout(Duration::from_secs(60));
    let direct = Direct::new(&IdempotencyLayer::new(store));
    assert_eq!(direct.post("/pay", "a").await.problem(), (503, "unavailable".to_owned()));
    assert_eq!(direct.shop.executed(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_larger_than_a_reply_is_not_stored() {
    let store = Arc::into_inner(redis().await).unwrap().reply_bytes(4_096);
    let direct = Direct::new(&IdempotencyLayer::new(store));
    for (path, kept) in [("/bytes/3000", true), ("/bytes/5000", false)] {
        assert_eq!(direct.post(path, path).await.status, 200);
        let again = direct.post(path, path).await;
        match kept {
            true => assert!(again.is_replayed()),
            false => assert_eq!(again.problem(), (410, "not-kept".to_owned())),
        }
    }
    assert_eq!(direct.shop.executed(), 2);
}

/// Large responses do not count against each other, one after another or at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_reply_is_measured_separately() {
    let store = Arc::into_inner(redis().await).unwrap().reply_bytes(100_000);
    let direct = Direct::new(&IdempotencyLayer::new(store));
    assert_eq!(direct.post("/bytes/90000", "a").await.status, 200);
    for _ in 0..5 {
        let post = || direct.post("/bytes/90000", "a");
        let all = tokio::join!(post(), post(), post(), post());
        assert!([all.0, all.1, all.2, all.3].iter().all(|answer| answer.is_replayed()));
    }
}
