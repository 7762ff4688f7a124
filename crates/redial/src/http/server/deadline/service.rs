use std::task::{Context, Poll};

use http::{Extensions, Request, Response};
use redial_core::{Deadline, Span};
use tower_service::Service;

use super::future::DeadlineFuture;
use super::layer::Rule;
use crate::Inbound;
use crate::clock::{Clock, Tokio};
use crate::http::travel::Propagated;

/// A service that honours the deadlines of its callers: see [`DeadlineLayer`](super::DeadlineLayer).
#[derive(Clone, Debug)]
pub struct DeadlineService<S> {
    pub(super) inner: S,
    pub(super) rule: Rule,
}

impl<S, B, R> Service<Request<B>> for DeadlineService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = DeadlineFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: Request<B>) -> DeadlineFuture<S::Future> {
        let read = Propagated::read(request.headers(), &self.rule.header);
        let grpc = read.is_grpc();
        #[cfg(feature = "metrics")]
        if let Some(meter) = &self.rule.meter {
            meter.arrived(read.attempt());
        }
        let Some(mut inbound) = self.rule.inbound(&read, request.extensions()) else {
            return DeadlineFuture::new(None, Inbound::default(), Deadline::NONE, grpc);
        };
        let cut_off = if self.rule.cut_off { inbound.deadline } else { Deadline::NONE };
        if self.rule.extension {
            request.extensions_mut().insert(inbound);
        }
        let response = inbound.during(|| self.inner.call(request));
        DeadlineFuture::new(Some(response), inbound, cut_off, grpc)
    }
}

impl Rule {
    /// The deadline and attempt of a request; `None` if its caller has stopped waiting. The deadline is never later than
    /// one that an outer layer has read.
    #[inline]
    fn inbound(&self, read: &Propagated<'_>, extensions: &Extensions) -> Option<Inbound> {
        let deadline = match read.timeout() {
            None => Deadline::NONE,
            Some(Span::ZERO) => return None,
            Some(left) => (Tokio::now() + left.min(self.at_most)).into(),
        };
        let deadline = deadline.min(Inbound::of(extensions).deadline);
        Some(Inbound::new(deadline, read.attempt()))
    }
}
