//! The library's layers around the endpoints of an upstream.

use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use redial::http::{ResponseFuture, RetryLayer, RetryService};
use tower_layer::Layer;
use tower_service::Service;

use crate::answer;
use crate::balance::Balance;
use crate::body::{Arriving, Inbound, Outbound};
use crate::pool::ResponseBody;

/// Outermost first: deadline, shed, idempotency, retry, balance. The first three only if they are configured: the layer
/// that retries honours the deadline of a request by itself.
#[derive(Clone)]
pub(crate) enum Stack {
    Retry(RetryService<Balance>),
    Layered(Arc<Layered>),
}

type Layered = dyn Fn(Request<Arriving>) -> Boxed + Send + Sync;
type Boxed = Pin<Box<dyn Future<Output = Response<Outbound>> + Send>>;

/// A request on its way through a stack.
pub(crate) enum Call {
    Retry(ResponseFuture<Balance, Inbound, ResponseBody>),
    Layered(Boxed),
}

impl Stack {
    pub(crate) fn new(retry: &RetryLayer, balance: Balance) -> Self {
        Self::Retry(retry.layer(balance))
    }

    pub(crate) fn call(&mut self, request: Request<Arriving>) -> Call {
        match self {
            // It is always ready, because the balancer is.
            Self::Retry(service) => Call::Retry(service.call(request.map(Inbound::Streamed))),
            Self::Layered(service) => Call::Layered(service(request)),
        }
    }
}

impl Call {
    pub(crate) async fn response(self) -> Response<Outbound> {
        match self {
            Self::Retry(call) => match call.await {
                Ok(response) => response.map(Outbound::Streamed),
                Err(error) => answer::failed(&error),
            },
            Self::Layered(call) => call.await,
        }
    }
}
