//! A Redis that stops, hangs and restarts.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use redial::http::server::idempotency::{
    Begun, IdempotencyLayer, IdempotencyStore, IdempotencyStoreError, Interrupted, KeyTerms,
    RedisStore,
};

use super::support::{Server, claim, redis_at};

/// A private Redis for one test. A restart keeps the port.
struct Redis {
    port: u16,
    child: Child,
}

impl Redis {
    fn start() -> Self {
        let port = crate::ports::free_address().port();
        Self { port, child: Self::spawn(port) }
    }

    fn spawn(port: u16) -> Child {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--dir", "/tmp"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().expect("redis-server is not installed: run `cargo xtask setup`")
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn start_again(&mut self) {
        self.child = Self::spawn(self.port);
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    async fn store(&self, timeout: Duration) -> Arc<RedisStore> {
        let store = redis_at(&format!("redis://127.0.0.1:{}", self.port), "test:").await;
        let store = Arc::into_inner(store).unwrap();
        Arc::new(store.timeout(timeout))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn nothing_is_executed_while_redis_is_down_and_requests_succeed_after_it() {
    let mut redis = Redis::start();
    let store = redis.store(Duration::from_secs(20)).await;
    let server = Server::start(IdempotencyLayer::new(store)).await;
    assert_eq!(server.post("/pay", "a").await.status, 201);
    redis.kill();
    for key in ["a", "b"] {
        assert_eq!(server.post("/pay", key).await.problem(), (503, "unavailable".to_owned()));
    }
    assert_eq!(server.shop.executed(), 1);
    redis.start_again();
    assert_eq!(server.post_until_settled("/pay", "b").await.body, "payment 2 of 10 bytes");
    assert!(server.post_until_settled("/pay", "b").await.is_replayed());
}

#[tokio::test]
async fn failing_open_is_opt_in() {
    let mut redis = Redis::start();
    let store = redis.store(Duration::from_secs(20)).await;
    let server = Server::start(IdempotencyLayer::new(store).fail_open()).await;
    redis.kill();
    for payment in 1..=2 {
        let answer = server.post("/pay", "a").await;
        assert_eq!(answer.body, format!("payment {payment} of 10 bytes"));
    }
}

#[tokio::test]
async fn a_redis_that_hangs_delays_no_request_and_takes_no_key() {
    let redis = Redis::start();
    let store = redis.store(Duration::from_millis(300)).await;
    let server = Server::start(IdempotencyLayer::new(store)).await;
    assert_eq!(server.post_until_settled("/pay", "a").await.status, 201);
    redis.signal("-STOP");
    for key in ["a", "b", "b"] {
        assert_eq!(server.post("/pay", key).await.problem(), (503, "unavailable".to_owned()));
    }
    assert_eq!(server.shop.executed(), 1);
    redis.signal("-CONT");
    assert_eq!(server.post_until_settled("/pay", "b").await.body, "payment 2 of 10 bytes");
    assert!(server.post_until_settled("/pay", "a").await.is_replayed());
}

#[tokio::test]
async fn a_redis_that_hung_takes_no_key_for_a_caller_that_timed_out() {
    let redis = Redis::start();
    let patient = redis.store(Duration::from_secs(20)).await;
    let hasty = redis.store(Duration::from_millis(200)).await;
    let hour = Duration::from_secs(3600);
    let terms = KeyTerms { lease: hour, ttl: hour, on_interrupted: Interrupted::Refuse };
    // Load the script first, so that the waiting command is the one that takes the key.
    patient.begin(&claim(1, 1), &terms).await.unwrap();
    patient.renew(&claim(4, 1), &terms).await.unwrap();

    redis.signal("-STOP");
    // Both at once: a later request would have to connect first, which a server that hangs does not allow.
    let (second, third) = (claim(2, 1), claim(3, 1));
    let (left, signed) = tokio::join!(hasty.begin(&second, &terms), hasty.renew(&third, &terms));
    assert!(matches!(left, Err(IdempotencyStoreError::Unavailable(_))), "{left:?}");
    assert!(matches!(signed, Err(IdempotencyStoreError::Unavailable(_))), "{signed:?}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    redis.signal("-CONT");
    // When this is answered, all earlier commands have been executed.
    patient.release(&claim(5, 1)).await.unwrap();
    patient.release(&claim(5, 1)).await.unwrap();
    for key in [2, 3] {
        assert_eq!(patient.begin(&claim(key, 1), &terms).await.unwrap(), Begun::Started, "{key}");
    }
}

#[tokio::test]
async fn the_caller_gets_its_response_when_redis_stops_during_the_execution() {
    let mut redis = Redis::start();
    let store = redis.store(Duration::from_secs(20)).await;
    let server = Arc::new(Server::start(IdempotencyLayer::new(store)).await);
    let first = tokio::spawn({
        let server = Arc::clone(&server);
        async move { server.post("/slow", "a").await }
    });
    server.shop.entered.take().await;
    redis.kill();
    server.shop.gate.add(1);
    assert_eq!(first.await.unwrap().body, "slow payment 1 of 10 bytes");
}

#[tokio::test]
async fn an_unreachable_redis_is_an_error_with_its_cause() {
    let port = crate::ports::free_address().port();
    let error =
        RedisStore::connect(&format!("redis://:secret@127.0.0.1:{port}")).await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(error.to_string(), "the store for idempotency keys is unavailable");
    assert!(cause.contains("refused") && !cause.contains("secret"), "{cause}");
    assert!(RedisStore::connect("no address").await.is_err());
}
