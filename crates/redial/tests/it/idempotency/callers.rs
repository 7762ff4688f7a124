//! Only the caller that made the request gets its stored response.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{Request, Response};
use bytes::Bytes;
use redial::http::server::idempotency::{
    Begun, IdempotencyLayer, IdempotencyStore, IdempotencyStoreError, KeyClaim, KeyTerms,
    MemoryStore,
};
use tower::{Layer, ServiceExt, service_fn};

use super::on_every_store;
use super::support::{Answer, Direct, Server, direct_request, memory, send};

on_every_store!(
    all_common_credentials_distinguish_callers,
    credentials_differ_from_none,
    a_response_is_never_replayed_with_its_cookies,
    with_a_scope_a_renewed_cookie_gets_the_stored_response,
);

const HEADERS: [&str; 33] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "api-key",
    "api-token",
    "apikey",
    "auth-token",
    "access-token",
    "private-token",
    "x-access-token",
    "x-api-key",
    "x-api-token",
    "x-apikey",
    "x-auth-key",
    "x-auth-token",
    "x-session-id",
    "x-session-token",
    "x-user-token",
    "cf-access-client-id",
    "cf-access-jwt-assertion",
    "ocp-apim-subscription-key",
    "x-amz-security-token",
    "x-amzn-oidc-identity",
    "x-functions-key",
    "x-goog-api-key",
    "x-goog-authenticated-user-id",
    "x-ms-client-principal-id",
    "x-shopify-access-token",
    "x-vault-token",
    "x-auth-request-user",
    "x-forwarded-client-cert",
    "x-forwarded-user",
    "x-remote-user",
];

async fn post(server: &Server, key: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = server.request("/pay", key);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(request).await
}

#[track_caller]
fn assert_mismatch(answer: &Answer, what: &str) {
    assert_eq!(answer.problem(), (422, "mismatch".to_owned()), "{what}");
    assert!(!String::from_utf8_lossy(&answer.body).contains("payment"), "{what}");
}

async fn all_common_credentials_distinguish_callers<St: IdempotencyStore>(store: St) {
    let server = Server::start(IdempotencyLayer::new(store)).await;
    for (n, name) in HEADERS.into_iter().enumerate() {
        let key = format!("key-{n}");
        assert_eq!(post(&server, &key, &[(name, "ann")]).await.status, 201, "{name}");
        assert!(post(&server, &key, &[(name, "ann")]).await.is_replayed(), "{name}");
        assert_mismatch(&post(&server, &key, &[(name, "bob")]).await, name);
        assert_mismatch(&post(&server, &key, &[(name, "ann"), (name, "bob")]).await, name);
        for other in HEADERS.into_iter().filter(|other| *other != name) {
            assert_mismatch(&post(&server, &key, &[(other, "ann")]).await, other);
        }
    }
    assert_eq!(server.shop.executed(), HEADERS.len());
}

async fn credentials_differ_from_none<St: IdempotencyStore>(store: St) {
    let server = Server::start(IdempotencyLayer::new(store)).await;
    assert_eq!(post(&server, "anonymous", &[]).await.status, 201);
    for name in HEADERS {
        assert_mismatch(&post(&server, "anonymous", &[(name, "")]).await, name);
        assert_mismatch(&post(&server, "anonymous", &[(name, "ann")]).await, name);
        assert_eq!(post(&server, name, &[(name, "")]).await.status, 201);
        assert_mismatch(&post(&server, name, &[]).await, name);
    }
    assert!(post(&server, "anonymous", &[("x-csrf-token", "1")]).await.is_replayed());
}

async fn a_response_is_never_replayed_with_its_cookies<St: IdempotencyStore>(store: St) {
    let handler = service_fn(|_| async {
        let response = Response::builder().header("set-cookie", "session=ann");
        let response = response.header("set-cookie", "theme=dark").header("x-kept", "1");
        let response = response.header("authentication-info", "nextnonce=1");
        let response = response.header("connection", "x-hop, close").header("x-hop", "1");
        Ok::<_, Infallible>(response.body(Body::from("welcome")).unwrap())
    });
    let service = IdempotencyLayer::new(store).layer(handler);
    let ask = || service.clone().oneshot(direct_request("/", "a", Body::empty()));
    assert_eq!(ask().await.unwrap().headers().get_all("set-cookie").iter().count(), 2);
    let again = ask().await.unwrap();
    let names: Vec<_> = again.headers().keys().map(|name| name.as_str()).collect();
    assert_eq!(names, ["x-kept", "idempotent-replayed"]);
}

async fn with_a_scope_a_renewed_cookie_gets_the_stored_response<St: IdempotencyStore>(store: St) {
    let server = Server::start(IdempotencyLayer::new(store).scoped_by(|_| "ann")).await;
    assert_eq!(post(&server, "a", &[("cookie", "session=1")]).await.status, 201);
    assert!(post(&server, "a", &[("cookie", "session=2")]).await.is_replayed());
    assert!(post(&server, "a", &[("x-api-key", "renewed")]).await.is_replayed());
}

#[tokio::test]
async fn a_renewed_cookie_without_a_scope_is_rejected() {
    let server = Server::start(IdempotencyLayer::new(memory())).await;
    assert_eq!(post(&server, "a", &[("cookie", "session=1")]).await.status, 201);
    assert_mismatch(&post(&server, "a", &[("cookie", "session=2")]).await, "renewed");
    assert_eq!(server.shop.executed(), 1);
}

/// HTTP/2 clients may send each cookie in a separate field.
#[tokio::test]
async fn cookies_in_one_field_or_in_several_are_the_same_caller() {
    let direct = Direct::new(&IdempotencyLayer::new(memory()));
    let ask = async |cookies: &[&str]| {
        let mut request = Request::post("/pay").header("idempotency-key", "a");
        for cookie in cookies {
            request = request.header("cookie", *cookie);
        }
        direct.call(request.body(Body::empty()).unwrap()).await
    };
    assert_eq!(ask(&["a=1; b=2"]).await.status, 201);
    assert!(ask(&["a=1", "b=2"]).await.is_replayed());
    assert_eq!(ask(&["a=1", "b=3"]).await.status, 422);
}

/// Puts a cookie into each record, like an earlier version that stored them.
#[derive(Default)]
struct Older(MemoryStore);

impl IdempotencyStore for Older {
    async fn begin(
        &self,
        claim: &KeyClaim,
        terms: &KeyTerms,
    ) -> Result<Begun, IdempotencyStoreError> {
        Ok(match self.0.begin(claim, terms).await? {
            Begun::Finished(record) => {
                let stored = String::from_utf8_lossy(&record).replace("x-old-name", "set-cookie");
                Begun::Finished(Bytes::from(stored))
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
async fn a_cookie_in_a_record_of_an_earlier_version_is_not_replayed() {
    let handler = service_fn(|_| async {
        let response = Response::builder().status(100).header("x-old-name", "session=ann");
        Ok::<_, Infallible>(response.header("x-kept", "1").body(Body::empty()).unwrap())
    });
    let service = IdempotencyLayer::new(Older::default()).layer(handler);
    let ask = || service.clone().oneshot(direct_request("/", "a", Body::empty()));
    assert!(ask().await.unwrap().headers().contains_key("x-old-name"));
    let again = ask().await.unwrap();
    assert!(again.headers().contains_key("x-kept"), "the record can be read");
    assert_eq!(again.headers().get("set-cookie"), None);
}
