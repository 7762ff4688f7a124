//! Requests that enter without the lock are counted as well.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use http::{Request, Response};
use redial::http::server::ShedLayer;
use tokio::sync::Semaphore;
use tower::{Layer, ServiceExt, service_fn};

use super::{number, request};
use crate::support::ms;

#[tokio::test(start_paused = true)]
async fn a_permit_released_without_the_lock_is_not_lost() {
    let layer = ShedLayer::new(2).queue(4);
    let service = layer.layer(service_fn(|_: Request<Body>| async {
        tokio::time::sleep(ms(10)).await;
        Ok::<_, Infallible>(Response::new(Body::empty()))
    }));
    // From now on most requests are not measured.
    for _ in 0..100 {
        service.clone().oneshot(request(&[])).await.unwrap();
    }
    for _ in 0..200 {
        let ask = || tokio::spawn(service.clone().oneshot(request(&[])));
        for one in [ask(), ask(), ask(), ask()] {
            let done = tokio::time::timeout(ms(60_000), one).await;
            assert!(done.is_ok(), "{} in flight, {} waiting", layer.in_flight(), layer.waiting());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn first_attempts_that_enter_at_once_count_as_load() {
    let service =
        ShedLayer::new(10).queue(0).layer(service_fn(|request: Request<Body>| async move {
            let hold = request.headers().contains_key("hold");
            tokio::time::sleep(ms(if hold { 1_000 } else { 10 })).await;
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }));
    // 800 requests a second, of a capacity of 1,000.
    for _ in 0..400 {
        for _ in 0..8 {
            drop(tokio::spawn(service.clone().oneshot(request(&[]))));
        }
        tokio::time::sleep(ms(10)).await;
    }
    tokio::time::sleep(ms(10)).await;
    for _ in 0..10 {
        drop(tokio::spawn(service.clone().oneshot(request(&[("hold", "1")]))));
    }
    tokio::time::sleep(ms(1)).await;
    let mut last = 0;
    for _ in 0..100 {
        let rejected = service.clone().oneshot(request(&[("redial-attempt", "2")])).await.unwrap();
        last = number(&rejected, "retry-after-ms");
    }
    assert!((400..700).contains(&last), "100 slots of 200 a second end after {last} ms");
}

/// A server that is too busy to poll its timers notices expired requests when it dequeues them.
#[tokio::test]
async fn late_requests_in_the_queue_are_skipped() {
    let layer = ShedLayer::new(1).queue(3);
    let go = Arc::new(Semaphore::new(0));
    let may_go = go.clone();
    let service = layer.layer(service_fn(move |request: Request<Body>| {
        let go = may_go.clone();
        async move {
            if request.headers().contains_key("busy") {
                go.acquire().await.unwrap().forget();
                std::thread::sleep(ms(300));
            }
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    }));
    let ask = |headers: &[(&'static str, &str)]| {
        let answer = tokio::spawn(service.clone().oneshot(request(headers)));
        async {
            tokio::time::timeout(ms(60_000), answer).await.expect("it waits for no other request")
        }
    };
    let busy = ask(&[("busy", "1")]);
    tokio::task::yield_now().await;
    let (one, two) = (ask(&[("redial-timeout-ms", "200")]), ask(&[("redial-timeout-ms", "200")]));
    let last = ask(&[]);
    tokio::task::yield_now().await;
    go.add_permits(1);
    let (busy, one, two, last) = tokio::join!(busy, one, two, last);
    let statuses = [busy, one, two, last].map(|answer| answer.unwrap().unwrap().status().as_u16());
    assert_eq!(statuses, [200, 504, 504, 200]);
    assert_eq!((layer.in_flight(), layer.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_0_rejects_every_request() {
    let service = ShedLayer::new(0).queue(1).layer(service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Response::new(Body::empty()))
    }));
    let answer = tokio::time::timeout(ms(3_600_000), service.oneshot(request(&[])));
    assert_eq!(answer.await.expect("it must not be queued").unwrap().status(), 503);
}
