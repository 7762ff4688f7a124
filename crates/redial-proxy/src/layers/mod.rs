//! The library's layers around the endpoints of an upstream.

pub(crate) mod key_store;

use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use redial::http::server::idempotency::{self, Unprocessed};
use redial::http::server::{DeadlineLayer, IdempotencyLayer, ShedLayer};
use redial::http::{BoxError, Error, ResponseFuture, RetryLayer, RetryService};
use tower_layer::Layer;
use tower_service::Service;

use self::key_store::Keys;
use crate::request_body::{Arriving, Inbound};
use crate::responses;
use crate::responses::body::Outbound;
use crate::upstream::balance::Balance;
use crate::upstream::pool::ResponseBody;

/// Outermost first: deadline, shed, idempotency, retry, balance. The first three only where shed or idempotency are
/// configured: the layer that retries honours the deadline of a request by itself.
#[derive(Clone)]
pub(crate) enum Stack {
    Retry(RetryService<Balance>),
    Layered(Arc<Layered>),
}

type Layered = dyn Fn(Request<Arriving>) -> Boxed<Response<Outbound>> + Send + Sync;
type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A request on its way through a stack.
pub(crate) enum Call {
    Retry {
        call: ResponseFuture<ResponseBody>,
        /// Whether the body has been asked for a moment ago.
        is_asked: bool,
    },
    Layered(Boxed<Response<Outbound>>),
}

impl Stack {
    pub(crate) fn new(
        retry: &RetryLayer,
        balance: Balance,
        shed: Option<&ShedLayer>,
        idempotency: Option<&IdempotencyLayer<Arc<Keys>>>,
    ) -> Self {
        let retry = retry.layer(balance);
        let deadline = DeadlineLayer::new();
        match (shed, idempotency) {
            (None, None) => Self::Retry(retry),
            (Some(shed), None) => layered(deadline.layer(shed.layer(Forward(retry)))),
            (None, Some(keys)) => layered(deadline.layer(keys.layer(Forward(retry)))),
            (Some(shed), Some(keys)) => {
                layered(deadline.layer(shed.layer(keys.layer(Forward(retry)))))
            }
        }
    }

    pub(crate) fn call(&mut self, request: Request<Arriving>) -> Call {
        match self {
            // It is always ready, because the balancer is.
            Self::Retry(service) => {
                let is_asked = !request.body().is_end_stream();
                Call::Retry { call: service.call(request.map(Inbound::Streamed)), is_asked }
            }
            Self::Layered(service) => Call::Layered(service(request)),
        }
    }
}

impl Future for Call {
    type Output = Response<Outbound>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response<Outbound>> {
        match &mut *self {
            // hyper reads a body in the next turn after it was asked for it. Head and body are then sent together, and
            // nothing has to be woken for the body.
            Self::Retry { call, is_asked } => {
                if mem::take(is_asked) {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(match ready!(Pin::new(call).poll(cx)) {
                    Ok(response) => response.map(Outbound::Streamed),
                    Err(error) => responses::failed(&error),
                })
            }
            Self::Layered(call) => call.as_mut().poll(cx),
        }
    }
}

fn layered<S, R>(service: S) -> Stack
where
    S: Service<Request<Arriving>, Response = Response<R>, Error = Error>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
    R: Body<Data = Bytes, Error = BoxError> + Send + 'static,
{
    Stack::Layered(Arc::new(move |request| {
        let mut service = service.clone();
        Box::pin(async move {
            let served = match poll_fn(|cx| service.poll_ready(cx)).await {
                Ok(()) => service.call(request).await,
                Err(error) => Err(error),
            };
            match served {
                Ok(response) => match response.extensions().get().copied() {
                    Some(refused) => responses::refused(refused, response.map(drop)),
                    None => response.map(|body| Outbound::Layered(Box::pin(body))),
                },
                Err(error) => responses::failed(&error),
            }
        })
    }))
}

/// The service that the layers for servers wrap. To them, a request that was not processed is one with a response: its
/// key is released.
#[derive(Clone)]
struct Forward(RetryService<Balance>);

impl Forward {
    fn forward(&mut self, request: Request<Inbound>) -> Boxed<Result<Response<Outbound>, Error>> {
        let call = self.0.call(request);
        Box::pin(async move {
            match call.await {
                Ok(response) => Ok(response.map(Outbound::Streamed)),
                Err(error) if error.maybe_processed() => Err(error),
                Err(error) => {
                    let mut response = responses::failed(&error);
                    response.extensions_mut().insert(Unprocessed);
                    Ok(response)
                }
            }
        })
    }
}

impl Service<Request<Arriving>> for Forward {
    type Response = Response<Outbound>;
    type Error = Error;
    type Future = Boxed<Result<Self::Response, Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Arriving>) -> Self::Future {
        self.forward(request.map(Inbound::Streamed))
    }
}

impl Service<Request<idempotency::Body<Arriving>>> for Forward {
    type Response = Response<Outbound>;
    type Error = Error;
    type Future = Boxed<Result<Self::Response, Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<idempotency::Body<Arriving>>) -> Self::Future {
        self.forward(request.map(|body| Inbound::Keyed(Box::new(body))))
    }
}
