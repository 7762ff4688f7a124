//! Bodies that are sent again, and those that are sent once.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Empty, Full};
use redial::http::{Attempts, BoxError, Replay, RetryLayer};
use redial::{Retry, Stop};
use tokio::sync::mpsc;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::unbounded;

/// A body that is fed through a channel, and knows or does not know its length.
#[derive(Debug)]
pub(super) struct Fed {
    frames: mpsc::UnboundedReceiver<Result<Frame<Bytes>, BoxError>>,
    left: Option<u64>,
}

pub(super) type Feed = mpsc::UnboundedSender<Result<Frame<Bytes>, BoxError>>;

pub(super) fn fed(length: Option<u64>) -> (Feed, Fed) {
    let (feed, frames) = mpsc::unbounded_channel();
    (feed, Fed { frames, left: length })
}

impl Body for Fed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = std::task::ready!(self.frames.poll_recv(cx));
        if let (Some(left), Some(Ok(frame))) = (&mut self.left, &frame) {
            *left -= frame.data_ref().map_or(0, Bytes::len) as u64;
        }
        Poll::Ready(frame)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

type Seen = Arc<Mutex<Vec<(Result<Bytes, String>, Option<HeaderMap>)>>>;

/// Sends `body` to a server that reads every attempt whole, and answers 503 until the last.
async fn send<B>(body: B, buffer: usize, attempts: usize) -> (Response<()>, Seen)
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError> + Send,
{
    let seen = Seen::default();
    let keep = Arc::clone(&seen);
    let server = service_fn(move |request: Request<Replay<B>>| {
        let keep = Arc::clone(&keep);
        async move {
            let read = request.into_body().collect().await;
            let trailers = read.as_ref().ok().and_then(|read| read.trailers().cloned());
            let read = read.map(|read| read.to_bytes()).map_err(|error| error.to_string());
            let mut seen = keep.lock().unwrap();
            seen.push((read, trailers));
            let status = if seen.len() < attempts { 503 } else { 200 };
            Ok::<_, Infallible>(
                Response::builder().status(status).body(Empty::<Bytes>::new()).unwrap(),
            )
        }
    });
    let layer = RetryLayer::new(Retry::new(unbounded(|p| p))).buffer(buffer);
    let request = Request::put("/").body(body).unwrap();
    let response = layer.layer(server).oneshot(request).await.unwrap();
    (response.map(drop), seen)
}

