use std::sync::Arc;
use std::time::Duration;

use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::{SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};
use redial_core::decide::{Class, Outcome};
use redial_core::{Permit, Stop, Time};

use super::{Current, Otel};
#[cfg(feature = "http-client")]
use super::{grpc::Tally, request::Facts};

/// The spans of a call. Dropping it ends them.
pub(crate) struct Trace(Option<Box<Active>>);

struct Active {
    otel: Arc<Otel>,
    tracer: Arc<BoxedTracer>,
    /// The caller's context until the call's span is created, then that of the span.
    context: Context,
    begun: bool,
    subject: Subject,
    /// The attempts in flight, in the order they were sent.
    in_flight: Vec<InFlight>,
    /// Since when no attempt is in flight, after the first.
    idle_since: Option<Time>,
    attempts: u32,
    stop: Option<Stop>,
}

struct InFlight {
    number: u32,
    context: Arc<Context>,
}

/// What is attempted.
pub(super) enum Subject {
    Plain,
    #[cfg(feature = "http-client")]
    Request(Facts, Tally),
}

impl Trace {
    #[inline(always)]
    pub(super) fn none() -> Self {
        Self(None)
    }

    #[cold]
    pub(super) fn new(otel: &Arc<Otel>) -> Self {
        Self(Some(Box::new(Active {
            otel: Arc::clone(otel),
            tracer: otel.tracer(),
            context: Context::current(),
            begun: false,
            subject: Subject::Plain,
            in_flight: Vec::new(),
            idle_since: None,
            attempts: 0,
            stop: None,
        })))
    }

    #[inline(always)]
    pub(crate) fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Sets the attributes of the request. Called before the first attempt.
    #[cfg(feature = "http-client")]
    pub(crate) fn request(&mut self, method: &http::Method, uri: &http::Uri, grpc: bool) {
        if let Some(active) = &mut self.0 {
            let server = active.otel.grpc.as_ref().and_then(|grpc| grpc.server());
            active.subject =
                Subject::Request(Facts::new(method, uri, grpc, server), Tally::default());
        }
    }

    /// An attempt is sent.
    #[inline(always)]
    pub(crate) fn sent(&mut self, permit: &Permit) {
        if let Some(active) = &mut self.0 {
            active.sent(permit.number, permit.started, false);
        }
    }

    /// The same attempt is sent again.
    #[cfg(feature = "http-client")]
    pub(crate) fn resent(&mut self, number: u32, now: Time) {
        if let Some(active) = &mut self.0 {
            active.sent(number, now, true);
        }
    }

    /// An attempt got a response with this status.
    #[cfg(feature = "http-client")]
    pub(crate) fn responded(&mut self, number: u32, status: u16) {
        if let Some(active) = &mut self.0
            && let Some(out) = active.in_flight.iter().find(|out| out.number == number)
            && let Subject::Request(facts, _) = &active.subject
        {
            out.context.span().set_attributes(facts.response(status));
        }
    }

    /// An attempt has ended.
    #[inline(always)]
    pub(crate) fn ended(&mut self, number: u32, outcome: &Outcome, now: Time) {
        if let Some(active) = &mut self.0 {
            active.ended(number, outcome, now);
        }
    }

    /// An attempt is cancelled.
    #[inline(always)]
    pub(crate) fn abandoned(&mut self, number: u32) {
        if let Some(active) = &mut self.0 {
            active.abandoned(number);
        }
    }

    /// The call has ended without success. The last reason counts.
    #[inline(always)]
    pub(crate) fn stopped(&mut self, reason: Stop) {
        if let Some(active) = &mut self.0 {
            active.stop = Some(reason);
        }
    }

    /// The call is parked until the destination is back.
    #[inline(always)]
    pub(crate) fn parked(&self) {
        if let Some(active) = &self.0 {
            active.context.span().add_event("redial.parked", Vec::new());
        }
    }

    /// A parked call goes on, after so long in all.
    #[inline(always)]
    pub(crate) fn released(&self, parked: Duration) {
        if let Some(active) = &self.0 {
            let seconds = KeyValue::new("redial.parked_seconds", parked.as_secs_f64());
            active.context.span().add_event("redial.released", vec![seconds]);
        }
    }

