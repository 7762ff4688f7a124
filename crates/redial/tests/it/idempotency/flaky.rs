//! A store whose replies are lost, or that fails, for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::body::Body;
use bytes::Bytes;
use redial::http::server::idempotency::{
    Begun, IdempotencyLayer, IdempotencyStore, IdempotencyStoreError, KeyClaim, KeyTerms,
    MemoryStore,
};

use super::support::{Direct, direct_request};
use crate::support::ms;

#[derive(Default)]
struct Flaky {
    memory: MemoryStore,
    /// How many replies to `begin` are lost.
    begins: AtomicUsize,
    /// How many other steps fail.
    writes: AtomicUsize,
    /// Whether every step fails.
    away: AtomicBool,
}

impl Flaky {
    fn ask(&self) -> Result<(), IdempotencyStoreError> {
        if self.away.load(Ordering::SeqCst) { Err(gone()) } else { Ok(()) }
    }
}

fn fails(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn gone() -> IdempotencyStoreError {
    IdempotencyStoreError::Unavailable("gone".into())
}

impl IdempotencyStore for Flaky {
    async fn begin(
        &self,
        claim: &KeyClaim,
        terms: &KeyTerms,
    ) -> Result<Begun, IdempotencyStoreError> {
        self.ask()?;
        let begun = self.memory.begin(claim, terms).await;
        if fails(&self.begins) { Err(gone()) } else { begun }
    }

    async fn renew(&self, claim: &KeyClaim, terms: &KeyTerms) -> Result<(), IdempotencyStoreError> {
        self.ask()?;
        if fails(&self.writes) { Err(gone()) } else { self.memory.renew(claim, terms).await }
    }

    async fn finish(
        &self,
        claim: &KeyClaim,
        kept: Bytes,
        terms: &KeyTerms,
    ) -> Result<(), IdempotencyStoreError> {
        self.ask()?;
        if fails(&self.writes) { Err(gone()) } else { self.memory.finish(claim, kept, terms).await }
    }

    async fn release(&self, claim: &KeyClaim) -> Result<(), IdempotencyStoreError> {
        self.ask()?;
        if fails(&self.writes) { Err(gone()) } else { self.memory.release(claim).await }
    }
}

fn direct(begins: usize, writes: usize) -> Direct<Arc<Flaky>> {
    let (begins, writes) = (begins.into(), writes.into());
    let store = Arc::new(Flaky { begins, writes, ..Flaky::default() });
    Direct::new(&IdempotencyLayer::new(store).lease(ms(20_000)))
}

#[tokio::test(start_paused = true)]
async fn a_response_is_written_when_the_store_recovers() {
    let direct = direct(0, 3);
    assert_eq!(direct.post("/pay", "a").await.status, 201, "the caller does not wait for it");
    assert_eq!(direct.post("/pay", "a").await.problem(), (409, "in-flight".to_owned()));
    tokio::time::sleep(ms(5_000)).await;
    assert!(direct.post("/pay", "a").await.is_replayed());
}

/// Fifty handlers finish while the store is unavailable for 1 s, and as many requests are rejected meanwhile.
async fn written_after_a_second(refused: usize) -> usize {
    let store = Arc::new(Flaky::default());
    let direct = Direct::new(&IdempotencyLayer::new(store.clone()));
    let slow = |n: usize| direct_request("/slow", &n.to_string(), Body::empty());
    let running: Vec<_> = (0..50).map(|n| tokio::spawn(direct.call(slow(n)))).collect();
    for _ in 0..50 {
        direct.shop.entered.take().await;
    }
    store.away.store(true, Ordering::SeqCst);
    for n in 0..refused {
        let problem = direct.post("/pay", &format!("new{n}")).await.problem();
        assert_eq!(problem, (503, "unavailable".to_owned()));
    }
    direct.shop.gate.add(50);
    for answer in running {
        assert_eq!(answer.await.unwrap().status, 200, "its caller gets the response");
    }
    tokio::time::sleep(ms(1_000)).await;
    store.away.store(false, Ordering::SeqCst);
    tokio::time::sleep(ms(1_000)).await;
    let mut written = 0;
    for n in 0..50 {
        written += usize::from(direct.call(slow(n)).await.is_replayed());
    }
    written
}

#[tokio::test(start_paused = true)]
async fn responses_are_written_soon_after_the_store_recovers() {
    assert_eq!((written_after_a_second(0).await, written_after_a_second(5_000).await), (50, 50));
}

#[tokio::test(start_paused = true)]
async fn a_response_that_cannot_be_written_leaves_an_interruption() {
    let direct = direct(0, usize::MAX);
    assert_eq!(direct.post("/pay", "a").await.status, 201);
    tokio::time::sleep(ms(19_000)).await;
    assert_eq!(direct.post("/pay", "a").await.problem(), (409, "in-flight".to_owned()));
    tokio::time::sleep(ms(1_000)).await;
    assert_eq!(direct.post("/pay", "a").await.problem(), (424, "interrupted".to_owned()));
    assert_eq!(direct.shop.executed(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_taken_for_a_rejected_request_is_released() {
    let direct = direct(1, 2);
    assert_eq!(direct.post("/pay", "a").await.problem(), (503, "unavailable".to_owned()));
    assert_eq!(direct.post("/pay", "a").await.problem(), (409, "in-flight".to_owned()));
    tokio::time::sleep(ms(5_000)).await;
    assert_eq!(direct.post("/pay", "a").await.body, "payment 1 of 10 bytes");
}

#[tokio::test(start_paused = true)]
async fn a_failed_renewal_does_not_affect_the_handler() {
    let direct = direct(0, 2);
    let slow = || direct_request("/slow", "a", Body::empty());
    let first = tokio::spawn(direct.call(slow()));
    direct.shop.entered.take().await;
    tokio::time::sleep(ms(19_990)).await;
    assert_eq!(direct.call(slow()).await.problem(), (409, "in-flight".to_owned()));
    tokio::time::sleep(ms(20)).await;
    assert_eq!(direct.call(slow()).await.problem(), (409, "in-flight".to_owned()));
    direct.shop.gate.add(1);
    assert_eq!(first.await.unwrap().status, 200);
    assert!(direct.call(slow()).await.is_replayed());
}
