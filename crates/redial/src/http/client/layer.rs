use std::fmt;
use std::sync::Arc;

use http::{HeaderName, request, response};
use redial_core::decide::{Outcome, Reach};
use tower_layer::Layer;

use super::{ReplayMemory, RetryService};
use crate::Retry;
use crate::http::names;

/// Retries the requests of an HTTP or gRPC client.
///
/// One [`Retry`] for all requests, or one per [`route`](Self::route). A request is repeated when its method,
/// its headers or the `Retry` say that this is safe; a response that is not repeated is returned unchanged.
/// A policy with [`hedge`](crate::Draft::hedge), as the default is, races slow requests; only those whose body has been read completely are hedged.
///
/// Defaults: request bodies up to 64 KiB can be sent again, `redial-timeout-ms` carries what is left of the
/// deadline (`grpc-timeout` in gRPC), `redial-attempt` counts from the second attempt on, one set of guards
/// per `Retry`.
///
/// ```
/// use redial::http::RetryLayer;
/// use redial::{Policy, Retry};
///
/// let search = Retry::new(Policy::standard().edit().attempts(2).build()?);
/// let layer = RetryLayer::new(Retry::new(Policy::standard()).keyed())
///     .route(|request| request.uri.path().starts_with("/search"), search)
///     .leave_alone(|request| request.uri.path() == "/health");
/// # Ok::<(), redial::Invalid>(())
/// ```
#[derive(Clone)]
pub struct RetryLayer(pub(super) Arc<Options>);

#[derive(Clone)]
pub(super) struct Options {
    /// The retries of the routes, and of all other requests.
    retries: Vec<Retry>,
    routes: Vec<Route>,
    /// The place of the retry of all other requests; `None`: left alone.
    others: Option<usize>,
    pub(super) buffer: usize,
    pub(super) replay_memory: Option<ReplayMemory>,
    pub(super) request_timeout: Reach,
    pub(super) judge: Option<Arc<Judge>>,
    pub(super) timeout_header: Option<HeaderName>,
    pub(super) attempts_header: Option<HeaderName>,
    pub(super) envoy: bool,
    pub(super) bare_keys: bool,
    pub(super) per_host: bool,
    pub(super) trailers: bool,
}

type Judge = dyn Fn(&response::Parts, Outcome) -> Outcome + Send + Sync;
type Matcher = dyn Fn(&request::Parts) -> bool + Send + Sync;

#[derive(Clone)]
struct Route {
    matches: Arc<Matcher>,
    /// The place of the retry; `None`: left alone.
    retry: Option<usize>,
}

impl RetryLayer {
    /// Retries every request under `retry`. Responses are classified by the rules of HTTP and gRPC, and
    /// [`judge`](Self::judge) can overrule them.
    pub fn new(retry: Retry) -> Self {
        Self::with(Some(retry))
    }

    /// Retries only requests that match a [`route`](Self::route).
    pub fn routes_only() -> Self {
        Self::with(None)
    }

    fn with(retry: Option<Retry>) -> Self {
        let others = retry.is_some().then_some(0);
        Self(Arc::new(Options {
            retries: Vec::from_iter(retry),
            routes: Vec::new(),
            others,
            buffer: 64 * 1024,
            replay_memory: None,
            request_timeout: Reach::Unknown,
            judge: None,
            timeout_header: Some(names::TIMEOUT_MS),
            attempts_header: None,
            envoy: false,
            bare_keys: false,
            per_host: false,
            trailers: false,
        }))
    }

