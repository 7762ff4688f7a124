//! The requests that arrive.

use axum::http::Version;
use redial::Policy;
use redial_core::decide::Safety;
use redial_queue::delivery::{Deliverer, Delivery};
use redial_queue::durable::{Handled, Handler as _, NewJob};

use super::sink::{Seen, Sink, status};
use super::{claimed, deliver, deliverer, post};

/// The request that arrives for a job at this attempt.
pub(super) async fn arrived(
    deliverer: &Deliverer,
    job: impl FnOnce(&str) -> NewJob,
    attempt: u32,
) -> Seen {
    let sink = Sink::start(&[status(200)]).await;
    let job = claimed(job(&sink.url("/in?a=%20b&c=d;e")), attempt);
    assert_eq!(deliverer.handle(job).await, Handled::Done);
    sink.only()
}

#[tokio::test]
async fn a_request_arrives_byte_for_byte() {
    let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let job = |url: &str| {
        Delivery::new("PATCH", url)
            .and_then(|delivery| delivery.header("X-Many", "one, two"))
            .and_then(|delivery| delivery.header("x-many", "three"))
            .and_then(|delivery| delivery.header("x-name", "Jürgen \"q\" \\ ;"))
            .and_then(|delivery| delivery.header("authorization", "Bearer s3cret"))
            .and_then(|delivery| delivery.header("x-empty", ""))
            .unwrap()
            .body(body.clone())
            .into_job()
    };
    let seen = arrived(&deliverer(), job, 1).await;
    assert_eq!((seen.method.as_str(), seen.version), ("PATCH", Version::HTTP_11));
    assert_eq!(seen.uri, "/in?a=%20b&c=d;e");
    assert_eq!(seen.body, body);
    assert_eq!(seen.header("content-length"), "100000");
    let many: Vec<_> = seen.headers.get_all("x-many").iter().collect();
    assert_eq!(many, ["one, two", "three"]);
    assert_eq!(seen.header("x-name"), "Jürgen \"q\" \\ ;");
    assert_eq!(seen.header("authorization"), "Bearer s3cret");
    assert_eq!(seen.header("x-empty"), "");
    assert!(!seen.headers.contains_key("transfer-encoding"));
}

#[tokio::test]
async fn the_key_is_the_job_s_at_every_attempt_and_quoted() {
    let job = |url: &str| post(url).idempotency_key(r#"order 7 "b" \"#);
    for attempt in [1, 2, 16] {
        let seen = arrived(&deliverer(), job, attempt).await;
        assert_eq!(seen.header("idempotency-key"), r#""order 7 \"b\" \\""#);
        let number = seen.headers.get("redial-attempt").map(|n| n.to_str().unwrap().to_owned());
        assert_eq!(number, (attempt > 1).then(|| attempt.to_string()));
    }
    let bare = Deliverer::builder(&Policy::standard()).bare_keys().build().unwrap();
    let seen = arrived(&bare, |url| post(url).idempotency_key("order-7"), 1).await;
    assert_eq!(seen.header("idempotency-key"), "order-7");
}

#[tokio::test]
async fn a_key_in_the_headers_is_kept_and_a_read_has_none() {
    let own = |url: &str| {
        Delivery::post(url).unwrap().header("Idempotency-Key", "mine").unwrap().into_job()
    };
    assert_eq!(arrived(&deliverer(), own, 1).await.header("idempotency-key"), "mine");
    let read = |url: &str| Delivery::new("GET", url).unwrap().into_job();
    assert!(!arrived(&deliverer(), read, 1).await.headers.contains_key("idempotency-key"));
}

#[tokio::test]
async fn a_key_that_no_header_can_carry_is_unreadable() {
    let sink = Sink::start(&[status(200)]).await;
    for key in ["", "schlüssel", "line\nbreak"] {
        let handled = deliver(&deliverer(), post(&sink.url("/")).idempotency_key(key)).await;
        let Handled::Unreadable(why) = handled else { panic!("{key:?}: {handled:?}") };
        assert!(why.contains("idempotency key"), "{why}");
    }
    assert!(sink.seen().is_empty());
}

#[test]
fn a_destination_is_scheme_host_and_port() {
    let destination = |url: &str| deliverer().destination(&claimed(post(url), 1)).unwrap();
    assert_eq!(destination("http://Hooks.example/a"), "http://hooks.example:80");
    assert_eq!(destination("https://hooks.example/b?c"), "https://hooks.example:443");
    assert_eq!(destination("http://[::1]:8080/"), "http://[::1]:8080");
    assert_eq!(deliverer().destination(&claimed(NewJob::new("?"), 1)), None);
}

#[test]
fn safety_follows_from_the_method_and_the_key() {
    let safety = |method: &str| {
        let job = Delivery::new(method, "http://hooks.example/").unwrap().into_job();
        deliverer().safety(&claimed(job, 1))
    };
    assert_eq!(safety("GET"), Safety::ReadOnly);
    assert_eq!(safety("HEAD"), Safety::ReadOnly);
    for method in ["POST", "PATCH", "PUT", "DELETE"] {
        assert_eq!(safety(method), Safety::Keyed, "{method}");
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let sink =
        Sink::start(&[status(200).body("thanks"), status(503).body("x".repeat(60_000))]).await;
    let deliverer = deliverer();
    for _ in 0..20 {
        deliver(&deliverer, post(&sink.url("/"))).await;
    }
    assert_eq!((sink.seen().len(), sink.connections()), (20, 1));
}

#[tokio::test]
async fn http2_with_prior_knowledge() {
    let http2 = Deliverer::builder(&Policy::standard()).http2().build().unwrap();
    let sink = Sink::start(&[status(200)]).await;
    let all = (0..10).map(|_| deliver(&http2, post(&sink.url("/"))));
    for delivered in all {
        assert_eq!(delivered.await, Handled::Done);
    }
    assert!(sink.seen().iter().all(|seen| seen.version == Version::HTTP_2 && seen.body == "news"));
    assert_eq!(sink.connections(), 1);
}
