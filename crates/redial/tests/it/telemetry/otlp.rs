//! What a collector receives: an OTLP receiver on loopback that decodes the protobuf.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use opentelemetry::global;
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig as _};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{Histogram, HistogramDataPoint, metric};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use redial::Retry;
use redial::http::RetryLayer;
use redial::http::reqwest::{SendWith as _, client_builder};
use redial::http::tonic::RetryChannel;
use redial::telemetry::Otel;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::otel_http::{Site, install_propagator, quick};

#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
    metrics: Arc<Mutex<Vec<(String, String, Histogram)>>>,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let scopes = request.into_inner().resource_spans.into_iter().flat_map(|r| r.scope_spans);
        let ours = scopes.filter(|s| s.scope.as_ref().is_some_and(|scope| scope.name == "redial"));
        self.spans.lock().unwrap().extend(ours.flat_map(|scope| scope.spans));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let resources = request.into_inner().resource_metrics.into_iter();
        let metrics = resources.flat_map(|r| r.scope_metrics).flat_map(|scope| scope.metrics);
        for metric in metrics {
            if let Some(metric::Data::Histogram(histogram)) = metric.data {
                self.metrics.lock().unwrap().push((metric.name, metric.unit, histogram));
            }
        }
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

impl Collector {
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let router = Server::builder()
            .add_service(TraceServiceServer::new(collector.clone()))
            .add_service(MetricsServiceServer::new(collector.clone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(router.serve_with_incoming(TcpIncoming::from(listener)));
        (collector, format!("http://{address}"))
    }

    /// In the order they were started.
    fn spans(&self, wanted: impl Fn(&Span) -> bool) -> Vec<Span> {
        let mut spans = self.spans.lock().unwrap().clone();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans.into_iter().filter(wanted).collect()
    }

    fn below(&self, call: &Span) -> Vec<Span> {
        self.spans(|span| span.parent_span_id == call.span_id)
    }

    /// The only point of a metric, and its unit.
    fn point(&self, name: &str) -> Option<(String, HistogramDataPoint)> {
        let metrics = self.metrics.lock().unwrap();
        let mut found = metrics.iter().filter(|(known, ..)| known == name);
        let (_, unit, histogram) = found.next()?;
        assert!(found.next().is_none() && histogram.data_points.len() == 1, "{histogram:#?}");
        Some((unit.clone(), histogram.data_points[0].clone()))
    }
}

fn text(attributes: &[KeyValue], name: &str) -> String {
    let pair = attributes.iter().find(|pair| pair.key == name);
    match pair.and_then(|pair| pair.value.clone()).and_then(|value| value.value) {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        Some(other) => format!("{other:?}"),
        None => "-".to_owned(),
    }
}

fn texts(spans: &[Span], name: &str) -> Vec<String> {
    spans.iter().map(|span| text(&span.attributes, name)).collect()
}

/// Fails this many times, then succeeds.
struct Moody(Mutex<u32>);

#[tonic::async_trait]
impl Health for Moody {
    async fn check(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let mut left = self.0.lock().unwrap();
        if *left > 0 {
            *left -= 1;
            return Err(Status::unavailable("restarting"));
        }
        Ok(Response::new(HealthCheckResponse { status: 1 }))
    }

    type WatchStream = tonic::codegen::tokio_stream::Empty<Result<HealthCheckResponse, Status>>;

    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("not supported"))
    }
}

async fn serve_moody(failures: u32) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = HealthServer::new(Moody(Mutex::new(failures)));
    let router = Server::builder().add_service(served);
    tokio::spawn(router.serve_with_incoming(TcpIncoming::from(listener)));
    address
}

fn check_http(collector: &Collector, address: SocketAddr) {
    let calls = collector.spans(|span| span.name == "redial GET");
    assert_eq!(calls.len(), 1);
    assert_eq!(text(&calls[0].attributes, "redial.attempts"), "3");
    let attempts = collector.below(&calls[0]);
    assert!(attempts.iter().all(|attempt| attempt.trace_id == calls[0].trace_id));
    assert!(attempts.iter().all(|attempt| attempt.kind == SpanKind::Client as i32));
    assert_eq!(texts(&attempts, "http.request.resend_count"), ["-", "1", "2"]);
    assert_eq!(texts(&attempts, "http.response.status_code"), ["503", "503", "200"]);
    assert_eq!(texts(&attempts, "server.port"), [(); 3].map(|()| address.port().to_string()));
    let codes = attempts.iter().map(|attempt| attempt.status.clone().unwrap_or_default().code);
    let (error, unset) = (StatusCode::Error as i32, StatusCode::Unset as i32);
    assert_eq!(codes.collect::<Vec<_>>(), [error, error, unset]);
}

