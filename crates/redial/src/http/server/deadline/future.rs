use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderValue, Response};
use pin_project_lite::pin_project;
use redial_core::Nanos;
use tokio::time::Sleep;

use crate::Inbound;
use crate::http::names;
use crate::http::server::refuse::{self, TOO_LATE};
use crate::run::timer;

pin_project! {
    /// A request that is served for as long as its caller waits.
    pub struct DeadlineFuture<F> {
        // Until it is too late.
        #[pin]
        response: Option<F>,
        inbound: Inbound,
        cut_off: Nanos,
        grpc: bool,
        // Made when the response is first pending: some are ready at once.
        #[pin]
        timer: Option<Sleep>,
    }
}

impl<F> DeadlineFuture<F> {
    #[inline(always)]
    pub(super) fn new(response: Option<F>, inbound: Inbound, cut_off: Nanos, grpc: bool) -> Self {
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
            if let Poll::Ready(response) = inbound.during(|| response.poll(cx)) {
                return Poll::Ready(response.map(|response| inbound.sign(response)));
            }
            if this.timer.is_none() {
                this.timer.set(timer(*this.cut_off));
            }
            let Some(timer) = this.timer.as_pin_mut() else { return Poll::Pending };
            ready!(timer.poll(cx));
            // The work stops now, and not when somebody drops this.
            this.response.set(None);
        }
        Poll::Ready(Ok(refuse::with(&TOO_LATE, *this.grpc)))
    }
}

impl Inbound {
    /// Says on a failed response why an outgoing call gave up, so that the caller does not start over.
    #[inline]
    fn sign<R>(&self, mut response: Response<R>) -> Response<R> {
        if let Some(stop) = self.stop.filter(|_| failed(&response)) {
            let headers = response.headers_mut();
            headers.entry(names::STOP).or_insert(HeaderValue::from_static(stop.name()));
        }
        response
    }
}

/// A client's mistake is no failure: nothing further down can have caused it.
fn failed<R>(response: &Response<R>) -> bool {
    let grpc = response.headers().get(names::GRPC_STATUS).is_some_and(|status| status != "0");
    let status = response.status().as_u16();
    status == 429 || status >= 500 || grpc
}
