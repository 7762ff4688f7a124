//! Any body, with a server that may answer before it has read all of it: the server receives a prefix of the body on each
//! attempt, and all of it if it reads to the end.
//!
//! The first bytes are the size of the replay buffer, that of the memory of all buffers, and the number of frames that each attempt reads before it
//! fails; the others are the frames.
#![no_main]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Empty};
use libfuzzer_sys::fuzz_target;
use redial::admit::budget::Budget;
use redial::http::{Replay, ReplayMemory, RetryLayer};
use redial::{Policy, Retry};
use tower::{Layer, ServiceExt, service_fn};

fuzz_target!(|input: &[u8]| {
    let [most, sized, reads @ ..] = input else { return };
    let Some((reads, frames)) = reads.split_at_checked(3) else { return };
    let body = Script::new(frames, sized % 2 == 1);
    let whole = body.data();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build();
    runtime.expect("a runtime without I/O").block_on(async {
        let policy = Policy::draft().attempts(4).budget(Budget::None).build().expect("constants");
        let memory = ReplayMemory::new(usize::from(*sized) * 2);
        let layer = RetryLayer::new(Retry::new(policy)).buffer(usize::from(*most));
        let layer = layer.replay_memory(&memory);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (server, limits) = (Arc::clone(&seen), reads.to_vec());
        let service = layer.layer(service_fn(move |request: Request<Replay<Script>>| {
            let attempt = server.lock().expect("one thread").len();
            server.lock().expect("one thread").push((Vec::new(), false));
            let limit = limits.get(attempt).copied().map(usize::from);
            read(request.into_body(), limit, attempt, Arc::clone(&server))
        }));
        let request = Request::put("http://a/").body(body).expect("a request");
        let _ = service.oneshot(request).await;
        assert_eq!(memory.used(), 0, "everything is given back");
        let seen = seen.lock().expect("one thread");
        for (data, ended) in &*seen {
            assert!(whole.starts_with(data), "{data:?} of {whole:?}");
            assert!(!ended || *data == whole, "an end in the middle: {data:?} of {whole:?}");
        }
    });
});

type Seen = Arc<Mutex<Vec<(Vec<u8>, bool)>>>;

/// Reads `limit` frames and responds 503, or reads all of them and responds 200.
async fn read(
    mut body: Replay<Script>,
    limit: Option<usize>,
    attempt: usize,
    seen: Seen,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    for _ in 0..limit.unwrap_or(usize::MAX) {
        let frame = tokio::time::timeout(Duration::from_secs(1), body.frame()).await;
        let Ok(Some(frame)) = frame else {
            seen.lock().expect("one thread")[attempt].1 = frame.is_ok();
            break;
        };
        let Ok(frame) = frame else { break };
        if let Some(data) = frame.data_ref() {
            seen.lock().expect("one thread")[attempt].0.extend_from_slice(data);
        }
    }
    let mut response = Response::new(Empty::new());
    if limit.is_some() {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}

/// A body made from the input: chunks of up to 15 bytes, pending polls, trailers, an error.
struct Script {
    steps: VecDeque<Step>,
    sized: bool,
}

#[derive(Clone, PartialEq)]
enum Step {
    Chunk(Bytes),
    NotYet,
    Trailers,
    Broken,
}

impl Script {
    fn new(frames: &[u8], sized: bool) -> Self {
        let mut next = 0_u8;
        let mut steps = VecDeque::new();
        for frame in frames {
            let step = match frame >> 4 {
                0 => Step::Broken,
                1 => Step::Trailers,
                2..=4 => Step::NotYet,
                _ => {
                    let chunk = (0..frame & 15).map(|i| next.wrapping_add(i)).collect();
                    next = next.wrapping_add(frame & 15);
                    Step::Chunk(chunk)
                }
            };
            let last = matches!(step, Step::Broken | Step::Trailers);
            steps.push_back(step);
            if last {
                break;
            }
        }
        Self { steps, sized }
    }

    fn data(&self) -> Vec<u8> {
        let mut data = Vec::new();
        for step in &self.steps {
            if let Step::Chunk(chunk) = step {
                data.extend_from_slice(chunk);
            }
        }
        data
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        match self.steps.pop_front() {
            None => Poll::Ready(None),
            Some(Step::Chunk(chunk)) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            Some(Step::Trailers) => Poll::Ready(Some(Ok(Frame::trailers(HeaderMap::new())))),
            Some(Step::Broken) => Poll::Ready(Some(Err("broken"))),
            Some(Step::NotYet) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.steps.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.sized { SizeHint::with_exact(self.data().len() as u64) } else { SizeHint::new() }
    }
}
