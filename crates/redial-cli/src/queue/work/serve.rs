//! The metrics endpoint of a worker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use metrics_exporter_prometheus::PrometheusHandle;
use metrics_exporter_prometheus::formatting::sanitize_label_value;
use redial::telemetry::{self, Meter};
use redial_policy::file::Address;
use redial_proxy::{PageServer, prometheus_builder};
use redial_queue::durable::Worker;
use redial_queue::telemetry::QueuePublisher;
use tokio::task::JoinSet;

use super::log::Log;
use crate::duration;
use crate::failed::Failed;
use crate::stderr::Stderr;

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
    pub(super) fn listen(&self) -> Result<Option<Listening>, Failed> {
        let Some(address) = self.metrics else { return Ok(None) };
        let cannot = |why: std::io::Error| {
            let hint = "try another port, or 0 for any free port";
            Failed::Input(format!("--metrics {address}: cannot listen: {why}; {hint}"))
        };
        let server = PageServer::bind(&Address::Tcp(address)).map_err(cannot)?;
        Ok(Some(Listening { server, depth_every: self.depth_every }))
    }
}

/// A bound listener that accepts no connections yet.
pub(super) struct Listening {
    server: PageServer,
    depth_every: Duration,
}

/// A running server, which ends when this is dropped.
pub(super) struct Served(#[expect(dead_code, reason = "dropping it ends the tasks")] JoinSet<()>);

impl Listening {
    /// Serves the metrics of a worker.
    pub(super) fn serve(self, worker: Worker, log: &Log) -> Result<(Worker, Served), Failed> {
        let Self { server, depth_every } = self;
        let handle = prometheus_builder()
            .install_recorder()
            .map_err(|why| Failed::Other(format!("--metrics: {why}")))?;
        let queue = worker.queue().clone();
        let worker = worker.observe(Meter::over(queue.name(), WINDOW));
        let publisher = QueuePublisher::new(queue).worker(worker.gauge()).depth_every(depth_every);
        let mut tasks = JoinSet::new();
        tasks.spawn(publisher.run(std::future::pending()));
        log.serves(&format!("http://{}/metrics", server.address()));
        let page = Arc::new(Page {
            handle,
            queue: worker.queue().name().to_owned(),
            stderr: Arc::clone(log.stderr()),
        });
        tasks.spawn(server.serve(move |request| respond(request, &page)));
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

fn respond(request: &Parts, page: &Page) -> Response<String> {
    let (status, kind, text) = match (request.uri.path(), &request.method) {
        ("/metrics", &Method::GET) => {
            (StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page.render())
        }
        ("/metrics", _) => {
            (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET is allowed\n".to_owned())
        }
        _ => (StatusCode::NOT_FOUND, "text/plain", "metrics are at /metrics\n".to_owned()),
    };
    let mut response = Response::new(text);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET"));
    }
    response
}
