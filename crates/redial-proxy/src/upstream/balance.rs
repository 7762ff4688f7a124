//! Which endpoint gets an attempt: of two that are drawn at random, the one with the lower cost. Attempts of one call go to
//! different endpoints as long as there are any.

use std::error::Error;
use std::fmt;
use std::future::ready;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use http::{Request, Response, header};
use redial::Stop;
use redial::http::{BoxError, EndpointRefused};
use tokio::time::Instant;
use tower_layer::Layer as _;
use tower_service::Service;

use super::endpoint::{Endpoint, Lease};
use super::pool::{self, ResponseBody, ResponseFuture};
use crate::clock;
use crate::request_body::RequestBody;

/// The endpoints of an upstream, as a service. The layer above gives each call an instance of its own, and every attempt
/// of the call a clone of the one that made the attempt before.
#[derive(Clone)]
pub(crate) struct Balance {
    endpoints: Arc<Endpoints>,
    tried: Tried,
}

pub(crate) struct Endpoints {
    pub(crate) all: Vec<Arc<Endpoint>>,
    /// A stream of random numbers.
    draws: AtomicU64,
    /// Those of the next snapshot.
    next: OnceLock<Arc<Self>>,
}

impl Endpoints {
    pub(crate) fn new(all: Vec<Arc<Endpoint>>) -> Self {
        Self { all, draws: AtomicU64::new(0), next: OnceLock::new() }
    }

    pub(crate) fn replace_by(&self, next: &Arc<Self>) {
        // It is replaced once: the next one is replaced after that.
        let _ = self.next.set(Arc::clone(next));
    }

    fn draw(&self) -> u64 {
        redial_core::draw(0, self.draws.fetch_add(1, Ordering::Relaxed))
    }

    /// An endpoint that is available and that the call has not tried. If it has tried all of them, any that is
    /// available. `None` if none is.
    fn choose(&self, tried: &mut Tried) -> Option<&Arc<Endpoint>> {
        if let [only] = &*self.all {
            return only.is_available().then_some(only);
        }
        let now = clock::now();
        let available = |place: &usize| self.all[*place].is_available();
        let fresh = |place: &usize| available(place) && !tried.contains(*place);
        let better = |fits: &dyn Fn(&usize) -> bool| self.better_of_two(now, fits);
        let place = better(&fresh).or_else(|| better(&available))?;
        tried.insert(place);
        self.all.get(place)
    }

    /// Draws two different endpoints that fit, and returns the one with the lower load.
    fn better_of_two(&self, now: Instant, fits: &dyn Fn(&usize) -> bool) -> Option<usize> {
        let count = self.all.len().max(1);
        // Most often the first draws fit. Otherwise the next ones do, in the order of the list.
        let from = |start: usize| (start..self.all.len()).chain(0..start).filter(fits);
        let draw = self.draw();
        let first = from(draw as u32 as usize % count).next()?;
        let second = from((draw >> 32) as usize % count).find(|place| *place != first);
        let cost = |place: &usize| self.all[*place].load.cost(now);
        [Some(first), second].into_iter().flatten().min_by_key(cost)
    }
}

/// The endpoints that a call has tried: a set of places, exact up to 64.
#[derive(Clone, Copy, Default)]
struct Tried(u64);

impl Tried {
    fn contains(self, place: usize) -> bool {
        self.0 >> (place % 64) & 1 == 1
    }

    fn insert(&mut self, place: usize) {
        self.0 |= 1 << (place % 64);
    }
}

impl Balance {
    pub(crate) fn new(endpoints: Arc<Endpoints>) -> Self {
        Self { endpoints, tried: Tried::default() }
    }
}

impl Service<Request<RequestBody>> for Balance {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<RequestBody>) -> Self::Future {
        while let Some(next) = self.endpoints.next.get() {
            *self = Self::new(Arc::clone(next));
        }
        let Some(endpoint) = self.endpoints.choose(&mut self.tried) else {
            return Box::pin(ready(Err(NoneAvailable::new(&self.endpoints.all).into())));
        };
        if !endpoint.keeps_host || !request.headers().contains_key(header::HOST) {
            request.headers_mut().insert(header::HOST, endpoint.host.clone());
        }
        let is_timed = self.endpoints.all.len() > 1;
        let mut sender = Sender { endpoint: Arc::clone(endpoint), is_timed };
        match &endpoint.guards {
            None => sender.call(request),
            Some(guards) => Box::pin(guards.layer(sender).call(request)),
        }
    }
}

/// One endpoint, as a service.
struct Sender {
    endpoint: Arc<Endpoint>,
    /// Whether its latency is measured, to compare it with that of others.
    is_timed: bool,
}

impl Service<Request<RequestBody>> for Sender {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, request: Request<RequestBody>) -> ResponseFuture {
        let endpoint = Arc::clone(&self.endpoint);
        let log = if endpoint.is_logged { request.extensions().get().cloned() } else { None };
        pool::send(Lease::new(endpoint, self.is_timed, log), request)
    }
}

/// No endpoint can be chosen. Counts the endpoints by reason.
#[derive(Debug)]
struct NoneAvailable {
    endpoints: usize,
    unhealthy: usize,
    ejected: usize,
    /// To the layer that retries: nothing was sent.
    source: EndpointRefused,
}

impl NoneAvailable {
    #[cold]
    fn new(all: &[Arc<Endpoint>]) -> Self {
        let (unhealthy, healthy): (Vec<_>, Vec<_>) = all.iter().partition(|it| !it.is_healthy());
        let ejected = healthy.iter().filter(|it| it.is_ejected()).count();
        let is_full = healthy.len() > ejected;
        let reason = if is_full { Stop::Concurrency } else { Stop::BreakerOpen };
        let source = EndpointRefused::new(reason);
        Self { endpoints: all.len(), unhealthy: unhealthy.len(), ejected, source }
    }
}

impl fmt::Display for NoneAvailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoints, unhealthy, ejected, .. } = *self;
        if endpoints == 0 {
            return f.write_str("the name of the upstream has no address");
        }
        let reasons = [
            (ejected, "ejected by the breaker"),
            (endpoints - unhealthy - ejected, "at the concurrency limit"),
            (unhealthy, "failing the health check"),
        ];
        f.write_str("no endpoint of the upstream is available")?;
        let mut separator = ": ";
        for (count, reason) in reasons.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{separator}{count} {reason}")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl Error for NoneAvailable {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
