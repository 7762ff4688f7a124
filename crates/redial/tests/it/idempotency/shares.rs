//! One caller cannot fill the store in memory for all others, and operators are warned in time.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use redial::http::server::idempotency::{
    Begun, IdempotencyLayer, IdempotencyStore, IdempotencyStoreError, Interrupted, KeyClaim,
    KeyTerms, MemoryStore,
};
use redial::telemetry::Registry;

use super::support::{Answer, Direct, direct_request};
use crate::support::ms;
use crate::telemetry::logs::Journal;
use crate::telemetry::scrape::scrape;

const TERMS: KeyTerms = KeyTerms {
    lease: Duration::from_secs(30),
    ttl: Duration::from_secs(1),
    on_interrupted: Interrupted::Refuse,
};

fn claim(scope: u8, key: u16) -> KeyClaim {
    let mut hash = [0; 32];
    hash[..2].copy_from_slice(&key.to_be_bytes());
    hash[2] = scope;
    KeyClaim::new(hash, [1; 32]).in_scope([scope; 32])
}

async fn post(direct: &Direct<Arc<MemoryStore>>, token: &'static str, key: &str) -> Answer {
    let mut request = direct_request("/pay", key, Body::empty());
    request.headers_mut().insert("x-api-key", HeaderValue::from_static(token));
    direct.call(request).await
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_exhausts_its_share_leaves_room_for_others() {
    let store = Arc::new(MemoryStore::default().records(100));
    let direct = Direct::new(&IdempotencyLayer::new(store).ttl(ms(1_000)));
    let mut kept = 0;
    for n in 0..200 {
        match post(&direct, "noisy", &format!("noisy-{n}")).await {
            answer if answer.status == 201 => kept += 1,
            answer => assert_eq!(answer.problem(), (503, "full".to_owned())),
        }
    }
    assert_eq!(kept, 50, "as many as are free");
    for token in ["ann", "bob", "carol", "dave"] {
        assert_eq!(post(&direct, token, token).await.status, 201, "{token}");
    }
    assert!(post(&direct, "noisy", "noisy-0").await.is_replayed(), "no record expires early");
    tokio::time::advance(ms(1_000)).await;
    assert_eq!(post(&direct, "noisy", "noisy-200").await.status, 201);
}

#[tokio::test]
async fn a_named_scope_has_its_own_share() {
    let store = Arc::new(MemoryStore::default().records(4));
    let layer = IdempotencyLayer::new(store)
        .scoped_by(|request| request.uri.query().unwrap_or_default().to_owned());
    let direct = Direct::new(&layer);
    let ask = async |account: &str, key: &str| {
        let path = format!("/pay?{account}");
        direct.call(direct_request(&path, key, Body::empty())).await.status
    };
    let asked =
        [ask("a", "1").await, ask("a", "2").await, ask("a", "3").await, ask("b", "1").await];
    assert_eq!(asked, [201, 201, 503, 201]);
}

#[tokio::test]
async fn shares_limit_bytes_as_well() {
    let store = MemoryStore::default().bytes(10_000);
    let response = bytes::Bytes::from(vec![b'x'; 2_000]);
    let mut kept = Vec::new();
    for key in 0..3 {
        let claim = claim(1, key);
        store.begin(&claim, &TERMS).await.unwrap();
        kept.push(store.finish(&claim, response.clone(), &TERMS).await.is_ok());
    }
    assert_eq!(kept, [true, true, false], "the third one exceeds the share");
    let other = claim(3, 20);
    store.begin(&other, &TERMS).await.unwrap();
    store.finish(&other, response, &TERMS).await.unwrap();
}

#[tokio::test]
async fn an_execution_can_finish_after_its_share_has_shrunk() {
    let store = MemoryStore::default().records(10);
    let claims: Vec<_> = (0..5).map(|key| claim(1, key)).collect();
    for claim in &claims {
        assert_eq!(store.begin(claim, &TERMS).await.unwrap(), Begun::Started);
    }
    for scope in 2..6 {
        store.begin(&claim(scope, 0), &TERMS).await.unwrap();
    }
    for claim in &claims {
        store.renew(claim, &TERMS).await.unwrap();
        store.finish(claim, "paid".into(), &TERMS).await.unwrap();
    }
    assert!(matches!(store.begin(&claim(1, 9), &TERMS).await, Err(IdempotencyStoreError::Full)));
    store.release(&claim(1, 0)).await.unwrap();
}

#[tokio::test]
async fn a_scope_may_fill_a_store_without_shares() {
    let store = MemoryStore::default().records(10).without_shares();
    for key in 0..10 {
        store.begin(&claim(1, key), &TERMS).await.unwrap();
    }
    assert!(matches!(store.begin(&claim(1, 10), &TERMS).await, Err(IdempotencyStoreError::Full)));
}

#[tokio::test]
async fn metrics_report_usage_and_rejections_of_a_store() {
    let store = MemoryStore::default().name("metered").records(4).bytes(100_000);
    for key in 0..4 {
        let _ = store.begin(&claim(1, key), &TERMS).await;
    }
    for scope in 2..6 {
        let _ = store.begin(&claim(scope, 0), &TERMS).await;
    }
    scrape(&Registry::new()).check(&[
        ("redial_idempotency_records store=metered", 4.0),
        ("redial_idempotency_records_limit store=metered", 4.0),
        ("redial_idempotency_bytes store=metered", 4.0 * 256.0),
        ("redial_idempotency_bytes_limit store=metered", 100_000.0),
        ("redial_idempotency_refusals_total store=metered reason=scope", 2.0),
        ("redial_idempotency_refusals_total store=metered reason=store", 2.0),
    ]);
    drop(store);
    scrape(&Registry::new()).check(&[
        ("redial_idempotency_records_limit store=metered", 0.0),
        ("redial_idempotency_refusals_total store=metered reason=store", 2.0),
    ]);
}

#[tokio::test(start_paused = true)]
async fn a_store_warns_before_it_is_full_at_most_once_a_minute() {
    let (journal, _guard) = Journal::start();
    let store = MemoryStore::default().name("payments").records(10).without_shares();
    let begin = async |key| store.begin(&claim(1, key), &TERMS).await;
    for key in 0..7 {
        begin(key).await.unwrap();
    }
    assert!(journal.take().is_empty());
    for key in 7..10 {
        begin(key).await.unwrap();
    }
    let lines = journal.take();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(line.get("transition"), "idempotency-store-filling");
    assert_eq!((line.get("store"), line.get("reason")), ("payments", "store"));
    assert_eq!((line.number("records"), line.number("records_limit")), (8, 10));
    for _ in 0..3 {
        assert!(begin(10).await.is_err());
    }
    let lines = journal.take();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(line.get("transition"), "idempotency-store-refusing");
    tokio::time::advance(ms(29_000)).await;
    assert!(begin(10).await.is_err());
    assert!(journal.take().is_empty(), "not again within a minute");
}

#[tokio::test]
async fn a_scope_that_has_used_most_of_its_share_is_reported() {
    let (journal, _guard) = Journal::start();
    let store = MemoryStore::default().records(100);
    for key in 0..50 {
        store.begin(&claim(1, key), &TERMS).await.unwrap();
    }
    assert!(store.begin(&claim(1, 50), &TERMS).await.is_err());
    let lines = journal.take();
    let [filling, refusing] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(filling.get("transition"), "idempotency-store-filling");
    assert_eq!((filling.get("reason"), filling.number("scope_records")), ("scope", 45));
    assert_eq!((refusing.get("reason"), refusing.number("refused")), ("scope", 1));
}
