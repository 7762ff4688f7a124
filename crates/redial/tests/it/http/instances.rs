//! The instance of the client below that a call has to itself.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use redial::http::{Replay, RetryLayer, RetryService};
use redial::schedule::HedgeRule;
use redial::{Policy, Retry};
use tower::{Layer as _, Service, ServiceExt as _};

use super::script::get;
use crate::support::{Log, ms, unbounded};

/// A client with state of its own: how many attempts its instance, and those that it was cloned from, have made.
struct Counting {
    made: usize,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// What is answered to each attempt of the test, and after how long. Then 200 at once.
    answers: Vec<(u16, Duration)>,
    asked: AtomicUsize,
    seen: Mutex<Vec<usize>>,
    clones: AtomicUsize,
}

impl Clone for Counting {
    fn clone(&self) -> Self {
        self.shared.clones.fetch_add(1, Ordering::SeqCst);
        Self { made: self.made, shared: Arc::clone(&self.shared) }
    }
}

type Answering =
    std::pin::Pin<Box<dyn Future<Output = Result<Response<Empty<Bytes>>, Infallible>> + Send>>;

impl Service<Request<Replay<Empty<Bytes>>>> for Counting {
    type Response = Response<Empty<Bytes>>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Replay<Empty<Bytes>>>) -> Answering {
        self.made += 1;
        self.shared.seen.lock().unwrap().push(self.made);
        let asked = self.shared.asked.fetch_add(1, Ordering::SeqCst);
        let (status, after) = self.shared.answers.get(asked).copied().unwrap_or((200, ms(0)));
        Box::pin(async move {
            tokio::time::sleep(after).await;
            Ok(Response::builder().status(status).body(Empty::new()).unwrap())
        })
    }
}

/// What the instances counted at each attempt of one call.
async fn seen(retry: Retry, answers: &[(u16, Duration)]) -> (Vec<usize>, usize) {
    let shared = Shared { answers: answers.to_vec(), ..Shared::default() };
    let shared = Arc::new(shared);
    let counting = Counting { made: 0, shared: Arc::clone(&shared) };
    let mut client = RetryLayer::new(retry).layer(counting);
    let mut send = async || {
        let response = client.ready().await.unwrap().call(get()).await.unwrap();
        assert_eq!(response.status(), 200);
    };
    send().await;
    let (all, clones) = (shared.seen.lock().unwrap().clone(), shared.clones.load(Ordering::SeqCst));
    send().await;
    assert_eq!(shared.seen.lock().unwrap().last(), Some(&1), "the next call starts from zero");
    (all, clones)
}

/// The same policy, observed and not: with and without the fast path.
fn retries(policy: &Policy) -> [Retry; 2] {
    [Retry::new(policy.clone()), Retry::new(policy.clone()).observe(Log::default())]
}

#[tokio::test(start_paused = true)]
async fn retries_are_made_by_the_instance_of_the_call() {
    for retry in retries(&unbounded(|p| p)) {
        let answers = [(503, ms(0)), (503, ms(0))];
        assert_eq!(seen(retry.clone(), &answers).await, (vec![1, 2, 3], 1));
        assert_eq!(seen(retry, &[]).await, (vec![1], 1));
    }
}

#[tokio::test(start_paused = true)]
async fn hedges_are_made_by_clones_that_know_of_the_attempts_before() {
    for retry in retries(&unbounded(|p| p.hedge(HedgeRule::after(ms(100))))) {
        let answers = [(200, ms(5_000)), (200, ms(0))];
        assert_eq!(seen(retry.clone(), &answers).await, (vec![1, 2], 2));
        let answers = [(503, ms(200)), (503, ms(0))];
        assert_eq!(seen(retry, &answers).await, (vec![1, 2, 3], 2), "a retry follows the hedge");
    }
}

/// A client that allocates nothing itself.
#[derive(Clone)]
struct Instant(u64);

impl Service<Request<Replay<Empty<Bytes>>>> for Instant {
    type Response = Response<Empty<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Empty<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Replay<Empty<Bytes>>>) -> Self::Future {
        assert_eq!(self.0, 0);
        self.0 |= 1;
        ready(Ok(Response::new(Empty::new())))
    }
}

#[tokio::test]
async fn a_request_that_succeeds_allocates_once() {
    let layer = RetryLayer::new(Retry::new(Policy::standard())).without_timeout_header();
    let mut client: RetryService<Instant> = layer.layer(Instant(0));
    let mut requests: Vec<_> = (0..100).map(|_| Request::new(Empty::new())).collect();
    let mut send = async |request| {
        client.ready().await.unwrap().call(request).await.unwrap();
    };
    send(Request::new(Empty::new())).await;
    let before = crate::cost::allocations();
    for request in requests.drain(..) {
        send(request).await;
    }
    assert_eq!(crate::cost::allocations() - before, 100, "the box of its future");
}
