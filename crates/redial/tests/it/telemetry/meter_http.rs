//! Requests through the layers and their exact counts.

use std::convert::Infallible;
use std::future::{pending, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use redial::Retry;
use redial::admit::budget::Budget;
use redial::http::server::DeadlineLayer;
use redial::http::{RetryLayer, names};
use redial::telemetry::Registry;
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::scrape::scrape;
use crate::support::{Script, ms, plain, unbounded};

type Answer = Result<Response<Empty<Bytes>>, Infallible>;

fn get(uri: &str) -> Request<Empty<Bytes>> {
    Request::get(uri).body(Empty::new()).unwrap()
}

fn status(status: u16) -> Answer {
    Ok(Response::builder().status(status).body(Empty::new()).unwrap())
}

/// A request that gets these responses in turn, each after 20 ms.
async fn request(layer: &RetryLayer, uri: &str, answers: &[u16]) {
    let script = Script::new(answers);
    let service = layer.layer(service_fn(move |_| {
        let script = script.clone();
        async move {
            tokio::time::sleep(ms(20)).await;
            status(script.next())
        }
    }));
    let _ = service.oneshot(get(uri)).await;
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_on_both_paths() {
    let short = Registry::new();
    let full = Registry::new();
    let policy = |places: Option<u32>| {
        unbounded(|p| match places {
            Some(places) => p.concurrency(places),
            None => p,
        })
    };
    for (registry, places) in [(&short, None), (&full, Some(8))] {
        let retry = Retry::new(policy(places)).meter(registry.meter("api"));
        let layer = RetryLayer::new(retry);
        for _ in 0..5 {
            request(&layer, "http://a.example/", &[200]).await;
        }
        request(&layer, "http://a.example/", &[503, 200]).await;
        request(&layer, "http://a.example/", &[404]).await;
        let service = layer.layer(service_fn(async |_| pending::<Answer>().await));
        let running = service.oneshot(get("http://a.example/"));
        tokio::time::timeout(ms(50), running).await.unwrap_err();
        scrape(registry).check(&[
            ("redial_calls_total origin=fresh", 8.0),
            ("redial_attempts_total", 9.0),
            ("redial_retries_total reason=overloaded", 1.0),
            ("redial_stops_total reason=permanent", 1.0),
            ("redial_stops_total reason=cancelled", 1.0),
            ("redial_inflight_requests", 0.0),
            ("redial_attempts_per_call_sum", 9.0),
            ("redial_attempts_per_call_count", 8.0),
            ("redial_attempt_duration_seconds_count outcome=success", 6.0),
            ("redial_attempt_duration_seconds_sum outcome=success", 0.12),
            ("redial_attempt_duration_seconds_count outcome=failure", 3.0),
            ("redial_attempt_duration_seconds_sum outcome=failure", 0.09),
        ]);
    }
    assert_eq!(scrape(&short).0, scrape(&full).0);
}

#[tokio::test(start_paused = true)]
async fn hosts_are_one_upstream() {
    let registry = Registry::new();
    let policy = plain(|p| p.budget(Budget::default()));
    let layer = RetryLayer::new(Retry::new(policy).meter(registry.meter("api"))).per_host();
    for uri in ["http://a.example/", "http://b.example/", "http://a.example/"] {
        request(&layer, uri, &[200]).await;
    }
    request(&layer, "http://b.example/", &[503, 200]).await;
    scrape(&registry).check(&[
        ("redial_calls_total origin=fresh", 4.0),
        ("redial_attempts_total", 5.0),
        ("redial_inflight_requests", 0.0),
        ("redial_attempts_per_call_sum", 5.0),
    ]);
}

#[tokio::test(start_paused = true)]
async fn unreadable_and_nonstandard_hints_are_counted() {
    let registry = Registry::new();
    let layer = RetryLayer::new(Retry::new(unbounded(|p| p)).meter(registry.meter("api")));
    let script = Script::new(&[Some("soon"), Some("0.5"), Some("1"), None]);
    let service = layer.layer(service_fn(move |_| {
        ready(match script.next() {
            Some(hint) => {
                let response = Response::builder().status(503).header("retry-after", hint);
                Ok(response.body(Empty::new()).unwrap())
            }
            None => status(200),
        })
    }));
    service.oneshot(get("http://a.example/")).await.unwrap();
    scrape(&registry).check(&[
        ("redial_hints_total result=unreadable", 1.0),
        ("redial_hints_total result=honoured", 2.0),
        ("redial_hints_nonstandard_total", 1.0),
    ]);
}

/// Calls made while serving a retry are inherited, through the layer as well.
#[tokio::test(start_paused = true)]
async fn a_server_counts_first_requests_and_retries() {
    let registry = Registry::new();
    let client = RetryLayer::new(Retry::new(unbounded(|p| p)).meter(registry.meter("api")));
    let layer = DeadlineLayer::new().meter(registry.server("front"));
    for (attempt, timeout) in
        [(None, "5000"), (Some("1"), "5000"), (Some("3"), "5000"), (Some("2"), "0")]
    {
        let server = layer.layer(service_fn(async |_: Request<Empty<Bytes>>| {
            request(&client, "http://a.example/", &[200]).await;
            status(200)
        }));
        let mut request = get("http://front.example/");
        request.headers_mut().insert(names::TIMEOUT_MS, timeout.parse().unwrap());
        if let Some(attempt) = attempt {
            request.headers_mut().insert(names::ATTEMPT, attempt.parse().unwrap());
        }
        server.oneshot(request).await.unwrap();
    }
    scrape(&registry).check(&[
        ("redial_server_requests_total server=front attempt=first", 2.0),
        ("redial_server_requests_total server=front attempt=retry", 2.0),
        ("redial_calls_total origin=fresh", 2.0),
        ("redial_calls_total origin=retried", 1.0),
    ]);
}
