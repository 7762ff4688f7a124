use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use redial_core::Policy;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use super::BoxError;

/// A connector that gives up after a policy's `connect_timeout`.
///
/// It goes between a client and its own connector. When it times out, no byte of the request was sent, so even a
/// request that is not idempotent can be repeated.
#[derive(Clone, Debug)]
pub struct Connect<C> {
    connector: C,
    timeout: Option<Duration>,
}

impl<C> Connect<C> {
    /// Bounds every connection that `connector` makes.
    pub fn new(connector: C, policy: &Policy) -> Self {
        Self { connector, timeout: policy.connect_timeout() }
    }
}

impl<C, T> Service<T> for Connect<C>
where
    C: Service<T>,
    C::Error: Into<BoxError>,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Connecting<C::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, target: T) -> Self::Future {
        Connecting {
            connect: self.connector.call(target),
            timer: self.timeout.map(|after| Box::pin(sleep(after))),
        }
    }
}

pin_project! {
    /// A connection that is being made.
    #[derive(Debug)]
    pub struct Connecting<F> {
        #[pin]
        connect: F,
        // hyper-util takes no connector whose future cannot be moved.
        timer: Option<Pin<Box<Sleep>>>,
    }
}

impl<F, T, E> Future for Connecting<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(connected) = this.connect.poll(cx) {
            return Poll::Ready(connected.map_err(Into::into));
        }
        let Some(timer) = this.timer else { return Poll::Pending };
        ready!(timer.as_mut().poll(cx));
        let late = io::Error::new(io::ErrorKind::TimedOut, "no connection within connect_timeout");
        Poll::Ready(Err(late.into()))
    }
}
