//! Spans of requests, to a real server on loopback.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Once};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use opentelemetry::baggage::BaggageExt as _;
use opentelemetry::propagation::TextMapCompositePropagator;
use opentelemetry::trace::{FutureExt as _, SpanKind, TraceContextExt as _, Tracer as _};
use opentelemetry::trace::{Status, TracerProvider as _};
use opentelemetry::{Context, KeyValue, global};
use opentelemetry_sdk::propagation::{BaggagePropagator, TraceContextPropagator};
use opentelemetry_sdk::trace::SpanData;
use redial::http::RetryLayer;
use redial::http::reqwest::{SendWith as _, client_builder, middleware};
use redial::schedule::Backoff;
use redial::schedule::HedgeRule;
use redial::{Policy, Retry};
use tokio::net::TcpListener;

use super::spans::{Recorder, is_error, text, texts};
use crate::support::{ms, unbounded};

/// Responds from a list, then with 200, and records the headers.
#[derive(Clone, Default)]
pub(super) struct Site {
    answers: Arc<Mutex<Vec<u16>>>,
    seen: Arc<Mutex<Vec<HeaderMap>>>,
    /// How many of the first requests are never answered.
    silent: usize,
}

impl Site {
    pub(super) async fn start(answers: &[u16]) -> (Self, SocketAddr) {
        Self::start_silent(answers, 0).await
    }

    async fn start_silent(answers: &[u16], silent: usize) -> (Self, SocketAddr) {
        let answers = Arc::new(Mutex::new(answers.iter().rev().copied().collect()));
        let site = Self { answers, silent, ..Self::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(site.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (site, address)
    }

    /// A header of every request, `-` where it is missing.
    pub(super) fn header(&self, name: &str) -> Vec<String> {
        let text = |headers: &HeaderMap| match headers.get(name) {
            Some(value) => value.to_str().unwrap().to_owned(),
            None => "-".to_owned(),
        };
        self.seen.lock().unwrap().iter().map(text).collect()
    }
}

async fn answer(State(site): State<Site>, headers: HeaderMap) -> StatusCode {
    let seen = {
        let mut seen = site.seen.lock().unwrap();
        seen.push(headers);
        seen.len()
    };
    if seen <= site.silent {
        std::future::pending::<()>().await;
    }
    let answer = site.answers.lock().unwrap().pop().unwrap_or(200);
    StatusCode::from_u16(answer).unwrap()
}

/// Installed for the whole process; only traced calls use it.
pub(super) fn install_propagator() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        global::set_text_map_propagator(TextMapCompositePropagator::new(vec![
            Box::new(TraceContextPropagator::new()),
            Box::new(BaggagePropagator::new()),
        ]));
    });
}

pub(super) fn quick() -> Policy {
    unbounded(|p| p.backoff(Backoff::exponential(ms(1), ms(2))))
}

/// The `traceparent` that the server should have received for this span.
fn traceparent(span: &SpanData) -> String {
    let context = &span.span_context;
    format!("00-{}-{}-01", context.trace_id(), context.span_id())
}

fn check_resent(recorder: &Recorder, call: &SpanData, site: &Site, address: SocketAddr) {
    assert_eq!(text(call, "redial.attempts"), "3");
    let attempts = recorder.below(call);
    assert!(attempts.iter().all(|attempt| attempt.span_kind == SpanKind::Client));
    assert!(attempts.iter().all(|attempt| attempt.name == "GET"));
    assert_eq!(texts(&attempts, "http.request.resend_count"), ["-", "1", "2"]);
    assert_eq!(texts(&attempts, "http.response.status_code"), ["503", "500", "200"]);
    assert_eq!(texts(&attempts, "error.type"), ["overloaded", "server-error", "-"]);
    assert_eq!(attempts.iter().map(is_error).collect::<Vec<_>>(), [true, true, false]);
    for attempt in &attempts {
        assert_eq!(text(attempt, "http.request.method"), "GET");
        assert_eq!(text(attempt, "server.address"), "127.0.0.1");
        assert_eq!(text(attempt, "server.port"), address.port().to_string());
        assert_eq!(text(attempt, "url.full"), format!("http://{address}/cart"));
    }
    let sent: Vec<String> = attempts.iter().map(traceparent).collect();
    assert_eq!(site.header("traceparent"), sent);
    assert!(sent[0] != sent[1] && sent[1] != sent[2]);
}

#[tokio::test]
async fn each_attempt_of_a_request_has_its_own_span_and_traceparent() {
    install_propagator();
    let recorder = Recorder::new();
    let tracer = recorder.provider.tracer("test");
    let (site, address) = Site::start(&[503, 500]).await;
    let retry = Retry::new(quick()).traced(recorder.otel());
    let client = client_builder(retry.policy()).build().unwrap();
    let request = client.get(format!("http://user:secret@{address}/cart?token=secret"));
    let handler = Context::current_with_span(tracer.start("handler"))
        .with_baggage([KeyValue::new("tenant", "blue")]);
    let response = request.send_with(&retry).with_context(handler).await.unwrap();
    assert_eq!(response.status(), 200);
    let handler = recorder.root();
    let calls = recorder.below(&handler);
    assert_eq!((calls.len(), &*calls[0].name), (1, "redial GET"));
    check_resent(&recorder, &calls[0], &site, address);
    assert_eq!(site.header("baggage"), ["tenant=blue", "tenant=blue", "tenant=blue"]);
    assert!(!format!("{:?}", recorder.spans()).contains("secret"));
}

