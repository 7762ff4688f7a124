//! The metrics that a worker serves.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::Child;

use reqwest::{Client, Method, StatusCode};

use super::deliver::Receiver;
use super::{Lab, fails, good};

/// A worker, and the address of its metrics.
struct Scraped {
    worker: Child,
    url: String,
    client: Client,
}

impl Scraped {
    fn start(lab: &Lab, args: &[&str]) -> Self {
        let serve = ["--metrics", "127.0.0.1:0", "--depth-every", "50ms"];
        let mut worker = lab.start(&[args, &serve].concat());
        let mut told = BufReader::new(worker.stderr.take().unwrap()).lines();
        let url = loop {
            let line = told.next().unwrap().unwrap();
            if let Some(url) = line.strip_prefix("redial: metrics at ") {
                break url.to_owned();
            }
        };
        // An unread pipe would block it.
        std::thread::spawn(move || told.for_each(drop));
        Self { worker, url, client: Client::builder().no_proxy().build().unwrap() }
    }

    async fn ask(&self, method: Method, path: &str) -> (StatusCode, String, String) {
        let url = self.url.replace("/metrics", path);
        let answer = self.client.request(method, url).send().await.unwrap();
        let header = |name| {
            answer.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
        };
        let (status, kind, allow) = (answer.status(), header("content-type"), header("allow"));
        let text = answer.text().await.unwrap();
        (status, if allow.is_empty() { kind } else { allow }, text)
    }

