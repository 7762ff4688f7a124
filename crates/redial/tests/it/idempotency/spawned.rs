//! A layer in between that serves every request in a task of its own.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use redial::http::names;
use redial::http::server::{DeadlineLayer, IdempotencyLayer, ShedLayer};
use redial::{Inbound, Retry};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::arrival::channel;
use super::support::{Direct, direct_request, memory};
use crate::support::{RESET, ms, plain};

/// Spawns every request, and calls the service after a while. The task goes on when the caller disconnects.
#[derive(Clone)]
struct Spawning<S>(S, Duration);

impl<S, B> Service<Request> for Spawning<S>
where
    S: Service<Request, Response = http::Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Self(service, after) = self.clone();
        let served = tokio::spawn(async move {
            tokio::time::sleep(after).await;
            service.oneshot(request).await
        });
        Box::pin(async { Ok(served.await.unwrap()?.map(Body::new)) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_released_while_the_body_arrives() {
    let (outer, inner) = (ShedLayer::new(1), ShedLayer::new(1).queue(0));
    let direct = Direct::new(&IdempotencyLayer::new(memory()));
    let app = outer.layer(Spawning(inner.layer(Spawning(direct.service(), ms(0))), ms(0)));
    let in_flight = || (outer.in_flight(), inner.in_flight());
    let (mut body, arriving) = channel();
    let upload = tokio::spawn(app.clone().oneshot(direct_request("/pay", "a", arriving)));
    body.send("ten").await;
    tokio::time::sleep(ms(1)).await;
    assert_eq!(in_flight(), (0, 0));

    let slow = tokio::spawn(app.clone().oneshot(direct_request("/slow", "b", Body::empty())));
    direct.shop.entered.take().await;
    body.send(" pounds").await;
    drop(body);
    tokio::time::sleep(ms(1)).await;
    assert_eq!((outer.waiting(), in_flight()), (1, (1, 1)), "the upload waits for a permit");
    direct.shop.gate.add(1);
    assert_eq!(slow.await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(upload.await.unwrap().unwrap().status(), StatusCode::CREATED);
    assert_eq!(in_flight(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_upload_without_room_is_rejected_by_its_shed_layer() {
    let shed = ShedLayer::new(1).queue(0);
    let direct = Direct::new(&IdempotencyLayer::new(memory()));
    let app = shed.layer(Spawning(direct.service(), ms(0)));
    let (body, arriving) = channel();
    let upload = tokio::spawn(app.clone().oneshot(direct_request("/pay", "a", arriving)));
    tokio::time::sleep(ms(1)).await;
    let slow = tokio::spawn(app.clone().oneshot(direct_request("/slow", "b", Body::empty())));
    direct.shop.entered.take().await;
    drop(body);
    let rejected = upload.await.unwrap().unwrap();
    assert_eq!(rejected.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(rejected.headers().contains_key(names::RETRY_AFTER_MS));
    direct.shop.gate.add(1);
    slow.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_execution_whose_caller_disconnects_keeps_its_permit() {
    let shed = ShedLayer::new(1);
    let direct = Direct::new(&IdempotencyLayer::new(memory()));
    let app = shed.layer(Spawning(direct.service(), ms(0)));
    let call = tokio::spawn(app.oneshot(direct_request("/slow", "a", Body::empty())));
    direct.shop.entered.take().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    tokio::time::sleep(ms(1_000)).await;
    assert_eq!(shed.in_flight(), 1);
    direct.shop.gate.add(1);
    tokio::time::sleep(ms(1)).await;
    assert_eq!(shed.in_flight(), 0);
}

/// The outer layer counts the time since the request arrived, and the inner one passes the deadline on to the task.
#[tokio::test(start_paused = true)]
async fn a_deadline_layer_in_the_task_continues_the_one_outside() {
    let handler = service_fn(|_: Request| async {
        let left = Inbound::current().remaining();
        let retry = Retry::new(plain(|p| p.attempts(2))).idempotent();
        retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
        let response = Response::builder().status(StatusCode::BAD_GATEWAY);
        Ok::<_, Infallible>(response.body(Body::from(format!("{left:?}"))).unwrap())
    });
    let app = Spawning(DeadlineLayer::new().layer(handler), ms(400));
    let app = DeadlineLayer::new().with_extension().layer(app);
    let request = axum::http::Request::get("/").header("redial-timeout-ms", 1_000);
    let response = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.headers()[names::STOP], "attempts");
    let body = axum::body::to_bytes(response.into_body(), 100).await.unwrap();
    assert_eq!(body, "Some(600ms)");
}
