//! Which requests have a key, and which keys are invalid.

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request};
use redial::http::server::idempotency::IdempotencyLayer;

use super::support::{Direct, memory};

fn with_key(key: &[u8]) -> Request<Body> {
    let key = HeaderValue::from_bytes(key).unwrap();
    Request::post("/pay").header("idempotency-key", key).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn quoted_and_bare_keys_are_accepted() {
    let direct = Direct::new(&IdempotencyLayer::new(memory()));
    let long = "k".repeat(255);
    let escaped = "\\\\".repeat(255);
    let keys = [
        "8e03978e-40d5-43dd-bc93-6894a57f9324",
        "base64+/==",
        "a;b",
        "\"a;b\\\"c\"",
        "\"with, comma\"",
        "\" \"",
        &long,
        &format!("\"{}\"", "q".repeat(255)),
        &format!("\"{escaped}\";v=1"),
    ];
    for key in keys {
        let (first, second) = (with_key(key.as_bytes()), with_key(key.as_bytes()));
        assert!(!direct.call(first).await.is_replayed(), "{key}");
        assert!(direct.call(second).await.is_replayed(), "{key}");
    }
    assert!(direct.call(with_key(b"\"base64+/==\";v=1")).await.is_replayed(), "the same key");
    assert_eq!(direct.shop.executed(), keys.len());
}

#[tokio::test]
async fn invalid_keys_are_rejected() {
    let direct = Direct::new(&IdempotencyLayer::new(memory()));
    let megabyte = vec![b'k'; 1 << 20];
    let quoted = format!("\"{}\"", "k".repeat(256));
    let keys: [&[u8]; 14] = [
        b"",
        b"\"\"",
        b"a, b",
        b"a,b",
        b"\"a\", \"b\"",
        b"\"a",
        b"\"a\"b",
        b"a\"",
        b"two words",
        b"tab\tbed",
        b"caf\xe9",
        &[b'k'; 256],
        quoted.as_bytes(),
        &megabyte,
    ];
    for key in keys {
        let answer = direct.call(with_key(key)).await;
        let shown = String::from_utf8_lossy(&key[..key.len().min(20)]);
        assert_eq!(answer.problem(), (400, "malformed".to_owned()), "{shown}");
    }
    let mut twice = with_key(b"a");
    twice.headers_mut().append("idempotency-key", HeaderValue::from_static("a"));
    assert_eq!(direct.call(twice).await.problem(), (400, "malformed".to_owned()));
    assert_eq!(direct.shop.executed(), 0);
}

#[tokio::test]
async fn quotes_can_be_required() {
    let direct = Direct::new(&IdempotencyLayer::new(memory()).quoted());
    assert_eq!(direct.call(with_key(b"a")).await.problem(), (400, "malformed".to_owned()));
    assert_eq!(direct.call(with_key(b":YQ==:")).await.problem(), (400, "malformed".to_owned()));
    assert_eq!(direct.call(with_key(b"\"a\"")).await.status, 201);
}

#[tokio::test]
async fn a_key_can_be_required() {
    let bare = || Request::post("/pay").body(Body::empty()).unwrap();
    let direct = Direct::new(&IdempotencyLayer::new(memory()));
    assert_eq!(direct.call(bare()).await.body, "payment 1 of 0 bytes");
    assert_eq!(direct.call(bare()).await.body, "payment 2 of 0 bytes");
    let direct = Direct::new(&IdempotencyLayer::new(memory()).required());
    assert_eq!(direct.call(bare()).await.problem(), (400, "missing".to_owned()));
    let get = Request::get("/pay").body(Body::empty()).unwrap();
    assert_eq!(direct.call(get).await.status, 201);
}

#[tokio::test]
async fn other_methods_are_not_affected() {
    let send = async |direct: &Direct<_>, method: &Method| {
        let request = Request::builder().uri("/pay").method(method).header("idempotency-key", "a,");
        direct.call(request.body(Body::empty()).unwrap()).await
    };
    let layer = IdempotencyLayer::new(memory());
    for (layer, ours) in [
        (layer.clone(), [Method::POST, Method::PATCH]),
        (layer.methods([Method::PUT, Method::DELETE]), [Method::PUT, Method::DELETE]),
    ] {
        let direct = Direct::new(&layer);
        for method in [Method::POST, Method::PATCH, Method::PUT, Method::DELETE, Method::GET] {
            let expected = if ours.contains(&method) { 400 } else { 201 };
            assert_eq!(send(&direct, &method).await.status, expected, "{method}");
        }
    }
}

#[tokio::test]
async fn methods_share_no_response() {
    let direct = Direct::new(&IdempotencyLayer::new(memory()));
    assert_eq!(direct.call(with_key(b"a")).await.status, 201);
    let mut patch = with_key(b"a");
    *patch.method_mut() = Method::PATCH;
    assert_eq!(direct.call(patch).await.problem(), (422, "mismatch".to_owned()));
}