fn bodies(seen: &Seen) -> Vec<String> {
    let text = |body: &Result<Bytes, String>| match body {
        Ok(body) => String::from_utf8(body.to_vec()).unwrap(),
        Err(error) => format!("error: {error}"),
    };
    seen.lock().unwrap().iter().map(|(body, _)| text(body)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_body_in_one_chunk_is_not_copied() {
    let chunk = Bytes::from(vec![7; 1024]);
    let (_, seen) = send(Full::new(chunk.clone()), 64 * 1024, 3).await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    for (body, _) in seen.iter() {
        assert_eq!(body.as_ref().unwrap().as_ptr(), chunk.as_ptr(), "it is the same memory");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_replayed_with_its_trailers() {
    for length in [None, Some(10)] {
        let (feed, body) = fed(length);
        for part in ["one ", "two ", "xy"] {
            feed.send(Ok(Frame::data(part.into()))).unwrap();
        }
        let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())]);
        feed.send(Ok(Frame::trailers(trailers.clone()))).unwrap();
        drop(feed);
        let (response, seen) = send(body, 10, 3).await;
        assert_eq!(response.status(), 200);
        assert_eq!(bodies(&seen), ["one two xy"; 3]);
        assert!(seen.lock().unwrap().iter().all(|(_, read)| read.as_ref() == Some(&trailers)));
    }
}

/// reqwest-retry fails a streaming body before anything is sent.
#[tokio::test(start_paused = true)]
async fn defect_7_a_body_that_is_too_large_is_sent_once_and_does_not_fail() {
    for length in [None, Some(11)] {
        let (feed, body) = fed(length);
        feed.send(Ok(Frame::data("one two ".into()))).unwrap();
        feed.send(Ok(Frame::data("xyz".into()))).unwrap();
        drop(feed);
        let (response, seen) = send(body, 10, 1).await;
        assert_eq!(
            (response.status().as_u16(), bodies(&seen)),
            (200, vec!["one two xyz".to_owned()])
        );

        let (feed, body) = fed(length);
        feed.send(Ok(Frame::data("one two ".into()))).unwrap();
        feed.send(Ok(Frame::data("xyz".into()))).unwrap();
        drop(feed);
        let (response, seen) = send(body, 10, 2).await;
        assert_eq!(bodies(&seen), ["one two xyz"]);
        let story = response.extensions().get::<Attempts>().unwrap();
        assert_eq!((response.status().as_u16(), story.stopped()), (503, Some(Stop::Body)));
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_byte_does_not_wait_for_the_last() {
    let (feed, body) = fed(None);
    let (sender, mut received) = mpsc::unbounded_channel();
    let server = service_fn(move |request: Request<Replay<Fed>>| {
        let sender = sender.clone();
        async move {
            let mut body = request.into_body();
            while let Some(frame) = body.frame().await {
                sender.send(frame.unwrap().into_data().unwrap()).unwrap();
            }
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let layer = RetryLayer::new(Retry::new(unbounded(|p| p)));
    let sending = tokio::spawn(layer.layer(server).oneshot(Request::put("/").body(body).unwrap()));
    for part in ["first", "second"] {
        feed.send(Ok(Frame::data(part.into()))).unwrap();
        assert_eq!(received.recv().await.unwrap(), part);
    }
    drop(feed);
    sending.await.unwrap().unwrap();
}

/// The server refuses early; the rest of the body goes to the second attempt, and the first gets an error that
/// it is over rather than that the body has ended.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_superseded_gets_an_error_and_not_an_end() {
    let (feed, body) = fed(None);
    let (late, mut received) = mpsc::unbounded_channel();
    let first = Arc::new(Mutex::new(true));
    let server = service_fn(move |request: Request<Replay<Fed>>| {
        let (late, first) = (late.clone(), std::mem::take(&mut *first.lock().unwrap()));
        async move {
            let mut body = request.into_body();
            let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(frame, "begin ");
            if first {
                tokio::spawn(
                    async move { late.send(body.frame().await.map(|rest| rest.is_err())) },
                );
                // The reader waits before the body is taken from it.
                tokio::task::yield_now().await;
                return Ok::<_, Infallible>(response(503));
            }
            assert_eq!(body.collect().await.unwrap().to_bytes(), "end");
            Ok(response(200))
        }
    });
    let layer = RetryLayer::new(Retry::new(unbounded(|p| p)));
    let sending = tokio::spawn(layer.layer(server).oneshot(Request::put("/").body(body).unwrap()));
    feed.send(Ok(Frame::data("begin ".into()))).unwrap();
    assert_eq!(received.recv().await, Some(Some(true)));
    feed.send(Ok(Frame::data("end".into()))).unwrap();
    drop(feed);
    assert_eq!(sending.await.unwrap().unwrap().status(), 200);
}

fn response(status: u16) -> Response<Empty<Bytes>> {
    Response::builder().status(status).body(Empty::new()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_body_that_fails_is_the_callers_own_failure() {
    for length in [None, Some(5)] {
        let (feed, body) = fed(length);
        feed.send(Err("the disk is gone".into())).unwrap();
        let (_, seen) = send(body, 64, 1).await;
        assert_eq!(bodies(&seen), ["error: the disk is gone"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_length_is_known_whenever_the_caller_knows_it() {
    async fn length<B>(body: B) -> (SizeHint, SizeHint)
    where
        B: Body + Unpin + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&sizes);
        let server = service_fn(move |request: Request<Replay<B>>| {
            keep.lock().unwrap().push(request.body().size_hint());
            let status = if keep.lock().unwrap().len() < 2 { 503 } else { 200 };
            async move { Ok::<_, Infallible>(response(status)) }
        });
        let layer = RetryLayer::new(Retry::new(unbounded(|p| p)));
        layer.layer(server).oneshot(Request::put("/").body(body).unwrap()).await.unwrap();
        let sizes = sizes.lock().unwrap();
        (sizes[0], sizes[1])
    }
    let exact = |sizes: (SizeHint, SizeHint)| (sizes.0.exact(), sizes.1.exact());
    assert_eq!(exact(length(Full::<Bytes>::from("seven b")).await), (Some(7), Some(7)));
    assert_eq!(exact(length(Empty::<Bytes>::new()).await), (Some(0), Some(0)));
    let (feed, body) = fed(Some(7));
    feed.send(Ok(Frame::data("sev".into()))).unwrap();
    assert_eq!(exact(length(body).await), (Some(7), Some(7)), "a part is kept, a part is to come");
    assert_eq!(exact(length(fed(None).1).await), (None, None));
}

/// A body that promises less than it has.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_longer_than_it_said_is_sent_whole() {
    struct Lying(Option<Bytes>, Option<Bytes>);
    impl Body for Lying {
        type Data = Bytes;
        type Error = BoxError;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            let chunk = self.0.take().or_else(|| self.1.take());
            Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
        }
        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(2)
        }
    }
    let (_, seen) = send(Lying(Some("0123456789".into()), Some("more".into())), 5, 1).await;
    assert_eq!(bodies(&seen), ["0123456789more"]);
}