    async fn scrape(&self) -> BTreeMap<String, f64> {
        let (status, kind, text) = self.ask(Method::GET, "/metrics").await;
        assert_eq!((status, &*kind), (StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8"));
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|line| {
                let (series, value) = line.rsplit_once(' ').unwrap();
                (series.to_owned(), value.parse().unwrap())
            })
            .collect()
    }

    /// Scrapes until all of these samples are there.
    async fn until(&self, expected: &[(&str, f64)]) -> BTreeMap<String, f64> {
        for _ in 0..600 {
            let scrape = self.scrape().await;
            if expected.iter().all(|(series, value)| scrape.get(*series) == Some(value)) {
                return scrape;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("{expected:?}: {:#?}", self.scrape().await);
    }

    fn end(mut self) -> Option<i32> {
        let kill = crate::program("kill").arg(self.worker.id().to_string()).status();
        assert!(kill.unwrap().success());
        self.worker.wait().unwrap().code()
    }
}

#[tokio::test]
async fn metrics_are_served_while_jobs_fail_and_are_retried() {
    let lab = Lab::new();
    good(&lab.feed(&["queue", "add", "--lines"], b"0\n9\n1\n"));
    let hold = "read code; test $code != 0 || while ! test -e go; do sleep 0.02; done; exit $code";
    let scraped = Scraped::start(&lab, &["--exec", hold, "--stop-on-exit", "9", "--workers", "4"]);
    let of = |name: &str, label: &str| format!("{name}{{queue=\"default\"{label}}}");
    let scrape = scraped
        .until(&[
            (&of("redial_queue_depth", ",state=\"running\""), 1.0),
            (&of("redial_queue_depth", ",state=\"dead\""), 2.0),
            (&of("redial_queue_jobs_total", ",result=\"dead\""), 2.0),
            (&of("redial_queue_stops_total", ",reason=\"attempts\""), 1.0),
            (&of("redial_queue_stops_total", ",reason=\"permanent\""), 1.0),
            (&of("redial_queue_retries_total", ",reason=\"transient\""), 2.0),
            (&of("redial_queue_inflight_jobs", ""), 1.0),
            (&of("redial_queue_worker_utilization_ratio", ""), 0.25),
            (&of("redial_queue_age_seconds", ""), 0.0),
            (&of("redial_queue_log_lines_dropped_total", ""), 0.0),
            ("redial_calls_total{upstream=\"default\",origin=\"fresh\"}", 3.0),
            ("redial_attempts_total{upstream=\"default\"}", 5.0),
            ("redial_retries_total{upstream=\"default\",reason=\"transient\"}", 2.0),
            ("redial_inflight_requests{upstream=\"default\"}", 1.0),
        ])
        .await;
    let page = include_str!("../../../../../docs/queue.md");
    let known: Vec<_> = redial::telemetry::METRICS.iter().map(|metric| metric.name).collect();
    for series in scrape.keys() {
        let name = series.split('{').next().unwrap();
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let told = known.contains(&base.unwrap_or(name)) || page.contains(&format!("| `{name}"));
        assert!(told, "{name} is nowhere explained");
    }
    lab.scratch.file("go", "");
    scraped.until(&[(&of("redial_queue_jobs_total", ",result=\"done\""), 1.0)]).await;
    let (status, allow, _) = scraped.ask(Method::POST, "/metrics").await;
    assert_eq!((status, &*allow), (StatusCode::METHOD_NOT_ALLOWED, "GET"));
    for path in ["/", "/metrics/", "/stats"] {
        let (status, _, text) = scraped.ask(Method::GET, path).await;
        assert_eq!((status, &*text), (StatusCode::NOT_FOUND, "metrics are at /metrics\n"));
    }
    let address = scraped.url["http://".len()..].trim_end_matches("/metrics").to_owned();
    assert_eq!(scraped.end(), Some(0));
    assert!(TcpStream::connect(address).is_err(), "it is gone with the worker");
}

#[tokio::test]
async fn attempts_of_deliveries_are_counted_by_response() {
    let (lab, receiver) = (Lab::new(), Receiver::new());
    lab.ok(&["queue", "send", "-d", "x", &receiver.url()]);
    let scraped = Scraped::start(&lab, &[]);
    let answers = ["503 Service Unavailable", "429 Too Many Requests", "200 OK"];
    std::thread::spawn(move || answers.map(|status| receiver.receive().answer(status)));
    scraped
        .until(&[
            ("redial_queue_retries_total{queue=\"default\",reason=\"overloaded\"}", 1.0),
            ("redial_queue_retries_total{queue=\"default\",reason=\"throttled\"}", 1.0),
            ("redial_queue_jobs_total{queue=\"default\",result=\"done\"}", 1.0),
            ("redial_calls_total{upstream=\"default\",origin=\"fresh\"}", 1.0),
            ("redial_attempts_total{upstream=\"default\"}", 3.0),
            ("redial_amplification_ratio{upstream=\"default\"}", 3.0),
        ])
        .await;
    assert_eq!(scraped.end(), Some(0));
}

#[tokio::test]
async fn idle_connections_do_not_block_others() {
    let lab = Lab::new();
    lab.ok(&["queue", "add", "--payload", "x"]);
    let scraped = Scraped::start(&lab, &["--exec", "true"]);
    let address = &scraped.url["http://".len()..].trim_end_matches("/metrics");
    let _silent: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    let done = "redial_queue_jobs_total{queue=\"default\",result=\"done\"}";
    scraped.until(&[(done, 1.0)]).await;
    assert_eq!(scraped.end(), Some(0));
}

#[test]
fn an_unusable_metrics_address_is_reported_before_any_work() {
    let lab = Lab::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let work = ["queue", "work", "--exec", "true", "--until", "empty"];
    let run = |args: &[&str]| lab.run(&[&work[..], args].concat());
    let output = run(&["--metrics", &taken]);
    fails(&output, 2, &format!("--metrics {taken}: cannot listen: Address already in use"));
    assert_eq!(crate::text(&output.stderr).lines().count(), 1, "{output:?}");
    for wrong in ["localhost", "127.0.0.1", "9464", "127.0.0.1:70000", ""] {
        fails(&run(&["--metrics", wrong]), 2, "such as 127.0.0.1:9464");
    }
    fails(&run(&["--depth-every", "1s"]), 2, "--metrics");
    assert!(!std::fs::exists(lab.scratch.path("jobs.db")).unwrap());
}