fn check_grpc(collector: &Collector, method: &str, target: &str) {
    let calls = collector.spans(|span| span.name == format!("redial {method}"));
    assert_eq!(texts(&calls, "redial.attempts"), ["3", "1"]);
    let attempts = collector.below(&calls[0]);
    assert!(attempts.iter().all(|attempt| attempt.name == method));
    assert_eq!(texts(&attempts, "rpc.method"), [method; 3]);
    assert_eq!(texts(&attempts, "rpc.system.name"), ["grpc"; 3]);
    assert_eq!(texts(&attempts, "rpc.response.status_code"), ["UNAVAILABLE", "UNAVAILABLE", "-"]);
    assert_eq!(texts(&attempts, "server.address"), ["127.0.0.1"; 3]);
    assert_eq!(texts(&attempts, "http.request.resend_count"), ["-"; 3]);

    let (unit, retries) = collector.point("grpc.client.call.retries").unwrap();
    assert_eq!(
        (&*unit, retries.count, retries.sum),
        ("{retry}", 1, Some(2.0)),
        "zero is not recorded"
    );
    assert_eq!(retries.explicit_bounds, [1.0, 2.0, 3.0, 4.0, 5.0]);
    let (unit, delay) = collector.point("grpc.client.call.retry_delay").unwrap();
    assert_eq!((&*unit, delay.count, delay.explicit_bounds.len()), ("s", 2, 41));
    assert!(delay.sum.unwrap() > 0.0);
    for point in [&retries, &delay] {
        assert_eq!(text(&point.attributes, "grpc.method"), method);
        assert_eq!(text(&point.attributes, "grpc.target"), target);
        assert_eq!(point.attributes.len(), 2);
    }
    assert_eq!(collector.point("grpc.client.call.hedges"), None);
    assert_eq!(collector.point("grpc.client.call.transparent_retries"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_gets_the_spans_and_grpcs_metrics() {
    install_propagator();
    let (collector, endpoint) = Collector::start().await;
    let spans = SpanExporter::builder().with_tonic().with_endpoint(&endpoint).build().unwrap();
    let tracers = SdkTracerProvider::builder().with_batch_exporter(spans).build();
    let metrics = MetricExporter::builder().with_tonic().with_endpoint(&endpoint).build().unwrap();
    let meters = SdkMeterProvider::builder().with_periodic_exporter(metrics).build();
    global::set_tracer_provider(tracers.clone());
    global::set_meter_provider(meters.clone());

    let (site, address) = Site::start(&[503, 503]).await;
    let retry = Retry::new(quick()).traced(Otel::new());
    let client = client_builder(retry.policy()).build().unwrap();
    client.get(format!("http://{address}/cart")).send_with(&retry).await.unwrap();

    let moody = serve_moody(2).await;
    let target = format!("dns:///{moody}");
    let retry = Retry::new(quick()).traced(Otel::new().grpc(target.clone()));
    let channel = Endpoint::from_shared(format!("http://{moody}")).unwrap().connect_lazy();
    let mut client = HealthClient::new(RetryChannel::new(channel, &RetryLayer::new(retry)));
    for _ in 0..2 {
        client.check(HealthCheckRequest::default()).await.unwrap();
    }

    tokio::task::spawn_blocking(move || {
        tracers.shutdown().unwrap();
        meters.shutdown().unwrap();
    })
    .await
    .unwrap();
    check_http(&collector, address);
    let ids = collector.spans(|span| span.name == "GET").into_iter().map(|span| span.span_id);
    let ids: Vec<String> =
        ids.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    let sent = site.header("traceparent");
    assert!(sent.iter().zip(&ids).all(|(sent, id)| sent.contains(id)), "{sent:?} {ids:?}");
    check_grpc(&collector, "grpc.health.v1.Health/Check", &target);
}
