//! The gRPC metrics of a call: hedges and reopened streams.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use redial::Retry;
use redial::http::RetryLayer;
use redial::http::tonic::RetryChannel;
use redial::schedule::HedgeRule;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::otel_http::quick;
use super::spans::{Recorder, is_error, texts};
use crate::http::faults::{H2Act, REFUSED_STREAM, h2_server};
use crate::support::ms;

struct Metrics {
    provider: SdkMeterProvider,
    exporter: InMemoryMetricExporter,
}

impl Metrics {
    fn new() -> Self {
        let exporter = InMemoryMetricExporter::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
        Self { provider, exporter }
    }

    /// The number of calls with any, and the total.
    fn counts(&self, name: &str) -> (u64, u64) {
        self.provider.force_flush().unwrap();
        let exported = self.exporter.get_finished_metrics().unwrap();
        let scopes = exported.last().into_iter().flat_map(|latest| latest.scope_metrics());
        let found = scopes.flat_map(|scope| scope.metrics()).find(|metric| metric.name() == name);
        match found.map(|metric| metric.data()) {
            Some(AggregatedMetrics::U64(MetricData::Histogram(histogram))) => {
                let points = histogram.data_points();
                points.fold((0, 0), |(n, sum), point| (n + point.count(), sum + point.sum()))
            }
            None => (0, 0),
            Some(other) => panic!("{other:?}"),
        }
    }
}

fn client(address: SocketAddr, layer: &RetryLayer) -> HealthClient<RetryChannel<Channel>> {
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy();
    HealthClient::new(RetryChannel::new(channel, layer))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reopened_stream_is_a_transparent_retry_with_a_span() {
    let (recorder, metrics) = (Recorder::new(), Metrics::new());
    let (address, _) = h2_server(&[H2Act::Reset(REFUSED_STREAM), H2Act::Status200]).await;
    let otel = recorder.otel().grpc_with("dns:///health:1", metrics.provider.meter("redial"));
    let policy = quick().edit().attempts(1).build().unwrap();
    let layer = RetryLayer::new(Retry::new(policy).traced(otel));
    let _ = client(address, &layer).check(HealthCheckRequest::default()).await;
    assert_eq!(metrics.counts("grpc.client.call.transparent_retries"), (1, 1));
    assert_eq!(metrics.counts("grpc.client.call.retries"), (0, 0));
    let attempts = recorder.below(&recorder.root());
    assert_eq!(texts(&attempts, "redial.attempt"), ["1", "1"]);
    assert_eq!(texts(&attempts, "redial.transparent"), ["-", "true"]);
    assert_eq!(texts(&attempts, "error.type")[0], "refused");
    assert_eq!(texts(&attempts, "server.address"), ["health", "health"]);
    assert!(is_error(&attempts[0]));
}

/// A service that never answers its first request.
struct Slow(AtomicU32);

#[tonic::async_trait]
impl Health for Slow {
    async fn check(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hedge_is_counted_as_one() {
    let (recorder, metrics) = (Recorder::new(), Metrics::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = HealthServer::from_arc(Arc::new(Slow(AtomicU32::new(0))));
    let router = Server::builder().add_service(served);
    tokio::spawn(router.serve_with_incoming(TcpIncoming::from(listener)));
    let otel = recorder.otel().grpc_with("dns:///health:1", metrics.provider.meter("redial"));
    let policy = quick().edit().hedge(HedgeRule::after(ms(50))).build().unwrap();
    let layer = RetryLayer::new(Retry::new(policy).idempotent().traced(otel));
    let response = client(address, &layer).check(HealthCheckRequest::default()).await.unwrap();
    assert_eq!(response.into_inner().status, 1);
    assert_eq!(metrics.counts("grpc.client.call.hedges"), (1, 1));
    assert_eq!(metrics.counts("grpc.client.call.retries"), (0, 0));
    let attempts = recorder.below(&recorder.root());
    assert_eq!(texts(&attempts, "redial.hedge"), ["-", "true"]);
    assert_eq!(texts(&attempts, "redial.outcome"), ["cancelled", "success"]);
}
