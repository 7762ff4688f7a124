//! The metrics endpoint of a worker. Slow, many or broken scrapers must not affect the jobs, so connections are few and
//! short, and further ones wait.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use metrics_exporter_prometheus::formatting::sanitize_label_value;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use redial::telemetry::{self, Meter};
use redial_queue::durable::Worker;
use redial_queue::telemetry::Publisher;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::log::Log;
use crate::duration;
use crate::failed::Failed;
use crate::stderr::Stderr;

/// The most concurrent connections.
const MOST: usize = 16;
/// From the connection to the last byte of the response.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The window of the multiplier: a retry may come an hour after its job began.
const WINDOW: Duration = Duration::from_secs(3600);

/// The arguments of the metrics endpoint.
#[derive(clap::Args)]
pub(super) struct Serve {
    /// Serve metrics for Prometheus at http://IP:PORT/metrics; port 0 is any free port
    #[arg(long, help_heading = super::METRICS, value_name = "IP:PORT", value_parser = address)]
    metrics: Option<SocketAddr>,
    /// How often jobs are counted for --metrics; less often if a count takes long
    #[arg(long, help_heading = super::METRICS, value_name = "TIME", default_value = "30s", requires = "metrics", value_parser = duration::read)]
    depth_every: Duration,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "not an IP address and a port, such as 127.0.0.1:9464 or [::1]:9464".to_owned()
    })
}

impl Serve {
    /// Binds the address first, so that a failure is reported before any work.
    pub(super) async fn listen(&self) -> Result<Option<Listening>, Failed> {
        let Some(address) = self.metrics else { return Ok(None) };
        let cannot = |why: std::io::Error| {
            let hint = "try another port, or 0 for any free port";
            Failed::Input(format!("--metrics {address}: cannot listen: {why}; {hint}"))
        };
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        Ok(Some(Listening { listener, address, depth_every: self.depth_every }))
    }
}

/// A bound listener that accepts no connections yet.
pub(super) struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    depth_every: Duration,
}

/// A running server, which ends when this is dropped.
pub(super) struct Served(#[expect(dead_code, reason = "dropping it ends the tasks")] JoinSet<()>);

impl Listening {
    /// Serves the metrics of a worker.
    pub(super) fn serve(self, worker: Worker, log: &Log) -> Result<(Worker, Served), Failed> {
        let Self { listener, address, depth_every } = self;
        let handle =
            install_recorder().map_err(|why| Failed::Other(format!("--metrics: {why}")))?;
        let queue = worker.queue().clone();
        let worker = worker.observe(Meter::over(queue.name(), WINDOW));
        let publisher = Publisher::new(queue).worker(worker.gauge()).depth_every(depth_every);
        let mut tasks = JoinSet::new();
        tasks.spawn(publisher.run(std::future::pending()));
        let page = Page {
            handle,
            queue: worker.queue().name().to_owned(),
            stderr: Arc::clone(log.stderr()),
        };
        tasks.spawn(accept(listener, Arc::new(page)));
        log.serves(&format!("http://{address}/metrics"));
        Ok((worker, Served(tasks)))
    }
}

/// The page of metrics.
struct Page {
    handle: PrometheusHandle,
    queue: String,
    stderr: Arc<Stderr>,
}

impl Page {
    fn render(&self) -> String {
        telemetry::publish();
        self.handle.run_upkeep();
        let (name, queue) =
            ("redial_queue_log_lines_dropped_total", sanitize_label_value(&self.queue));
        let dropped = self.stderr.dropped();
        let page = self.handle.render();
        format!("{page}# TYPE {name} counter\n{name}{{queue=\"{queue}\"}} {dropped}\n")
    }
}

/// Installs the recorder of this process.
pub(crate) fn install_recorder() -> Result<PrometheusHandle, BuildError> {
    let mut exporter = PrometheusBuilder::new();
    for (name, bounds) in telemetry::buckets() {
        exporter = exporter.set_buckets_for_metric(Matcher::Full(name.into()), bounds)?;
    }
    exporter.install_recorder()
}

async fn accept(listener: TcpListener, page: Arc<Page>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= MOST {
            connections.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(timeout(TIMEOUT, serve_connection(stream, Arc::clone(&page))));
            }
            // Most likely too many open files, which is temporary.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(stream: TcpStream, page: Arc<Page>) {
    let service = service_fn(|request| {
        let answer = respond(&request, &page);
        async { Ok::<_, Infallible>(answer) }
    });
    // One response per connection, because idle ones would block others. The client notices if it breaks.
    let _ = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn respond(request: &Request<Incoming>, page: &Page) -> Response<Full<Bytes>> {
    let (status, kind, text) = match (request.uri().path(), request.method()) {
        ("/metrics", &Method::GET) => {
            (StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page.render())
        }
        ("/metrics", _) => {
            (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET is allowed\n".to_owned())
        }
        _ => (StatusCode::NOT_FOUND, "text/plain", "metrics are at /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, header::HeaderValue::from_static("GET"));
    }
    response
}
