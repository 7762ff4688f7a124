//! Bodies above the replay buffer, and the limit on all of them together.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use proptest::prelude::*;
use redial::http::{Attempts, Replay, ReplayMemory, RetryLayer};
use redial::schedule::{Backoff, Jitter};
use redial::{Retry, Stop};
use tokio::sync::{Notify, mpsc};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::faults::{FaultServer, OK};
use super::replay::{Fed, fed};
use crate::support::{ms, unbounded};

/// What a chunk counts beside its bytes.
const PLACE: usize = 32;

fn layer(memory: &ReplayMemory) -> RetryLayer {
    let backoff = Backoff::exponential(ms(1), ms(1)).jitter(Jitter::None);
    RetryLayer::new(Retry::new(unbounded(|p| p.backoff(backoff)))).replay_memory(memory)
}

fn answer(status: u16) -> Response<Empty<Bytes>> {
    Response::builder().status(status).body(Empty::new()).unwrap()
}

/// Real sockets: nothing listens where the first attempt goes.
#[tokio::test]
async fn a_post_above_the_buffer_is_sent_again_after_a_refused_connection() {
    let free = crate::ports::free_address();
    let hyper = Client::builder(TokioExecutor::new()).build_http::<Replay<Full<Bytes>>>();
    let body = "x".repeat(200_000);
    for room in [1 << 20, 0] {
        let server = FaultServer::start(&[OK]).await;
        let targets = Arc::new(Mutex::new(vec![server.url("/"), format!("http://{free}/")]));
        let hyper = hyper.clone();
        let client = service_fn(move |mut request: Request<Replay<Full<Bytes>>>| {
            *request.uri_mut() = targets.lock().unwrap().pop().unwrap().parse().unwrap();
            hyper.request(request)
        });
        let memory = ReplayMemory::new(room);
        let request = Request::post("/").body(Full::from(body.clone())).unwrap();
        let client = layer(&memory).layer(client);
        let response = client.oneshot(request).await.unwrap();
        assert_eq!(Attempts::of(response.extensions()).made(), 2);
        assert!(server.requests()[0].ends_with(&body));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_without_room_is_sent_again_until_something_of_it_was_read() {
    for reads in [false, true] {
        let memory = ReplayMemory::new(10);
        let asked = Arc::new(AtomicUsize::new(0));
        let server = service_fn({
            let asked = Arc::clone(&asked);
            move |request: Request<Replay<Full<Bytes>>>| {
                let first = asked.fetch_add(1, Ordering::SeqCst) == 0;
                async move {
                    if !first || reads {
                        request.into_body().collect().await.unwrap();
                    }
                    Ok::<_, Infallible>(answer(if first { 429 } else { 200 }))
                }
            }
        });
        let request = Request::post("/").body(Full::from("eleven byte")).unwrap();
        let response = layer(&memory).layer(server).oneshot(request).await.unwrap();
        let attempts = Attempts::of(response.extensions());
        let expected = if reads { (1, Some(Stop::Body)) } else { (2, None) };
        assert_eq!((attempts.made(), attempts.stopped()), expected);
        assert_eq!(memory.used(), 0);
    }
}

/// A server that answers when it is told to.
#[derive(Clone, Default)]
struct Gate(Arc<Notify>);

impl Gate {
    async fn serve(self, request: Request<Replay<Full<Bytes>>>) -> Served {
        request.into_body().collect().await.unwrap();
        self.0.notified().await;
        Ok(answer(200))
    }
}

type Served = Result<Response<Empty<Bytes>>, Infallible>;

#[tokio::test(start_paused = true)]
async fn what_is_kept_counts_until_the_call_ends_and_the_limit_is_never_passed() {
    let (memory, gate) = (ReplayMemory::new(2_500), Gate::default());
    let server = service_fn({
        let gate = gate.clone();
        move |request| gate.clone().serve(request)
    });
    let client = layer(&memory).layer(server);
    let send = |bytes: usize| {
        let request = Request::put("/").body(Full::from(vec![7; bytes])).unwrap();
        tokio::spawn(client.clone().oneshot(request))
    };
    let mut calls = Vec::new();
    for (bytes, used) in [(1_000, 1_000), (0, 1_000), (1_500, 2_500), (1, 2_500)] {
        calls.push(send(bytes));
        tokio::task::yield_now().await;
        assert_eq!(memory.used(), used, "{bytes} more");
    }
    calls.remove(2).abort();
    tokio::task::yield_now().await;
    assert_eq!(memory.used(), 1_000, "a call that is dropped gives back what it held");
    gate.0.notify_waiters();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(memory.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_counts_as_it_is_sent_and_is_forgotten_when_there_is_no_room() {
    let memory = ReplayMemory::new(2 * (4 + PLACE));
    let (read, mut seen) = mpsc::unbounded_channel();
    let server = service_fn(move |request: Request<Replay<Fed>>| {
        let read = read.clone();
        async move {
            let mut body = request.into_body();
            while let Some(frame) = body.frame().await {
                let frame = frame.unwrap().into_data();
                read.send(frame.unwrap_or_else(|_| "trailers".into())).unwrap();
            }
            Ok::<_, Infallible>(answer(200))
        }
    });
    let (feed, body) = fed(None);
    let client = layer(&memory).layer(server);
    let call = tokio::spawn(client.oneshot(Request::put("/").body(body).unwrap()));
    for (part, used) in [("one ", 4 + PLACE), ("two ", 2 * (4 + PLACE)), ("x", 0), ("y", 0)] {
        feed.send(Ok(Frame::data(part.into()))).unwrap();
        assert_eq!(seen.recv().await.unwrap(), part);
        assert_eq!(memory.used(), used, "after {part}");
    }
    feed.send(Ok(Frame::trailers(HeaderMap::new()))).unwrap();
    drop(feed);
    assert_eq!(seen.recv().await.unwrap(), "trailers");
    call.await.unwrap().unwrap();
}

/// The call is over, and the body goes on: nothing of it is needed again.
#[tokio::test(start_paused = true)]
async fn a_body_that_outlives_its_call_is_no_longer_kept_and_arrives_whole() {
    let memory = ReplayMemory::new(1 << 20);
    let (hand_over, mut bodies) = mpsc::unbounded_channel();
    let server = service_fn(move |request: Request<Replay<Fed>>| {
        let hand_over = hand_over.clone();
        async move {
            let mut body = request.into_body();
            let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
            hand_over.send((first, body)).unwrap();
            Ok::<_, Infallible>(answer(200))
        }
    });
    for (length, kept) in [(None, 0), (Some(8), 4 + PLACE)] {
        let (feed, body) = fed(length);
        feed.send(Ok(Frame::data("one ".into()))).unwrap();
        let client = layer(&memory).layer(server.clone());
        client.oneshot(Request::put("/").body(body).unwrap()).await.unwrap();
        assert_eq!(memory.used(), kept, "a chunk that was read in advance is there until the next");
        feed.send(Ok(Frame::data("two ".into()))).unwrap();
        let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "8".parse().unwrap())]);
        feed.send(Ok(Frame::trailers(trailers.clone()))).unwrap();
        drop(feed);
        let (first, body) = bodies.recv().await.unwrap();
        let rest = body.collect().await.unwrap();
        assert_eq!(rest.trailers(), Some(&trailers));
        assert_eq!((first, rest.to_bytes()), ("one ".into(), "two ".into()));
        assert_eq!(memory.used(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any bodies at once, with servers that read some frames and fail, or never answer: the limit holds at every moment,
    /// every body that is read to its end is whole, and everything is given back.
    #[test]
    fn the_limit_holds_and_everything_is_given_back(
        limit in 0_usize..600,
        buffer in 0_usize..200,
        requests in prop::collection::vec(
            (prop::collection::vec(1_usize..60, 0..6), any::<bool>(), 0_usize..9, any::<bool>()), 1..6,
        ),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        let memory = ReplayMemory::new(limit);
        runtime.block_on(async {
            let mut calls = Vec::new();
            for (chunks, sized, reads, answers) in requests {
                let call = send_part(&memory, limit, buffer, &chunks, (sized, reads, answers));
                calls.push(tokio::spawn(call));
            }
            for call in calls {
                let _ = tokio::time::timeout(ms(1_000), call).await.map(Result::unwrap);
            }
        });
        drop(runtime);
        prop_assert_eq!(memory.used(), 0);
    }
}

/// A body of these chunks to a server whose first attempt reads some frames and then fails, or hangs.
fn send_part(
    memory: &ReplayMemory,
    limit: usize,
    buffer: usize,
    chunks: &[usize],
    (sized, reads, answers): (bool, usize, bool),
) -> impl Future<Output = ()> + use<> {
    let (memory, whole) = (memory.clone(), chunks.iter().sum::<usize>());
    let (feed, body) = fed(sized.then_some(whole as u64));
    for chunk in chunks {
        feed.send(Ok(Frame::data(vec![0; *chunk].into()))).unwrap();
    }
    drop(feed);
    let (first, watched) = (Arc::new(AtomicUsize::new(0)), memory.clone());
    let server = service_fn(move |request: Request<Replay<Fed>>| {
        let (first, watched) = (first.fetch_add(1, Ordering::SeqCst) == 0, watched.clone());
        async move {
            let (mut body, mut read) = (request.into_body(), 0);
            for _ in 0..if first { reads } else { usize::MAX } {
                let Some(frame) = body.frame().await else {
                    assert_eq!(read, whole);
                    break;
                };
                read += frame.unwrap().into_data().unwrap().len();
                assert!(watched.used() <= limit);
                tokio::task::yield_now().await;
            }
            if first && !answers {
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(answer(if first { 503 } else { 200 }))
        }
    });
    let client = layer(&memory).buffer(buffer).layer(server);
    async move {
        let sent = client.oneshot(Request::put("/").body(body).unwrap()).await.unwrap();
        let stopped = Attempts::of(sent.extensions()).stopped();
        assert!(sent.status() == 200 || stopped == Some(Stop::Body));
    }
}
