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
        #[pin]
        state: State<F>,
        grpc: bool,
    }
}

pin_project! {
    #[project = Stage]
    enum State<F> {
        Running {
            #[pin]
            response: F,
            inbound: Inbound,
            cut_off: Nanos,
            // Made when the response is first pending: most are ready at once.
            #[pin]
            timer: Option<Sleep>,
        },
        Late,
    }
}

impl<F> DeadlineFuture<F> {
    pub(super) fn new(response: F, inbound: Inbound, cut_off: Nanos, grpc: bool) -> Self {
        Self { state: State::Running { response, inbound, cut_off, timer: None }, grpc }
    }

    pub(super) fn late(grpc: bool) -> Self {
        Self { state: State::Late, grpc }
    }
}

impl<F, R, E> Future for DeadlineFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Default,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Stage::Running { response, inbound, cut_off, mut timer } =
            this.state.as_mut().project()
        {
            if let Poll::Ready(response) = inbound.during(|| response.poll(cx)) {
                return Poll::Ready(response.map(|response| inbound.sign(response)));
            }
            if timer.is_none() {
                timer.set(self::timer(*cut_off));
            }
            let Some(timer) = timer.as_pin_mut() else { return Poll::Pending };
            ready!(timer.poll(cx));
            // The work stops now, and not when somebody drops this.
            this.state.set(State::Late);
        }
        Poll::Ready(Ok(refuse::with(&TOO_LATE, *this.grpc)))
    }
}

impl Inbound {
    /// Says on a failed response why an outgoing call gave up, so that the caller does not start over.
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