    /// The context of the attempt that was sent last.
    #[inline(always)]
    pub(crate) fn current(&self) -> Option<Current> {
        self.0.as_ref()?.in_flight.last().map(|out| Current(Arc::clone(&out.context)))
    }
}

impl Active {
    /// Creates the call's span, once its subject is known.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let name = match (&self.otel.name, &self.subject) {
            (Some(name), _) => name.clone(),
            (None, Subject::Plain) => "redial".into(),
            #[cfg(feature = "http-client")]
            (None, Subject::Request(facts, _)) => format!("redial {}", facts.name()).into(),
        };
        let builder = SpanBuilder::from_name(name).with_kind(SpanKind::Internal);
        let span = self.tracer.build_with_context(builder, &self.context);
        self.context = self.context.with_span(span);
    }

    #[cold]
    fn sent(&mut self, number: u32, now: Time, resent: bool) {
        self.begin();
        let hedge = !self.in_flight.is_empty();
        self.attempts = self.attempts.max(number);
        let mut attributes = vec![KeyValue::new("redial.attempt", i64::from(number))];
        let waited = self.idle_since.take().map(|since| now - since);
        if let Some(waited) = waited.filter(|_| !resent) {
            attributes.push(KeyValue::new("redial.wait_seconds", waited.as_secs_f64()));
        }
        if hedge {
            attributes.push(KeyValue::new("redial.hedge", true));
        }
        if resent {
            attributes.push(KeyValue::new("redial.transparent", true));
        }
        let builder = match &mut self.subject {
            Subject::Plain => {
                let name = self.otel.name.as_deref().unwrap_or("redial");
                SpanBuilder::from_name(format!("{name} attempt")).with_kind(SpanKind::Internal)
            }
            #[cfg(feature = "http-client")]
            Subject::Request(facts, tally) => {
                tally.sent(number, waited, hedge, resent);
                attributes.extend(facts.request(number));
                SpanBuilder::from_name(facts.name().to_owned()).with_kind(SpanKind::Client)
            }
        };
        let builder = builder.with_attributes(attributes);
        let span = self.tracer.build_with_context(builder, &self.context);
        let context = Arc::new(self.context.with_span(span));
        self.in_flight.push(InFlight { number, context });
    }

    fn take(&mut self, number: u32) -> Option<Arc<Context>> {
        let index = self.in_flight.iter().position(|out| out.number == number)?;
        Some(self.in_flight.remove(index).context)
    }

    #[cold]
    fn ended(&mut self, number: u32, outcome: &Outcome, now: Time) {
        let Some(context) = self.take(number) else { return };
        self.idle_since = self.in_flight.is_empty().then_some(now);
        let span = context.span();
        let name = match outcome {
            Outcome::Success => "success",
            Outcome::NotYet(_) => "not-yet",
            Outcome::Failure(failure) => {
                span.set_attribute(KeyValue::new("error.type", failure.class.name()));
                #[cfg(feature = "http-client")]
                if let Subject::Request(facts, _) = &self.subject {
                    span.set_attributes(facts.failure(failure));
                }
                span.set_status(Status::error(""));
                "failure"
            }
        };
        span.set_attribute(KeyValue::new("redial.outcome", name));
        span.end();
    }

    #[cold]
    fn abandoned(&mut self, number: u32) {
        if let Some(context) = self.take(number) {
            cancel(&context);
        }
    }
}

/// A cancelled attempt is not an error.
fn cancel(context: &Context) {
    context.span().set_attribute(KeyValue::new("redial.outcome", Class::Cancelled.name()));
    context.span().end();
}

impl Drop for Active {
    fn drop(&mut self) {
        self.begin();
        for out in self.in_flight.drain(..) {
            cancel(&out.context);
        }
        let span = self.context.span();
        span.set_attribute(KeyValue::new("redial.attempts", i64::from(self.attempts)));
        if let Some(stop) = self.stop {
            span.set_attribute(KeyValue::new("redial.stop", stop.name()));
            if stop != Stop::Cancelled {
                span.set_status(Status::error(stop.to_string()));
            }
        }
        span.end();
        #[cfg(feature = "http-client")]
        if let (Subject::Request(facts, tally), Some(grpc)) = (&self.subject, &self.otel.grpc)
            && let Some(method) = facts.grpc_method()
        {
            let _current = self.context.clone().attach();
            grpc.record(method, tally);
        }
    }
}
