//! The responses that a client gets over a real connection, with every store.

use std::sync::Arc;

use redial::http::server::idempotency::{IdempotencyLayer, IdempotencyStore, Interrupted};
use tokio::task::JoinSet;

use super::on_every_store;
use super::support::{Server, send, within};

on_every_store!(
    the_first_response_is_replayed_unchanged,
    two_hundred_at_once_execute_once,
    a_repetition_during_the_execution_gets_a_409,
    another_request_with_the_key_is_rejected,
    callers_have_separate_keys,
    credentials_identify_a_caller_without_a_scope,
    an_ip_address_is_not_compared,
    another_host_is_another_request_without_a_scope,
    a_client_that_disconnects_finds_the_response,
    unprocessed_responses_release_the_key,
    every_other_response_is_stored,
    a_response_that_is_too_large_is_sent_once,
    an_incomplete_response_is_not_replayed,
    a_handler_that_panics_is_interrupted,
    an_interrupted_execution_is_repeated_if_configured,
);

async fn the_first_response_is_replayed_unchanged<St: IdempotencyStore>(store: St) {
    let server = Server::start(IdempotencyLayer::new(store)).await;
    let first = server.post("/pay", "a").await;
    assert_eq!((first.status, &first.body[..]), (201, &b"payment 1 of 10 bytes"[..]));
    assert!(!first.is_replayed());
    for _ in 0..3 {
        let mut again = server.post("/pay", "a").await;
        assert_eq!(again.headers.remove("idempotent-replayed").unwrap(), "true");
        assert_eq!(again, first);
    }
    assert_eq!(
        server.post("/pay", "\"a\"").await.body,
        first.body,
        "quotes are not part of the key"
    );
    assert_eq!(server.shop.executed(), 1);
    assert_eq!(server.post("/pay", "b").await.body, "payment 2 of 10 bytes");
}

async fn two_hundred_at_once_execute_once<St: IdempotencyStore>(store: St) {
    let server = Arc::new(Server::start(IdempotencyLayer::new(store)).await);
    let mut posts = JoinSet::new();
    for _ in 0..200 {
        let server = Arc::clone(&server);
        posts.spawn(async move { server.post("/pay", "a").await });
    }
    let answers = within(posts.join_all()).await;
    let firsts = answers.iter().filter(|answer| answer.status == 201 && !answer.is_replayed());
    assert_eq!(firsts.count(), 1);
    for answer in &answers {
        match answer.status {
            201 => assert_eq!(answer.body, "payment 1 of 10 bytes"),
            _ => assert_eq!(answer.problem(), (409, "in-flight".to_owned())),
        }
    }
    assert_eq!(server.shop.executed(), 1);
}

async fn a_repetition_during_the_execution_gets_a_409<St: IdempotencyStore>(store: St) {
    let server = Arc::new(Server::start(IdempotencyLayer::new(store)).await);
    let first = tokio::spawn({
        let server = Arc::clone(&server);
        async move { server.post("/slow", "a").await }
    });
    server.shop.entered.take().await;
    let meanwhile = server.post("/slow", "a").await;
    assert_eq!(meanwhile.problem(), (409, "in-flight".to_owned()));
    assert_eq!(meanwhile.headers["retry-after"], "1");
    server.shop.gate.add(1);
    let first = first.await.unwrap();
    assert_eq!((first.status, &first.body[..]), (200, &b"slow payment 1 of 10 bytes"[..]));
    let later = server.post("/slow", "a").await;
    assert_eq!((later.is_replayed(), later.body), (true, first.body));
}

async fn another_request_with_the_key_is_rejected<St: IdempotencyStore>(store: St) {
    let server = Server::start(IdempotencyLayer::new(store)).await;
    assert_eq!(server.post("/pay", "a").await.status, 201);
    let others = [
        server.request("/pay", "a").body("twenty pounds"),
        server.request("/pay", "a"),
        server.request("/pay?to=b", "a").body("ten pounds"),
        server.request("/status/200", "a").body("ten pounds"),
    ];
    for other in others {
        assert_eq!(send(other).await.problem(), (422, "mismatch".to_owned()));
    }
    assert_eq!(server.shop.executed(), 1);
}

async fn callers_have_separate_keys<St: IdempotencyStore>(store: St) {
    let layer = IdempotencyLayer::new(store)
        .scoped_by(|request| request.headers["x-account"].to_str().unwrap_or_default().to_owned());
    let server = Server::start(layer).await;
    let post = async |account: &str, key: &str, token: &str| {
        let request = server.request("/pay", key).header("x-account", account);
        send(request.header("authorization", token)).await
    };
    assert_eq!(post("ann", "a", "t1").await.body, "payment 1 of 0 bytes");
    assert_eq!(post("bob", "a", "t1").await.body, "payment 2 of 0 bytes");
    assert_eq!(post("ann", "a", "t2").await.body, "payment 1 of 0 bytes", "renewed credentials");
    assert_eq!(post("ann", "xa", "t1").await.body, "payment 3 of 0 bytes");
    assert_eq!(post("annx", "a", "t1").await.body, "payment 4 of 0 bytes");
}

async fn credentials_identify_a_caller_without_a_scope<St: IdempotencyStore>(store: St) {
    let server = Server::start(IdempotencyLayer::new(store)).await;
    let post = async |token| send(server.request("/pay", "a").header("authorization", token)).await;
    assert_eq!(post("ann").await.status, 201);
    assert_eq!(post("bob").await.problem(), (422, "mismatch".to_owned()));
    assert!(post("ann").await.is_replayed());
    let twice = server.request("/pay", "a").header("authorization", "ann");
    let twice = send(twice.header("authorization", "bob")).await;
    assert_eq!(twice.problem(), (422, "mismatch".to_owned()), "every header value counts");
}

