//! Spans recorded in memory.

use opentelemetry::Value;
use opentelemetry::trace::{SpanId, Status};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use redial::telemetry::Otel;

/// The recorded spans.
#[derive(Clone)]
pub(super) struct Recorder {
    pub(super) provider: SdkTracerProvider,
    exporter: InMemorySpanExporter,
}

impl Recorder {
    pub(super) fn new() -> Self {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        Self { provider, exporter }
    }

    pub(super) fn otel(&self) -> Otel {
        Otel::with_provider(&self.provider)
    }

    /// The spans that have ended, in the order they were started.
    pub(super) fn spans(&self) -> Vec<SpanData> {
        let mut spans = self.exporter.get_finished_spans().unwrap();
        spans.sort_by_key(|span| span.start_time);
        spans
    }

    /// Those with this name.
    pub(super) fn named(&self, name: &str) -> Vec<SpanData> {
        self.spans().into_iter().filter(|span| span.name == name).collect()
    }

    /// The spans below this one.
    pub(super) fn below(&self, parent: &SpanData) -> Vec<SpanData> {
        let parent = parent.span_context.span_id();
        self.spans().into_iter().filter(|span| span.parent_span_id == parent).collect()
    }

    /// The only span without a parent.
    pub(super) fn root(&self) -> SpanData {
        let is_root = |span: &SpanData| span.parent_span_id == SpanId::INVALID;
        let mut roots: Vec<SpanData> = self.spans().into_iter().filter(is_root).collect();
        assert_eq!(roots.len(), 1, "{roots:#?}");
        roots.remove(0)
    }
}

/// The value of an attribute, which is set once or not at all.
pub(super) fn value(span: &SpanData, name: &str) -> Option<Value> {
    let mut found = span.attributes.iter().filter(|pair| pair.key.as_str() == name);
    let value = found.next().map(|pair| pair.value.clone());
    assert!(found.next().is_none(), "{name} twice: {span:#?}");
    value
}

/// The same as text, `-` where it is missing.
pub(super) fn text(span: &SpanData, name: &str) -> String {
    value(span, name).map_or("-".to_owned(), |value| value.to_string())
}

/// One attribute of many spans.
pub(super) fn texts(spans: &[SpanData], name: &str) -> Vec<String> {
    spans.iter().map(|span| text(span, name)).collect()
}

pub(super) fn is_error(span: &SpanData) -> bool {
    matches!(span.status, Status::Error { .. })
}