    fn set(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Retries requests that match under their own `Retry`. The first route that matches counts.
    pub fn route(
        self,
        matches: impl Fn(&request::Parts) -> bool + Send + Sync + 'static,
        retry: Retry,
    ) -> Self {
        self.set(|options| {
            let place = Some(options.retries.len());
            options.retries.push(retry);
            options.routes.push(Route { matches: Arc::new(matches), retry: place });
        })
    }

    /// Requests that match are sent once, as if the layer were not there.
    pub fn leave_alone(
        self,
        matches: impl Fn(&request::Parts) -> bool + Send + Sync + 'static,
    ) -> Self {
        let route = Route { matches: Arc::new(matches), retry: None };
        self.set(|options| options.routes.push(route))
    }

    /// Requests to any other host are sent once, as if the layer were not there. Comes before the routes.
    pub fn only_hosts<H: Into<String>>(self, hosts: impl IntoIterator<Item = H>) -> Self {
        let hosts: Vec<String> = hosts.into_iter().map(Into::into).collect();
        let matches = Arc::new(move |request: &request::Parts| {
            let host = request.uri.host().unwrap_or_default();
            !hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
        });
        self.set(|options| options.routes.insert(0, Route { matches, retry: None }))
    }

    /// Gives every host and port its own guards, so that one bad host does not spend the budget of the
    /// others. For clients of many hosts; finding the guards takes a lock.
    pub fn per_host(self) -> Self {
        self.set(|options| options.per_host = true)
    }

    /// How many bytes of a request's body are kept for another attempt. A larger body is sent once: it is repeated only if
    /// nothing of it was read, as when the connection was refused.
    pub fn buffer(self, bytes: usize) -> Self {
        self.set(|options| options.buffer = bytes)
    }

    /// Limits what all requests of this layer, and of the others with the same `memory`, keep together.
    pub fn replay_memory(self, memory: &ReplayMemory) -> Self {
        self.set(|options| options.replay_memory = Some(memory.clone()))
    }

    /// How far a request got that was answered with 408: [`Reach::Unknown`] unless the server only sends 408
    /// for requests that it did not receive completely.
    pub fn request_timeout_means(self, reach: Reach) -> Self {
        self.set(|options| options.request_timeout = reach)
    }

    /// Overrules how a response is classified. Hints and the stop signal are applied afterwards. A request whose
    /// response is "not yet" is sent again whatever its method.
    pub fn judge(
        self,
        judge: impl Fn(&response::Parts, Outcome) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        self.set(|options| options.judge = Some(Arc::new(judge)))
    }

    /// The header that carries what is left of the deadline, in milliseconds.
    pub fn timeout_header(self, name: HeaderName) -> Self {
        self.set(|options| options.timeout_header = Some(name))
    }

    /// Sends no header with what is left of the deadline, except in gRPC.
    pub fn without_timeout_header(self) -> Self {
        self.set(|options| options.timeout_header = None)
    }

    /// Writes the number of attempts into every response, for callers that cannot see its extensions
    /// ([`Attempts`](super::Attempts)), such as callers of a proxy. [`names::ATTEMPTS`] is a good name.
    pub fn attempts_header(self, name: HeaderName) -> Self {
        self.set(|options| options.attempts_header = Some(name))
    }

    /// Counts attempts in `x-envoy-attempt-count` too, in requests and responses.
    pub fn envoy_header(self) -> Self {
        self.set(|options| options.envoy = true)
    }

    /// Writes idempotency keys without the quotes that the draft asks for.
    pub fn bare_keys(self) -> Self {
        self.set(|options| options.bare_keys = true)
    }

    /// Reads the first frame of a gRPC response, so that a failure in trailers that follow no message is
    /// repeated too. It waits for that frame only when the request has been sent completely, so bidirectional
    /// streams are not held up.
    pub fn look_at_trailers(self) -> Self {
        self.set(|options| options.trailers = true)
    }
}

/// The [`Retry`] of a request.
pub(super) enum RouteRetry {
    /// One of the layer's, by its place.
    Shared(usize),
    /// One with the guards of the request's host.
    PerHost(Box<Retry>),
}

impl Options {
    /// The retry of the first route that matches; `None` when the request is left alone.
    #[inline(always)]
    pub(super) fn route(&self, request: &request::Parts) -> Option<RouteRetry> {
        let route = self.routes.iter().find(|route| (route.matches)(request));
        let place = route.map_or(self.others, |route| route.retry)?;
        Some(if self.per_host { self.of_host(place, request) } else { RouteRetry::Shared(place) })
    }

    #[cold]
    fn of_host(&self, place: usize, request: &request::Parts) -> RouteRetry {
        let host = request.uri.host().unwrap_or_default().to_ascii_lowercase();
        let port = request.uri.port_u16().unwrap_or_default();
        let retry = self.retries[place].clone();
        RouteRetry::PerHost(Box::new(retry.scope(format!("{host}:{port}"))))
    }
}

impl RouteRetry {
    #[inline(always)]
    pub(super) fn retry<'a>(&'a self, options: &'a Options) -> &'a Retry {
        match self {
            Self::Shared(place) => &options.retries[*place],
            Self::PerHost(retry) => retry,
        }
    }
}

impl<S> Layer<S> for RetryLayer {
    type Service = RetryService<S>;

    fn layer(&self, inner: S) -> RetryService<S> {
        RetryService::new(inner, self.clone())
    }
}

impl fmt::Debug for RetryLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { routes, retries, buffer, .. } = &*self.0;
        let mut shown = f.debug_struct("RetryLayer");
        shown.field("retries", retries).field("routes", &routes.len()).field("buffer", buffer);
        shown.finish_non_exhaustive()
    }
}
