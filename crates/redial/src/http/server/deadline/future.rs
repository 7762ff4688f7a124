use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderValue, Response};
use pin_project_lite::pin_project;
use redial_core::{Deadline, Stop};
use tokio::time::Sleep;

use crate::Inbound;
use crate::http::names;
use crate::http::server::refuse::{self, TOO_LATE};
use crate::timer::timer;

pin_project! {
    /// A request that is served until its deadline.
    pub struct DeadlineFuture<F> {
        // `None` once the request is too late.
        #[pin]
        response: Option<F>,
        inbound: Inbound,
        cut_off: Deadline,
        grpc: bool,
        // Set when the response is first pending: one that is ready at once needs no timer.
        #[pin]
        timer: Option<Sleep>,
    }
}

impl<F> DeadlineFuture<F> {
    #[inline(always)]
    pub(super) fn new(
        response: Option<F>,
        inbound: Inbound,
        cut_off: Deadline,
        grpc: bool,
    ) -> Self {
        Self { response, inbound, cut_off, grpc, timer: None }
    }
}

impl<F, R, E> Future for DeadlineFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Default,
{
    type Output = Result<Response<R>, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(response) = this.response.as_mut().as_pin_mut() {
            let inbound = this.inbound;
            if let Poll::Ready(mut response) = inbound.during(|| response.poll(cx)) {
                if let (Ok(response), Some(stop)) = (&mut response, inbound.stop) {
                    report(stop, response);
                }
                return Poll::Ready(response);
            }
            if this.timer.is_none() {
                this.timer.set(timer(*this.cut_off));
            }
            let Some(timer) = this.timer.as_pin_mut() else { return Poll::Pending };
            ready!(timer.poll(cx));
            // Stop the work now, not when this future is dropped.
            this.response.set(None);
        }
        Poll::Ready(Ok(refuse::with(&TOO_LATE, *this.grpc)))
    }
}

/// Tells the caller on a failed response why an outgoing call gave up, so that it does not start over.
#[cold]
fn report<R>(stop: Stop, response: &mut Response<R>) {
    if failed(response) {
        let headers = response.headers_mut();
        headers.entry(names::STOP).or_insert(HeaderValue::from_static(stop.name()));
    }
}

/// Client errors do not count: no outgoing call can have caused them.
fn failed<R>(response: &Response<R>) -> bool {
    let grpc = response.headers().get(names::GRPC_STATUS).is_some_and(|status| status != "0");
    let status = response.status().as_u16();
    status == 429 || status >= 500 || grpc
}