async fn another_host_is_another_request_without_a_scope<St: IdempotencyStore>(store: St) {
    let layer = IdempotencyLayer::new(store);
    let server = Server::start(layer.clone()).await;
    let post =
        async |server: &Server, host| send(server.request("/pay", "a").header("host", host)).await;
    assert_eq!(post(&server, "one.example").await.status, 201);
    assert_eq!(post(&server, "two.example").await.problem(), (422, "mismatch".to_owned()));
    assert!(post(&server, "ONE.example:8443").await.is_replayed());
    let server = Server::start(layer.scoped_by(|_| "ann")).await;
    assert_eq!(post(&server, "a.example").await.status, 201);
    assert!(post(&server, "b.example").await.is_replayed(), "the scope identifies the caller");
}

async fn an_ip_address_is_not_compared<St: IdempotencyStore>(store: St) {
    let server = Server::start(IdempotencyLayer::new(store)).await;
    let post = async |host| send(server.request("/pay", "a").header("host", host)).await;
    assert_eq!(post("10.0.0.1:80").await.status, 201);
    for host in ["10.0.0.2", "10.0.0.1:81", "[2001:db8::1]:80"] {
        assert!(post(host).await.is_replayed(), "{host}");
    }
}

async fn a_client_that_disconnects_finds_the_response<St: IdempotencyStore>(store: St) {
    let server = Arc::new(Server::start(IdempotencyLayer::new(store)).await);
    let first = tokio::spawn({
        let server = Arc::clone(&server);
        async move { server.post("/slow", "a").await }
    });
    server.shop.entered.take().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    server.shop.gate.add(1);
    let again = server.post_until_settled("/slow", "a").await;
    assert_eq!((again.is_replayed(), &again.body[..]), (true, &b"slow payment 1 of 10 bytes"[..]));
    assert_eq!(server.shop.executed(), 1);
}

async fn unprocessed_responses_release_the_key<St: IdempotencyStore>(store: St) {
    let server = Server::start(IdempotencyLayer::new(store)).await;
    let paths =
        ["/status/401", "/status/421", "/status/425", "/status/429", "/slot", "/unprocessed"];
    for path in paths {
        let before = server.shop.executed();
        let (first, second) = (server.post(path, path).await, server.post(path, path).await);
        assert_eq!(server.shop.executed(), before + 2, "{path}");
        assert_eq!((first.status, second.is_replayed()), (second.status, false));
    }
}

async fn every_other_response_is_stored<St: IdempotencyStore>(store: St) {
    let server = Server::start(IdempotencyLayer::new(store)).await;
    for code in [200, 204, 302, 400, 402, 403, 404, 409, 422, 500, 502, 503, 504] {
        let path = format!("/status/{code}");
        let before = server.shop.executed();
        let (first, second) = (server.post(&path, &path).await, server.post(&path, &path).await);
        assert_eq!(server.shop.executed(), before + 1, "{code}");
        assert_eq!((first.status, second.status), (code, code));
        assert_eq!((first.is_replayed(), second.is_replayed()), (false, true));
    }
}

async fn a_response_that_is_too_large_is_sent_once<St: IdempotencyStore>(store: St) {
    let server = Server::start(IdempotencyLayer::new(store).response_bytes(100)).await;
    for (path, length) in [("/bytes/101", 101), ("/chunks/11", 110), ("/bytes/4000000", 4_000_000)]
    {
        let before = server.shop.executed();
        let first = server.post(path, path).await;
        assert_eq!((first.status, first.body.len()), (200, length));
        assert_eq!(server.post(path, path).await.problem(), (410, "not-kept".to_owned()));
        assert_eq!(server.shop.executed(), before + 1, "{path}");
    }
    for path in ["/bytes/100", "/chunks/10"] {
        let first = server.post(path, path).await;
        let second = server.post(path, path).await;
        assert_eq!((second.is_replayed(), second.body), (true, first.body), "{path}");
    }
}

async fn an_incomplete_response_is_not_replayed<St: IdempotencyStore>(store: St) {
    let server = Server::start(IdempotencyLayer::new(store)).await;
    let first = async { server.request("/broken", "a").send().await?.bytes().await };
    assert!(within(first).await.is_err(), "the caller gets the error");
    let again = send(server.request("/broken", "a")).await;
    assert_eq!(again.problem(), (410, "not-kept".to_owned()));
    assert_eq!(server.shop.executed(), 1);
}

async fn a_handler_that_panics_is_interrupted<St: IdempotencyStore>(store: St) {
    let server = Server::start(IdempotencyLayer::new(store)).await;
    let first = within(server.request("/panic", "a").send()).await;
    assert!(first.is_err(), "the connection ends, as without the layer: {first:?}");
    let again = send(server.request("/panic", "a")).await;
    assert_eq!(again.problem(), (424, "interrupted".to_owned()));
    assert_eq!(server.shop.executed(), 1);
}

async fn an_interrupted_execution_is_repeated_if_configured<St: IdempotencyStore>(store: St) {
    let layer = IdempotencyLayer::new(store).on_interrupted(Interrupted::Execute);
    let server = Server::start(layer).await;
    assert!(within(server.request("/panic", "a").send()).await.is_err());
    let again = send(server.request("/panic", "a")).await;
    assert_eq!((again.is_replayed(), &again.body[..]), (false, &b"again"[..]));
    assert!(send(server.request("/panic", "a")).await.is_replayed());
    assert_eq!(server.shop.executed(), 2);
}