#[tokio::test]
async fn existing_baggage_is_left_alone() {
    install_propagator();
    let recorder = Recorder::new();
    let (site, address) = Site::start(&[503]).await;
    let retry = Retry::new(quick()).traced(recorder.otel().named("cart"));
    let client = client_builder(retry.policy()).build().unwrap();
    let request = client.get(format!("http://{address}/")).header("baggage", "a=1,b=2;p");
    request.send_with(&retry).await.unwrap();
    assert_eq!(site.header("baggage"), ["a=1,b=2;p", "a=1,b=2;p"]);
    assert_eq!(recorder.root().name, "cart");
}

#[tokio::test]
async fn a_request_through_the_middleware_has_them_too() {
    install_propagator();
    let recorder = Recorder::new();
    let (site, address) = Site::start(&[503, 500]).await;
    let retry = Retry::new(quick()).traced(recorder.otel());
    let client = client_builder(retry.policy()).build().unwrap();
    let layer = RetryLayer::new(retry);
    let client = reqwest_middleware::ClientBuilder::new(client).with(middleware(layer)).build();
    client.get(format!("http://{address}/cart")).send().await.unwrap();
    check_resent(&recorder, &recorder.root(), &site, address);
}

#[tokio::test]
async fn a_request_that_gives_up_reports_it() {
    let recorder = Recorder::new();
    let (_site, address) = Site::start(&[404, 503, 503, 503, 503]).await;
    let retry = Retry::new(quick()).traced(recorder.otel());
    let client = client_builder(retry.policy()).build().unwrap();
    let send = async |path: &str| {
        let url = format!("http://{address}{path}");
        client.get(url).send_with(&retry).await.unwrap().status().as_u16()
    };
    assert_eq!((send("/none").await, send("/busy").await), (404, 503));
    let calls = recorder.named("redial GET");
    assert_eq!(texts(&calls, "redial.attempts"), ["1", "4"]);
    assert_eq!(texts(&calls, "redial.stop"), ["permanent", "attempts"]);
    assert!(calls.iter().all(is_error));
    assert_eq!(texts(&recorder.below(&calls[0]), "http.response.status_code"), ["404"]);
    assert_eq!(texts(&recorder.below(&calls[0]), "error.type"), ["permanent"]);
}

#[tokio::test]
async fn an_unanswered_request_has_no_status() {
    let recorder = Recorder::new();
    let (_site, address) = Site::start_silent(&[], usize::MAX).await;
    let policy = quick().edit().attempts(2).attempt_timeout(ms(20)).build().unwrap();
    let retry = Retry::new(policy).traced(recorder.otel());
    let client = client_builder(retry.policy()).build().unwrap();
    client.get(format!("http://{address}/")).send_with(&retry).await.unwrap_err();
    let attempts = recorder.below(&recorder.root());
    assert_eq!(texts(&attempts, "error.type"), ["timeout", "timeout"]);
    assert_eq!(texts(&attempts, "http.response.status_code"), ["-", "-"]);
}

#[tokio::test]
async fn hedged_requests_are_siblings_and_the_loser_is_cancelled() {
    install_propagator();
    let recorder = Recorder::new();
    let (site, address) = Site::start_silent(&[], 1).await;
    let policy = quick().edit().hedge(HedgeRule::after(ms(20))).build().unwrap();
    let retry = Retry::new(policy).traced(recorder.otel());
    let client = client_builder(retry.policy()).build().unwrap();
    let layer = RetryLayer::new(retry);
    let response = client.get(format!("http://{address}/")).send_through(&layer).await.unwrap();
    // They have ended before the response is returned.
    let call = recorder.root();
    assert_eq!(response.status(), 200);
    let attempts = recorder.below(&call);
    assert_eq!(texts(&attempts, "redial.hedge"), ["-", "true"]);
    assert_eq!(texts(&attempts, "redial.outcome"), ["cancelled", "success"]);
    assert_eq!(texts(&attempts, "http.request.resend_count"), ["-", "1"]);
    assert_eq!(attempts[0].status, Status::Unset);
    assert!(attempts.iter().all(|attempt| attempt.end_time <= call.end_time));
    let sent: Vec<String> = attempts.iter().map(traceparent).collect();
    assert_eq!(site.header("traceparent"), sent);
}

#[tokio::test]
async fn an_untraced_request_is_sent_unchanged() {
    install_propagator();
    let (site, address) = Site::start(&[503]).await;
    let retry = Retry::new(quick()).observe(crate::support::Log::default());
    let client = client_builder(retry.policy()).build().unwrap();
    let request = client.get(format!("http://{address}/")).header("traceparent", "mine");
    request.send_with(&retry).await.unwrap();
    assert_eq!(site.header("traceparent"), ["mine", "mine"]);
}
