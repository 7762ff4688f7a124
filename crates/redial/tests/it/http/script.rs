//! A server in the same process that answers from a list, and clients of it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Full};
use redial::http::{Attempts, Replay, RetryLayer, RetryService};
use redial::{Policy, Retry};
use tokio::time::Instant;
use tower::{Layer as _, Service};

/// A server that answers from a list, then with the last of it, and remembers what it was asked.
#[derive(Clone)]
pub(super) struct Server {
    answers: Arc<Mutex<Vec<Answer>>>,
    pub(super) seen: Arc<Mutex<Vec<Request<Bytes>>>>,
    pub(super) at: Arc<Mutex<Vec<Instant>>>,
    running: Arc<()>,
    ready: bool,
}

#[derive(Clone)]
pub(super) struct Answer(u16, Vec<(&'static str, &'static str)>, Duration);

pub(super) fn status(status: u16) -> Answer {
    Answer(status, Vec::new(), Duration::ZERO)
}

impl Answer {
    pub(super) fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.1.push((name, value));
        self
    }

    pub(super) fn after(self, delay: Duration) -> Self {
        Self(self.0, self.1, delay)
    }
}

impl Server {
    pub(super) fn new(answers: &[Answer]) -> Self {
        let answers = Arc::new(Mutex::new(answers.iter().rev().cloned().collect()));
        let (seen, at, running) = (Arc::default(), Arc::default(), Arc::default());
        Self { answers, seen, at, running, ready: false }
    }

    pub(super) fn say(&self, answers: &[Answer]) {
        *self.answers.lock().unwrap() = answers.iter().rev().cloned().collect();
    }

    /// Requests that are being answered.
    pub(super) fn running(&self) -> usize {
        Arc::strong_count(&self.running) - 1
    }

    pub(super) fn asked(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// A header of every request, `-` where it is missing.
    pub(super) fn header(&self, name: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let text = |request: &Request<Bytes>| match request.headers().get(name) {
            Some(value) => value.to_str().unwrap().to_owned(),
            None => "-".to_owned(),
        };
        seen.iter().map(text).collect()
    }
}

impl<B> Service<Request<Replay<B>>> for Server
where
    Replay<B>: http_body::Body<Data = Bytes> + Send + 'static,
    <Replay<B> as http_body::Body>::Error: std::fmt::Debug,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future =
        std::pin::Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Replay<B>>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being asked whether it is ready");
        self.at.lock().unwrap().push(Instant::now());
        let (this, running) = (self.clone(), Arc::clone(&self.running));
        Box::pin(async move {
            let _running = running;
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            this.seen.lock().unwrap().push(Request::from_parts(parts, body));
            let answer = {
                let mut left = this.answers.lock().unwrap();
                if left.len() > 1 { left.pop().unwrap() } else { left[0].clone() }
            };
            tokio::time::sleep(answer.2).await;
            let mut response = Response::builder().status(answer.0);
            for (name, value) in answer.1 {
                response = response.header(name, value);
            }
            Ok(response.body(Full::from("what the server says")).unwrap())
        })
    }
}

pub(super) fn client(server: &Server, layer: &RetryLayer) -> RetryService<Server> {
    layer.layer(server.clone())
}

pub(super) fn get() -> Request<Empty<Bytes>> {
    Request::get("http://api.example/thing").body(Empty::new()).unwrap()
}

pub(super) fn post() -> Request<Full<Bytes>> {
    Request::post("http://api.example/orders").body(Full::from("one tea")).unwrap()
}

pub(super) fn layer(policy: Policy) -> RetryLayer {
    RetryLayer::new(Retry::new(policy))
}

pub(super) fn attempts<R>(response: &Response<R>) -> Option<Attempts> {
    response.extensions().get().copied()
}
