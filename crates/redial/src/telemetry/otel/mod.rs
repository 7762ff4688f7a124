//! Spans of calls and of their attempts, for OpenTelemetry.
//!
//! A trace with one span for a call hides why it took so long; one with spans only for requests hides that three of them
//! belong to one call. Here a call is a span, and each attempt is a child span.

mod call;
#[cfg(feature = "http-client")]
mod grpc;
#[cfg(feature = "http-client")]
mod request;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use opentelemetry::global::{self, BoxedTracer};
use opentelemetry::trace::{Span, Tracer, TracerProvider};
use opentelemetry::{Context, InstrumentationScope};

pub(crate) use call::Trace;
#[cfg(feature = "http-client")]
use {grpc::Grpc, opentelemetry::metrics::Meter};

/// How calls become spans, for [`Retry::traced`](crate::Retry::traced).
///
/// Defaults: the tracer provider that is installed when a call starts, spans named after the request, no metrics. The
/// parent is the caller's current context; while an attempt runs, its own span is current.
///
/// | span | attribute | |
/// |---|---|---|
/// | call | `redial.attempts` | how many attempts were made |
/// | | `redial.stop` | why the call ended without success ([`Stop::name`](crate::Stop::name)) |
/// | attempt | `redial.attempt` | 1 is the first |
/// | | `redial.wait_seconds` | the wait before it; not on the first |
/// | | `redial.hedge` | it was sent beside another one |
/// | | `redial.transparent` | a gRPC stream that no server processed was reopened as the same attempt |
/// | | `redial.outcome` | `success`, `failure`, `not-yet`, or `cancelled` for the loser of a race and for dropped attempts |
/// | | `error.type` | the class of the failure ([`Class::name`](crate::decide::Class::name)) |
///
/// A call that is parked has the events `redial.parked` and `redial.released`, the latter with `redial.parked_seconds`, how
/// long it was parked in all. A call that gave up has the status error, and so has every failed attempt. An attempt of an HTTP client has the kind
/// client and `http.request.method`, `http.request.resend_count` (from the second on), `server.address`,
/// `server.port`, `url.full` (without user and query, which may hold secrets) and `http.response.status_code`; one of gRPC
/// has `rpc.system.name`, `rpc.method` and `rpc.response.status_code`. It ends with the headers of the response. If a text map
/// propagator is installed, each attempt carries its own `traceparent`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// use redial::telemetry::Otel;
/// use redial::{Policy, Retry};
///
/// let retry = Retry::new(Policy::standard()).traced(Otel::new().named("fetch score"));
/// let score = retry.run(|_| async { Ok::<_, std::io::Error>(7) }).await;
/// # assert_eq!(score.unwrap(), 7);
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Otel {
    name: Option<Cow<'static, str>>,
    tracer: Option<Arc<BoxedTracer>>,
    #[cfg(feature = "http-client")]
    grpc: Option<Arc<Grpc>>,
}

impl Otel {
    /// Spans of the global tracer provider.
    pub fn new() -> Self {
        Self::default()
    }

    /// Spans of this provider.
    pub fn with_provider<P, T, S>(provider: &P) -> Self
    where
        P: TracerProvider<Tracer = T>,
        T: Tracer<Span = S> + Send + Sync + 'static,
        S: Span + Send + Sync + 'static,
    {
        let tracer = Box::new(provider.tracer_with_scope(scope()));
        Self { tracer: Some(Arc::new(BoxedTracer::new(tracer))), ..Self::default() }
    }

    /// Sets the name of all spans. It should not contain values that differ from call to call.
    pub fn named(self, name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Records gRPC's retry metrics (proposal A96) for gRPC calls: `grpc.client.call.retries`,
    /// `grpc.client.call.transparent_retries` and `grpc.client.call.hedges`, for calls that had any, and
    /// `grpc.client.call.retry_delay`, each by `grpc.method` and `grpc.target`. `target` is the target of the channel, such as
    /// `dns:///inventory.internal:50051`.
    ///
    /// The meter is taken from the global provider when the first call ends.
    #[cfg(feature = "http-client")]
    pub fn grpc(self, target: impl Into<Cow<'static, str>>) -> Self {
        Self { grpc: Some(Arc::new(Grpc::new(target.into(), None))), ..self }
    }

    /// Like [`grpc`](Self::grpc), with this meter.
    #[cfg(feature = "http-client")]
    pub fn grpc_with(self, target: impl Into<Cow<'static, str>>, meter: Meter) -> Self {
        Self { grpc: Some(Arc::new(Grpc::new(target.into(), Some(meter)))), ..self }
    }

    fn tracer(&self) -> Arc<BoxedTracer> {
        let global = || Arc::new(global::tracer_with_scope(scope()));
        self.tracer.clone().unwrap_or_else(global)
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("redial").with_version(env!("CARGO_PKG_VERSION")).build()
}

impl fmt::Debug for Otel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Otel").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whether the calls of a `Retry` become spans.
#[derive(Clone, Default)]
pub(crate) struct Spans(Option<Arc<Otel>>);

impl Spans {
    pub(crate) fn new(otel: Otel) -> Self {
        Self(Some(Arc::new(otel)))
    }

    #[inline(always)]
    pub(crate) fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// The trace of a call that starts now.
    #[inline(always)]
    pub(crate) fn trace(&self) -> Trace {
        match &self.0 {
            Some(otel) => Trace::new(otel),
            None => Trace::none(),
        }
    }
}

/// The context of an attempt, which is current wherever the attempt runs.
#[derive(Clone)]
pub(crate) struct Current(Arc<Context>);

impl Current {
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let _attached = Context::clone(&self.0).attach();
        work()
    }

    /// Injects the context into a request, if a propagator is installed.
    #[cfg(feature = "http-client")]
    pub(crate) fn write(&self, headers: &mut http::HeaderMap) {
        request::inject(&self.0, headers);
    }
}
