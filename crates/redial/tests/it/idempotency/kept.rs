//! Which parts of a response are stored, which parts of a request are compared, and what an incomplete request holds.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};
use bytes::Bytes;
use redial::http::server::idempotency::{
    Begun, IdempotencyLayer, IdempotencyStore, IdempotencyStoreError, KeyClaim, KeyTerms,
    MemoryStore,
};
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::limits::Hanging;
use super::support::{Direct, direct_request, memory};
use crate::support::ms;

#[tokio::test]
async fn connection_headers_are_not_stored() {
    let handler = service_fn(|_| async {
        let response = Response::builder().header("keep-alive", "timeout=5").header("x-kept", "1");
        Ok::<_, Infallible>(response.header("connection", "close").body(Body::empty()).unwrap())
    });
    let service = IdempotencyLayer::new(memory()).layer(handler);
    let ask = || service.clone().oneshot(direct_request("/", "a", Body::empty()));
    assert_eq!(ask().await.unwrap().headers().len(), 3);
    let again = ask().await.unwrap();
    let names: Vec<_> = again.headers().keys().map(|name| name.as_str()).collect();
    assert_eq!(names, ["x-kept", "idempotent-replayed"]);
}

#[tokio::test]
async fn parts_of_a_request_are_hashed_separately() {
    let direct = Direct::new(&IdempotencyLayer::new(memory()));
    let ask = |path: &str, body: &'static str| direct.call(direct_request(path, "a", body.into()));
    assert_eq!(ask("/pay?to=b", "c").await.status, 201);
    for (path, body) in [("/pay?to=", "bc"), ("/pay?to=bc", ""), ("/payt?o=b", "c")] {
        let problem = ask(path, body).await.problem();
        assert_eq!(problem, (422, "mismatch".to_owned()), "{path} {body}");
    }
}

/// Returns each record with another first byte, as if another version had written it.
#[derive(Default)]
struct Newer(MemoryStore);

impl IdempotencyStore for Newer {
    async fn begin(
        &self,
        claim: &KeyClaim,
        terms: &KeyTerms,
    ) -> Result<Begun, IdempotencyStoreError> {
        Ok(match self.0.begin(claim, terms).await? {
            Begun::Finished(record) => {
                let first = [record[0] + 1];
                Begun::Finished(first.into_iter().chain(record.into_iter().skip(1)).collect())
            }
            begun => begun,
        })
    }

    async fn renew(&self, claim: &KeyClaim, terms: &KeyTerms) -> Result<(), IdempotencyStoreError> {
        self.0.renew(claim, terms).await
    }

    async fn finish(
        &self,
        claim: &KeyClaim,
        kept: Bytes,
        terms: &KeyTerms,
    ) -> Result<(), IdempotencyStoreError> {
        self.0.finish(claim, kept, terms).await
    }

    async fn release(&self, claim: &KeyClaim) -> Result<(), IdempotencyStoreError> {
        self.0.release(claim).await
    }
}

#[tokio::test]
async fn a_record_of_a_later_version_is_not_replayed() {
    let direct = Direct::new(&IdempotencyLayer::new(Arc::new(Newer::default())));
    assert_eq!(direct.post("/pay", "a").await.status, 201);
    assert_eq!(direct.post("/pay", "a").await.problem(), (410, "not-kept".to_owned()));
    assert_eq!(direct.shop.executed(), 1);
}

/// A client that sends slowly does not hold the reservation of the inner service.
#[tokio::test(start_paused = true)]
async fn an_incomplete_request_reserves_nothing() {
    let handler = service_fn(|_| async { Ok::<_, Infallible>(Response::new(Body::empty())) });
    let mut kept = IdempotencyLayer::new(memory()).layer(ConcurrencyLimit::new(handler, 1));
    let other = kept.clone();
    let body = Body::new(Hanging(false));
    let slow = kept.ready().await.unwrap().call(direct_request("/", "a", body));
    let slow = tokio::spawn(slow);
    let request = Request::post("/").body(Body::empty()).unwrap();
    let answer = tokio::time::timeout(ms(1_000), other.oneshot(request)).await;
    assert!(answer.is_ok(), "it waits for an incomplete request");
    slow.abort();
}
